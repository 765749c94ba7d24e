"""An existing cluster, asked by kubectl through a context of the user's kubeconfig.

Only asked: what is made in it is made through Pulumi's provider, which takes the same context. The
credentials stay in the kubeconfig. `infra.drivers.in_cluster` asks the cluster it runs in, without kubectl.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import processes
from infra.errors import KindlingError

SECONDS = 10
# The one object of a cluster that is as old as the cluster and never made again.
MARK = "kube-system"
IN_CLUSTER = "in-cluster"
"""What `kindling:context` says instead of a context's name; `infra.drivers.in_cluster` asks that cluster."""


# What the operator and the CRDs need; kindling.kube.versions says why.
OLDEST = (1, 30)

# klog's own form: level, month and day, time.
_LOGGED = re.compile(r"[IWEF][0-9]{4} [0-9:.]+ ")


@dataclass(frozen=True)
class Permission:
    """A verb on a resource (or RESOURCE/SUBRESOURCE) of a group, in one namespace or (empty) everywhere."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        resource, slash, part = self.resource.partition("/")
        name = (f"{resource}.{self.group}" if self.group else resource) + slash + part
        return f"{self.verb} {name}" + (f" in {self.namespace}" if self.namespace else "")


class ClusterAccess(ABC):
    """What is asked of an existing cluster before anything is made in it, by whatever way."""

    context: str

    @abstractmethod
    def uid(self) -> str:
        """Which cluster it is: an id that no other has, and that it keeps for life."""

    @abstractmethod
    def missing(self, rights: Sequence[Permission]) -> list[Permission]:
        """Those of the permissions that the user does not have."""

    @abstractmethod
    def _version(self) -> str:
        """The API server's `gitVersion`."""

    def recent(self) -> None:
        """:raises KindlingError: when the cluster's Kubernetes is older than the operator needs."""
        version = self._version()
        found = re.match(r"v?([0-9]+)\.([0-9]+)", version)
        if found is not None and (int(found[1]), int(found[2])) < OLDEST:
            raise KindlingError(
                f"the cluster of context `{self.context}` runs Kubernetes {version}",
                why=f"{OLDEST[0]}.{OLDEST[1]} is the oldest that works",
                remedy="upgrade the cluster, or name another in kindling:context; nothing was changed.",
            )


@dataclass(frozen=True)
class ClusterContext(ClusterAccess):
    """By kubectl. `kubeconfig` empty means where kubectl looks by itself."""

    kubectl: Path
    context: str
    kubeconfig: str = ""

    def uid(self) -> str:
        return self._run("get", "namespace", MARK, "--output=jsonpath={.metadata.uid}").strip()

    def _version(self) -> str:
        return str(json.loads(self._run("get", "--raw=/version")).get("gitVersion", ""))

    def missing(self, rights: Sequence[Permission]) -> list[Permission]:
        reviews = [review(right) for right in rights]
        asked = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
        wanted = "--output=jsonpath={.status.allowed} "
        # Each is answered in turn; no schema need be fetched to know that they are well made.
        allowed = self._run("create", "--filename=-", "--validate=false", wanted, stdin=asked).split()
        return [right for right, has in zip(rights, allowed, strict=True) if has != "true"]

    def _run(self, *args: str, stdin: str | None = None) -> str:
        try:
            return processes.run(
                [self.kubectl, f"--context={self.context}", f"--request-timeout={SECONDS}s", *args],
                timeout=3 * SECONDS,
                env=env_vars(self.kubeconfig),
                stdin=stdin,
            )
        except processes.ProgramError as error:
            raise explain(error.why or error.what, context=self.context) from None


def review(right: Permission) -> dict[str, Any]:
    """The question whether the user who asks has it, as a SelfSubjectAccessReview."""
    resource, _, subresource = right.resource.partition("/")
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": right.verb,
                "resource": resource,
                "subresource": subresource,
                "group": right.group,
                "namespace": right.namespace,
            }
        },
    }


def env_vars(kubeconfig: str) -> dict[str, str]:
    """What kubectl and Pulumi's provider need to look into that file."""
    return {"KUBECONFIG": str(Path(kubeconfig).expanduser().absolute())} if kubeconfig else {}


def another_cluster(context: str, found: str, recorded: str, *, stack: str, remedy: str) -> KindlingError:
    """What is wrong where a context leads to the cluster `found`, and the stack is in `recorded`."""
    return KindlingError(
        f"the context `{context}` leads to another cluster than the one {stack} is in",
        why=f"the namespace kube-system there has the uid {found}, not {recorded}",
        remedy=f"point the context back. If the old cluster is gone for good{remedy}",
    )


class NoContext(KindlingError):
    """The kubeconfig has no context of that name."""


def explain(message: str, *, context: str) -> KindlingError:
    """kubectl's complaint as an error with a remedy."""
    # The log of its tries says the same, again and again, before the verdict.
    lines = [line.strip() for line in message.splitlines()]
    message = "\n".join(line for line in lines if not _LOGGED.match(line)).removeprefix("error: ") or message
    lowered = message.lower()
    if "context" in lowered and ("does not exist" in lowered or "not found for specified context" in lowered):
        where = os.environ.get("KUBECONFIG") or "~/.kube/config"
        return NoContext(
            f"there is no context `{context}`",
            why=message,
            remedy="set kindling:context to one that `kubectl config get-contexts` lists, or "
            f"kindling:kubeconfig or KUBECONFIG (now {where}) to the file that has it.",
        )
    if "unauthorized" in lowered or "must be logged in" in lowered:
        return KindlingError(
            f"the cluster of context `{context}` does not accept its credentials",
            why=message,
            remedy="renew them in the kubeconfig; nothing was changed.",
        )
    if "forbidden" in lowered:
        return KindlingError(
            f"the credentials of context `{context}` lack a right",
            why=message,
            remedy="docs/guides/existing-clusters.md lists the rights that are needed.",
        )
    return KindlingError(
        f"the cluster of context `{context}` cannot be reached",
        why=message,
        remedy="check that its API server runs and can be reached from here; nothing was changed.",
    )
