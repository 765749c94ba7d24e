"""What the plugin serves, under which name and version, and how it says that an input is wrong."""

from __future__ import annotations

import json
import sys
from typing import Any

from pulumi import ComponentResource, InputPropertiesError, InputPropertyError, Output, ResourceOptions
from pulumi.provider import ConstructResult, main
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from infra.errors import KindlingError
from infra.package.cache import Cache
from infra.package.consumer import Consumer
from infra.package.database import Database
from infra.package.operator_component import Operator
from infra.project import PROJECT

COMPONENTS: list[type[ComponentResource]] = [Cache, Consumer, Database, Operator]
VERSION = "0.0.0"
"""Of a checkout. A release has its own."""


class Provider(ComponentProvider):
    """Pulumi's own, which says a wrong input by name and without the stack of calls that led to it.

    As of Pulumi 3.259, `component_provider_host` shows that stack for every error of a component.
    """

    def construct(
        self, name: str, resource_type: str, inputs: Any, options: ResourceOptions | None = None
    ) -> ConstructResult:
        component = self._component_defs.get(resource_type.rpartition(":")[2])
        for key, found in component.inputs.items() if component else ():
            # Generated SDKs do not allow it, but a program without one can.
            if found.plain and isinstance(inputs.get(key), Output):
                raise InputPropertyError(key, "is known too late: set it to a value that is not computed")
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, InputPropertyError):
                raise error.inner from None
            if isinstance(error.inner, KindlingError):
                raise InputPropertiesError(str(error.inner)) from None
            raise


def provider() -> Provider:
    return Provider(COMPONENTS, PROJECT, None, VERSION)


def schema() -> str:
    """What is in schema.json: the package's inputs and outputs, from which SDKs are generated."""
    return json.dumps(json.loads(provider().schema or "{}"), indent=2) + "\n"


def serve() -> None:
    """Answer Pulumi until it ends the process."""
    main(provider(), sys.argv[1:])
