"""The oldest Kubernetes that works, and whether a server is older.

What needs 1.30: `preStop.sleep` of memcached, sidecars of PulsarConsumer (init containers that restart), and
the CRDs' rules on quantities. An older API server drops the first two in silence.
"""

from __future__ import annotations

import re

OLDEST = (1, 30)


def too_old(version: str) -> bool:
    """Whether a server of this version (`v1.29.3`, `v1.30.2-gke.100`) lacks what we need.

    What is no version is not held back: of it nothing is known.
    """
    found = re.match(r"v?([0-9]+)\.([0-9]+)", version)
    return found is not None and (int(found[1]), int(found[2])) < OLDEST
