"""kind: clusters by name, with a mark that says whose they are.

The mark is a read-only mount of a small file into each node container. It is there from the first
instant, so that even a cluster cut off half-made can be distinguished from one of others and removed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import paths, processes
from infra.drivers.engine import ContainerEngine
from infra.errors import KindlingError

MARK = "/kind/kindling-incarnation"
_LABEL = "io.x-k8s.kind.cluster"


@dataclass(frozen=True)
class KindCli:
    """The kind program over one engine."""

    program: Path
    engine: ContainerEngine

    @classmethod
    def readonly(cls, engine: ContainerEngine) -> KindCli:
        """For questions about clusters, which take the engine alone: kind itself may be missing."""
        return cls(Path("kind"), engine)

    def create(
        self, *, name: str, incarnation: str, node_image: str, config: Mapping[str, Any], timeout: float
    ) -> None:
        """Create the cluster and merge its context into the user's kubeconfig.

        A half-made cluster of ours is removed first; a foreign one of that name raises `KindlingError`,
        and so do several nodes on a network where they would not find each other.
        After a failure nothing of this attempt is left.
        """
        given = config.get("nodes") or [{"role": "control-plane"}]
        if len(given) > 1:
            # Workers look for the control plane by its name.
            self.engine.ensure_names(os.environ.get("KIND_EXPERIMENTAL_PODMAN_NETWORK") or "kind")
        if self.exists(name):
            self.delete(name)
        mark = _mark(incarnation)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(incarnation + "\n")
        # kind mounts it into each node; minimal machines lack it.
        modules = Path("/lib/modules")
        if not modules.exists() and os.access("/lib", os.W_OK):
            modules.mkdir()
        mount = {"hostPath": str(mark), "containerPath": MARK, "readOnly": True}
        nodes = [{**node, "extraMounts": [*node.get("extraMounts", []), mount]} for node in given]
        try:
            self._run(
                "create",
                "cluster",
                "--name",
                name,
                "--image",
                node_image,
                "--wait",
                "120s",
                "--config",
                "-",
                timeout=timeout,
                stdin=json.dumps({**config, "nodes": nodes}),
            )
        except BaseException as error:
            # Also on Ctrl-C: what is half-made helps nobody.
            self._run("delete", "cluster", "--name", name, timeout=120)
            _forget(incarnation)
            if isinstance(error, processes.ProgramError):
                raise KindlingError(
                    f"the kind cluster `{name}` could not be created",
                    why=error.why or error.what,
                    remedy="`python3 -m infra doctor` checks what it needs; nothing was left behind",
                ) from None
            raise

    def delete(self, name: str) -> None:
        """Remove containers, volumes and the kubeconfig context; missing is fine, foreign is refused."""
        incarnations = self._marks(name)
        for node in self.nodes(name):
            # Nothing in it is kept, so it need not be asked to stop: that alone takes 10 s.
            self.engine.succeeds("kill", node, timeout=60)
        self._run("delete", "cluster", "--name", name, timeout=120)
        for incarnation in incarnations:
            _forget(incarnation)

    def exists(self, name: str) -> bool:
        """Whether any node container of that cluster exists, running or not, whole or half-made."""
        return bool(self.nodes(name))

    def running(self, name: str) -> bool:
        """Whether every node container runs."""
        nodes = self.nodes(name)
        return bool(nodes) and all(
            self.engine.run("inspect", "--format", "{{.State.Running}}", node).strip() == "true"
            for node in nodes
        )

    def incarnation(self, name: str) -> str | None:
        """Which creation this is; None when there is no such cluster; a foreign one raises."""
        return next(iter(self._marks(name)), None)

    def kubeconfig(self, name: str) -> str:
        """The administrator's kubeconfig: a secret."""
        return self._run("get", "kubeconfig", "--name", name, timeout=60)

    def load(self, name: str, archive: Path) -> None:
        """Put an image archive on every node."""
        self._run("load", "image-archive", str(archive), "--name", name, timeout=600)

    def has_image(self, name: str, ref: str) -> bool:
        """Whether every node has the image."""
        nodes = self.nodes(name)
        return bool(nodes) and all(
            ref
            in self.engine.run("exec", node, "ctr", "--namespace=k8s.io", "images", "list", "--quiet").split()
            for node in nodes
        )

    def nodes(self, name: str) -> list[str]:
        """Its node containers by name, running or not; none where there is no such cluster."""
        out = self.engine.run(
            "ps", "--all", "--filter", f"label={_LABEL}={name}", "--format", "{{.Names}}", timeout=60
        )
        return out.split()

    def _marks(self, name: str) -> set[str]:
        """The incarnations that the nodes bear.

        Raises `KindlingError` for a node that bears none, or one of another state directory: its stack is
        not ours to judge.
        """
        marks: set[str] = set()
        for node in self.nodes(name):
            mounts: Sequence[dict[str, Any]] = json.loads(
                self.engine.run("inspect", "--format", "{{json .Mounts}}", node)
            )
            source = next((Path(m["Source"]) for m in mounts if m.get("Destination") == MARK), None)
            if source is None or source.parent != _mark("").resolve():
                raise KindlingError(
                    f"a kind cluster called `{name}` exists and is not this Kindling's",
                    why=f"its node {node} has no mark of Kindling's ({MARK})"
                    if source is None
                    else f"it belongs to the state in {source.parent.parent}",
                    remedy=f"if nobody needs it, delete it yourself: kind delete cluster --name {name}",
                )
            marks.add(source.name)
        return marks

    def _run(self, *arguments: str, timeout: float, stdin: str | None = None) -> str:
        return processes.run(
            [self.program, *arguments], timeout=timeout, env=self.engine.env_vars(), stdin=stdin
        )


def _mark(incarnation: str) -> Path:
    return (paths.state_dir() / "clusters").resolve() / incarnation


def _forget(incarnation: str) -> None:
    """Drop the mark, and the folder with the last one."""
    mark = _mark(incarnation)
    mark.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        mark.parent.rmdir()
