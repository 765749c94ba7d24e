"""The Pulumi program: load the stack's settings, declare its environment."""

import pulumi

from infra import program, settings
from infra.errors import KindlingError

try:
    program.build(settings.load(pulumi.Config().get, stack=pulumi.get_stack()))
except KindlingError as error:
    raise pulumi.RunError(str(error)) from None
