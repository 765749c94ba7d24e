"""A status field, a column or a metric that nothing compares with the thing it speaks of fails here."""

from __future__ import annotations

import pytest
from kindling.engine.resource_metrics import catalogue
from kindling.kinds.base import Kind

from infra import yaml_text
from tests.cluster.claims import CLAIMS
from tests.cluster.claims.contract import COMMON_METRICS, places
from tests.cluster.stack import ROOT
from tests.unit.schema.worlds import KINDS

CRDS = [yaml_text.load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: str(crd["metadata"]["name"]))
def test_every_field_and_column_has_a_claim_and_no_claim_is_of_nothing(crd: dict[str, object]) -> None:
    name = str(crd["metadata"]["name"])  # type: ignore[index]
    assert set(CLAIMS[name].claims) == set(places(crd))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_every_metric_of_a_resource_has_a_claim_and_no_claim_is_of_none(kind: Kind) -> None:
    claims = {*COMMON_METRICS, *CLAIMS[f"{kind.type.plural}.{kind.type.group}"].metrics}
    assert claims == {metric.name for metric in catalogue([kind])}
