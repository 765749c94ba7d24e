"""spec.logging of a Postgresql: whether its server logs text, PostgreSQL's own, or JSON, a line a message.

JSON is for whoever collects logs: each message has its user, database, application and SQLSTATE as fields,
and one of several lines is one message. PostgreSQL writes it to files alone, by its collector, so
`postgres-init serve` gives that the container's standard error for a file.
"""

from __future__ import annotations

from collections.abc import Mapping

from kindling.kinds import reasons
from kindling.kinds.base import Problem
from kindling.kube.resources import Object

FIELD = "logging"
FORMAT = f"spec.{FIELD}.format"
JSON = "JSON"
FILES = "/tmp/kindling-logs"
_TO = f"--logs={FILES}"

PARAMETERS = (
    "log_destination", "log_directory", "log_file_mode", "log_filename", "log_rotation_age",
    "log_rotation_size", "log_truncate_on_rotation", "logging_collector",
)  # fmt: skip
"""Those that say where the log goes, which JSON decides; the CRD has the same."""


def is_json(cr: Object) -> bool:
    return ((cr.get("spec") or {}).get(FIELD) or {}).get("format") == JSON


def arguments(cr: Object) -> list[str]:
    """What `postgres-init serve` needs for it, as arguments."""
    return [_TO] if is_json(cr) else []


def differs(cr: Object, template: Object) -> bool:
    """Whether the server of this Pod template logs in the other format."""
    containers = (template.get("spec") or {}).get("containers") or ()
    present = any(_TO in (item.get("command") or ()) for item in containers)
    return present is not is_json(cr)


def validate(cr: Object, parameters: Mapping[str, str]) -> Problem | None:
    """A parameter that would send the log elsewhere."""
    found = [name for name in PARAMETERS if name in parameters]
    if not found or not is_json(cr):
        return None
    return Problem(
        reason=reasons.INVALID_SPEC,
        message=(
            f"spec.parameters.{found[0]} says where the log goes, and {FORMAT} 'JSON' has it go to the "
            "container's output: leave one of them out."
        ),
    )
