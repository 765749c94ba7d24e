"""What every Pod of ours has in common, whatever it runs: the restricted pod security standard and more.

More is a read-only root file system, no token of a service account, no variables about other Services, and
when images are pulled.
"""

from __future__ import annotations

from collections.abc import Sequence

from kindling.kube.resources import Object

CONTAINER: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""The security context of each container."""


def pod(
    cr: Object, *, uid: int, volumes: bool = False, grace_seconds: int, pull_secrets: Sequence[str] = ()
) -> Object:
    """The part of a Pod's spec that says so; with `volumes`, they belong to the user's group.

    With the resource's `spec.imagePullSecrets`, if it has any, else `pull_secrets`: these are for the
    operator's own images, so a resource that names its image gets none of them.
    """
    spec = cr.get("spec") or {}
    secrets = spec.get("imagePullSecrets")
    if secrets is None and not spec.get("image"):
        secrets = [{"name": name} for name in pull_secrets]
    security: Object = {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if volumes:
        # On the root's mismatch alone: walking through a large volume at each start takes long.
        security |= {"fsGroup": uid, "fsGroupChangePolicy": "OnRootMismatch"}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds,
        "securityContext": security,
        # No empty list where there are none: another template would restart what runs.
        **({"imagePullSecrets": secrets} if secrets else {}),
    }


def image(name: str) -> Object:
    """A container's image, and when it is pulled: each time where its tag is `latest`, said or not.

    As Kubernetes decides by itself, but then once and for all: an image that is edited would keep its first
    one's policy.
    """
    tag = name.partition("@")[0].rpartition("/")[2].partition(":")[2]
    latest = tag == "latest" or not (tag or "@" in name)
    return {"image": name, "imagePullPolicy": "Always" if latest else "IfNotPresent"}


def spread(selector: Object) -> list[Object]:
    """Over the nodes, where there are several; one node still holds all."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }
    ]
