"""Every right that Backup and Restore alone ask for is used in their scenarios, and none is missing.

With the harness of the sweeps: their runs end well only where something is in the store's place.
"""

from __future__ import annotations

import pytest

from tests.apiserver.support.kinds import WITH_A_STORE
from tests.convergence.harness import Harness
from tests.convergence.rights import denied, of_a_store, used
from tests.convergence.scenarios import SCENARIOS


@pytest.mark.thorough
def test_every_right_of_the_kinds_with_a_store_is_used(harness: Harness) -> None:
    mark = harness.cluster.audit.mark()
    harness.references.clear()
    harness.learn([scenario for scenario in SCENARIOS if scenario.kind.type.kind in WITH_A_STORE])
    requests = harness.cluster.audit.requests(mark)
    assert denied(requests) == set()
    assert {str(right) for right in of_a_store() - used(requests)} == set()
