"""What each kind says of itself, field by field, and how the thing itself is asked whether it is so.

`CLAIMS` has every kind by its CRD's name. `tests/unit/schema/test_claims.py` fails for a status field or
a printer column that has no claim; `tests/cluster/test_claims.py` puts each to the running thing.
"""

from __future__ import annotations

from tests.cluster.claims import (
    backup,
    bindingimport,
    memcached,
    mycustomresource,
    postgresql,
    pulsarconsumer,
    restore,
)
from tests.cluster.claims.contract import KindClaims

CLAIMS: dict[str, KindClaims] = {
    "backups.database.technotuesday.io": backup.CLAIMS,
    "bindingimports.database.technotuesday.io": bindingimport.CLAIMS,
    "restores.database.technotuesday.io": restore.CLAIMS,
    "postgresqls.database.db.example.com": postgresql.CLAIMS,
    "postgresqls.database.technotuesday.io": postgresql.CLAIMS,
    "memcacheds.cache.example.com": memcached.CLAIMS,
    "pulsarconsumers.pulsar.pulsarconsumer.krvarma.com": pulsarconsumer.CLAIMS,
    "mycustomresources.poc.test.domain": mycustomresource.CLAIMS,
}
