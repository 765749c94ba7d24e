"""The ConfigMap NAME-config: who may log in and how, and for the next start the parameters and whose data.

Files of our own, outside the data directory. With another operator's rules of login the Pod is another;
what `spec.hba` and `spec.tls` say in them, a running server reads again (`reload`). So it is with the
parameters: a running server gets them from `kindling.prober.parameters`, a starting one from here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import child_metadata
from kindling.kinds.postgresql import archiver, client_certificates, defaults, hba, parameters
from kindling.kinds.postgresql.initdb import IDENTIFIER, KEEP_PREVIOUS, PARAMETERS
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kube.resources import CONFIG_MAP, Object, Ref, ResourceType

HBA_FILE = "pg_hba.conf"
IDENT = f"""\
kindling postgres {SUPERUSER}
"""
RULES = {HBA_FILE: hba.DEFAULT, "pg_ident.conf": IDENT}
RULES_HASH = hashlib.sha256(json.dumps(RULES, sort_keys=True).encode()).hexdigest()[:16]
"""Changes with the rules of login, but for `spec.hba` and whether they ask for TLS."""


def config_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-config"


def ref_of(cr: Object) -> Ref:
    return Ref(CONFIG_MAP, cr["metadata"]["namespace"], config_name(cr))


def values(cr: Object, observed: Observed) -> dict[str, str]:
    """The parameters of the next start, by name, the defaults among them."""
    archives = archiver.parameters(archiver.find(cr, observed))
    checks = client_certificates.parameters(cr)
    return {**defaults.of(cr, observed), **parameters.read(cr), **checks, **archives}


def build(
    type: ResourceType,
    cr: Object,
    values: Mapping[str, str],
    *,
    identifier: str | None,
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
                HBA_FILE: hba.of(cr),
                PARAMETERS: parameters.conf(values),
                IDENTIFIER: identifier or "",
                **({KEEP_PREVIOUS: "true"} if keeps_previous else {}),
            },
        },
    )
