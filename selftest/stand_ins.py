"""What is real here and what is not, in words, for the kinds that were tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable

DATABASES = frozenset({"Postgresql", "Backup", "Restore"})
STORES = frozenset({"Backup", "Restore"})


def real(kinds: Iterable[str], *, postgresql: str) -> list[str]:
    """`postgresql` is the server's version."""
    found = [
        "kube-apiserver, etcd and Kubernetes' controllers, started for this run",
        "the operator of this checkout, a process with the rights that a release grants",
    ]
    if DATABASES & set(kinds):
        found.append(f"PostgreSQL {postgresql} of this machine: the operator's logins, roles and databases")
    return found


def simulated(kinds: Iterable[str]) -> list[str]:
    tried = set(kinds)
    found = [
        "nodes: no container runs and no image is pulled; each Pod is Ready a second after it is made, with "
        "any StorageClass, node selector and service account",
    ]
    if DATABASES & tried:
        found.append(
            "a database's Pod: the server beside it has the Pod's Secrets and ConfigMap, and starts again "
            "with each new Pod; one that cannot start here with its parameters starts without them"
        )
    if STORES & tried:
        found.append("the object store: each run of a Backup or Restore ends well, whatever keys it has")
    if "PulsarConsumer" in tried:
        found.append(
            "the broker: its admin API knows no topic and lets any subscription be deleted; no address of "
            "the files is asked"
        )
    if "Memcached" in tried:
        found.append("caches: none answers, so one with spec.auth or spec.tls does not become Ready")
    return found
