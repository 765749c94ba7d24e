"""Kubernetes' own controllers beside the API server: kube-controller-manager, the real one.

With it owners are garbage collected, and Deployments and StatefulSets make Pods; what then becomes
of the Pods is `kubelet`'s affair. Apart from the control plane, whose other tests need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.apiserver.support.controlplane import ControlPlane, Program, background, tool

# What a resource of ours can meet. Not among them is what needs disks or a cloud; nodes only some tests have.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)

NODE_SECONDS = 5


@contextmanager
def controllers(plane: ControlPlane) -> Iterator[Program]:
    """Run them, and end them on leaving. CRDs made before this are garbage collected from the start."""
    words: list[str | Path] = [
        tool("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        f"--service-account-private-key-file={plane.directory / 'service-account.pem'}",
        f"--root-ca-file={plane.ca}",
        "--leader-elect=false",
        "--secure-port=0",
        # A test waits for them; in a cluster they are slowed down to spare the server.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        # As soon as the node that a test adds reports nothing more.
        f"--node-monitor-grace-period={NODE_SECONDS}s",
        f"--node-startup-grace-period={NODE_SECONDS}s",
        "--node-monitor-period=1s",
    ]
    with background(words, log=plane.directory / "kube-controller-manager.log") as running:
        yield running
