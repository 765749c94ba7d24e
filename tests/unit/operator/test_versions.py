"""Which versions of Kubernetes are too old, however a provider spells them."""

from __future__ import annotations

import pytest
from kindling.kube.versions import too_old


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("v1.29.14", True),
        ("v1.9.0", True),
        ("v0.30.0", True),
        ("v1.29.10-gke.1155000", True),
        ("v1.30.0", False),
        ("1.30", False),
        ("v1.30.2-eks-1-30-8", False),
        ("v1.34.4", False),
        ("v2.0.0", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_older_than_what_is_needed(version: str, old: bool) -> None:
    assert too_old(version) is old
