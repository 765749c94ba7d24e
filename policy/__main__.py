"""The rules of `infra/policies.py` as a policy pack, for whoever keeps rules for many projects.

    pulumi preview --policy-pack policy

The program asks the same rules of itself (`infra.policy_enforcement`); a pack also judges what another
program declares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra import policies


def plain(value: Any) -> Any:
    """The pack's view of properties as the rules take them: what is not known yet is marked, and no error."""
    if isinstance(value, Mapping):
        return {key: _part(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_part(value, index) for index in range(len(value))]
    return value


def _part(owner: Any, key: Any) -> Any:
    try:
        return plain(owner[key])
    except UnknownValueError:
        return policies.UNKNOWN


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report each violation by its field and remedy: a pack is not told which values are secret."""
    if not policies.concern(args.resource_type):
        return
    for violation in policies.violations(args.resource_type, args.name, plain(args.props)):
        report(violation.without_value)


PolicyPack(
    name="kindling",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(
            name="no-resource-may",
            description="Named images, limits, restricted Pods, no wildcard rights, closed admission.",
            validate=validate,
        )
    ],
)
