"""The ConfigMap NAME-config: who may log in and how, and for the next start the parameters and whose data.

Files of our own, outside the data directory. With another operator's rules of login the Pod is another; what
`spec.tls` says in them, a running server reads again (`reload`). So it is with the parameters: a running
server gets them from `kindling.prober.parameters`, a starting one from here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import child_metadata
from kindling.kinds.postgresql import archiver, defaults, parameters
from kindling.kinds.postgresql.initdb import IDENTIFIER, KEEP_PREVIOUS, PARAMETERS
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kube.resources import CONFIG_MAP, Object, Ref, ResourceType

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
RULES = {"pg_hba.conf": HBA, "pg_ident.conf": IDENT}
RULES_HASH = hashlib.sha256(json.dumps(RULES, sort_keys=True).encode()).hexdigest()[:16]
"""Changes with the rules of login, but for whether they ask for TLS."""
_ANY, _TLS = "\nhost all ", "\nhostssl all "


def hba(*, tls_required: bool) -> str:
    """The rules: with `tls_required`, none lets anybody in from elsewhere without TLS."""
    return HBA.replace(_ANY, _TLS) if tls_required else HBA


def config_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-config"


def ref_of(cr: Object) -> Ref:
    return Ref(CONFIG_MAP, cr["metadata"]["namespace"], config_name(cr))


def values(cr: Object, observed: Observed) -> dict[str, str]:
    """The parameters of the next start, by name, the defaults among them."""
    archives = archiver.parameters(archiver.find(cr, observed))
    return {**defaults.of(cr, observed), **parameters.read(cr), **archives}


def build(
    type: ResourceType,
    cr: Object,
    values: Mapping[str, str],
    *,
    identifier: str | None,
    tls_required: bool = False,
    keeps_previous: bool = False,
) -> Child:
    """`values` are those of `values`; `identifier` is that of the data which must be there;
    with `keeps_previous` the data from before a restore in place is.
    """
    return Child(
        type=CONFIG_MAP,
        body={
            "metadata": child_metadata(type, cr, name=config_name(cr)),
            "data": {
                **RULES,
                "pg_hba.conf": hba(tls_required=tls_required),
                PARAMETERS: parameters.conf(values),
                IDENTIFIER: identifier or "",
                **({KEEP_PREVIOUS: "true"} if keeps_previous else {}),
            },
        },
    )
