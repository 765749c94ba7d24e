"""References to container images and registries, and which kinds run which images.

A reference here is well-formed and stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# An operand that is not here is run for every kind.
RUN_BY: Mapping[str, tuple[str, ...]] = {
    "exporters": ("Memcached", "Postgresql"),
    "memcached": ("Memcached",),
    "postgres": ("Postgresql",),
    "postgres-backup": ("Backup", "Restore"),
    "postgres-init": ("Postgresql",),
    "pulsar-consumer": ("PulsarConsumer",),
}

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# A reference with a tag or a digest: a bare name would mean `latest`, which is another image every day.
IMAGE = r"[a-z0-9][a-z0-9._/:-]*?(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})"
_IMAGE = re.compile(IMAGE)
# The first part is a host by the rule of container engines: it has a dot or a port, or is localhost.
_HOST = r"(localhost|(?=[^/]*[.:])[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[0-9]{1,5})?"
_PATH = r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)"
_REGISTRY = re.compile(f"{_HOST}{_PATH}*")
_BY_DIGEST = re.compile(f"{_HOST}{_PATH}+@sha256:[0-9a-f]{{64}}")


def is_reference(text: str) -> bool:
    """Whether it is an image with a tag that may stay what it is, or a digest."""
    return bool(_IMAGE.fullmatch(text)) and not text.endswith(":latest")


def is_registry(text: str) -> bool:
    """Whether it is `HOST[:PORT]/PREFIX`; the prefix may be empty."""
    return bool(_REGISTRY.fullmatch(text)) and len(text) <= 200


def by_digest(found: object) -> dict[str, str] | None:
    """References by digest, by the image's name, in order; None where it is anything else."""
    if not isinstance(found, dict):
        return None
    for name, reference in found.items():
        if not _NAME.fullmatch(name) or not isinstance(reference, str):
            return None
        if not _BY_DIGEST.fullmatch(reference):
            return None
    return dict(sorted(found.items()))


def is_run_by(operand: str, kinds: Sequence[str]) -> bool:
    """Whether the operator runs the operand for one of these kinds, for any where none is named."""
    return not kinds or operand not in RUN_BY or bool({*RUN_BY[operand]} & {*kinds})
