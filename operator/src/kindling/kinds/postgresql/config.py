"""The ConfigMap NAME-config: who may log in, and how.

Files of our own, outside the data directory: what is in there stays as initdb made it.
"""

from __future__ import annotations

from kindling.kinds.contract import Child, labels_of, owner_of
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kube.resources import CONFIG_MAP, Object, ResourceType

# Inside the Pod the server's own system user is the superuser (the way back in when the Secret is
# lost); from anywhere else everyone needs their password.
HBA = f"""\
local all {SUPERUSER} peer map=kindling
local all all scram-sha-256
host all all all scram-sha-256
"""
IDENT = f"""\
kindling postgres {SUPERUSER}
"""


def config_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-config"


def build(type: ResourceType, cr: Object) -> Child:
    return Child(
        type=CONFIG_MAP,
        body={
            "metadata": {
                "namespace": cr["metadata"]["namespace"],
                "name": config_name(cr),
                "labels": labels_of(type, cr),
                "ownerReferences": [owner_of(type, cr)],
            },
            "data": {"pg_hba.conf": HBA, "pg_ident.conf": IDENT},
        },
    )
