"""A status field or a printer column that nothing compares with the thing it speaks of fails here."""

from __future__ import annotations

import pytest
import yaml

from tests.cluster.claims import CLAIMS
from tests.cluster.claims.contract import places
from tests.cluster.stack import ROOT

CRDS = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: str(crd["metadata"]["name"]))
def test_every_field_and_column_has_a_claim_and_no_claim_is_of_nothing(crd: dict[str, object]) -> None:
    name = str(crd["metadata"]["name"])  # type: ignore[index]
    assert set(CLAIMS[name].claims) == set(places(crd))
