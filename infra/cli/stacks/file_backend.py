"""What Pulumi's file backend says without starting Pulumi: a stack's state, and who holds its lock.

Reading a file keeps an idle `up` fast and lets `destroy` see that there is nothing to do before it
builds a tool. The layout is Pulumi's own (pkg/backend/diy: store.go, lock.go); it is only read here,
every change goes through the program. Of other backends nothing is known here.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from infra import paths
from infra.errors import KindlingError
from infra.project import PROJECT

CLUSTER = "pulumi-python:dynamic/kind:Cluster"
# infra.resources.existing_cluster, which is not imported here because it imports Pulumi.
EXISTING_CLUSTER = "pulumi-python:dynamic/existing:Cluster"


@dataclass(frozen=True)
class StackState:
    """A stack's state: the URNs of what exists and of what was being created when a run was cut off.

    `protected` are those of them that Pulumi refuses to remove, `clusters` are the ids of kind clusters,
    `cluster` is that of an existing cluster that the stack is in. `known` is False where only Pulumi
    knows, even whether there is a state. `changed` is when the state was last written.
    """

    resources: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str = ""
    known: bool = True
    changed: str = ""


@dataclass(frozen=True)
class Lock:
    """Who wrote a lock file, as Pulumi writes it."""

    path: Path
    pid: int
    user: str
    host: str
    since: str


def url() -> str:
    """The backend: PULUMI_BACKEND_URL, else a file backend in the state folder."""
    return os.environ.get("PULUMI_BACKEND_URL") or f"file://{quote(str(own_folder()))}"


def own_folder() -> Path:
    """Where the default backend keeps its files."""
    return paths.state_dir() / "pulumi"


def folder() -> Path | None:
    """The file backend's `.pulumi` folder, None for a backend that is not made of files."""
    parts = urlsplit(url())
    if parts.scheme != "file":
        return None
    # `file://~` is Pulumi's own spelling of the home folder, so a host part belongs to the path.
    return Path(unquote(parts.netloc + parts.path)).expanduser().absolute() / ".pulumi"


def state(stack: str) -> StackState | None:
    """The stack's state; None when it certainly has none."""
    root = folder()
    if root is None:
        return StackState(known=False)
    path = root / "stacks" / PROJECT / f"{stack}.json"
    if any(path.with_name(path.name + packed).exists() for packed in (".gz", ".zst")):
        return StackState(known=False)
    try:
        checkpoint = json.loads(path.read_text(encoding="utf-8"))["checkpoint"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        raise KindlingError(
            f"Pulumi's state of stack `{stack}` cannot be read",
            why=f"{path}: {error}",
            remedy=f"Pulumi kept the one before it beside it: copy {path.name}.bak over {path.name}.",
        ) from None
    return read_checkpoint(checkpoint)


def read_checkpoint(checkpoint: Mapping[str, Any]) -> StackState:
    """The parts of Pulumi's checkpoint (version 3) that matter here."""
    latest = checkpoint.get("latest") or {}
    operations = latest.get("pending_operations") or []
    resources = latest.get("resources") or []
    return StackState(
        resources=tuple(resource["urn"] for resource in resources),
        protected=tuple(resource["urn"] for resource in resources if resource.get("protect")),
        clusters=tuple(resource["id"] for resource in resources if resource.get("type") == CLUSTER),
        cluster=next((str(r.get("id", "")) for r in resources if r.get("type") == EXISTING_CLUSTER), ""),
        # Only these outlive the next operation by themselves (pkg/backend/snapshot.go).
        unfinished=tuple(op["resource"]["urn"] for op in operations if op["type"] == "creating"),
        changed=(latest.get("manifest") or {}).get("time", ""),
    )


def locks(stack: str) -> list[Lock]:
    """The stack's lock files. One that cannot be read counts as its writer's, gone while writing."""
    root = folder()
    found = []
    for path in sorted((root / "locks" / "organization" / PROJECT / stack).glob("*.json")) if root else []:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            lock = Lock(path, content["pid"], content["username"], content["hostname"], content["timestamp"])
        except FileNotFoundError:
            continue  # Released meanwhile.
        except (ValueError, KeyError, TypeError):
            lock = Lock(path, 0, getpass.getuser(), socket.gethostname(), "")
        found.append(lock)
    return found


def is_stale(lock: Lock) -> bool:
    """Whether the lock is this user's, of this machine, and its process has gone."""
    if (lock.host, lock.user) != (socket.gethostname(), getpass.getuser()):
        return False
    if lock.pid <= 0:
        return True
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    # The number may be another program's by now.
    try:
        return b"pulumi" not in Path(f"/proc/{lock.pid}/cmdline").read_bytes()
    except OSError:
        return False


def check_lock(stack: str) -> bool:
    """Whether a killed run left its lock behind; raises `KindlingError` when a run is at work."""
    held = locks(stack)
    for lock in held:
        if not is_stale(lock):
            raise KindlingError(
                f"stack `{stack}` is being changed by another run",
                why=f"{lock.user}@{lock.host} holds its lock (process {lock.pid}, since {lock.since[:19]})",
                remedy="wait for it to end; if it is known to be gone: "
                f"python3 -m infra exec --stack {stack} pulumi cancel --yes",
            )
    return bool(held)


def in_use(stack: str) -> bool:
    """Whether a run is known to be at work; of a backend that is not made of files nothing is known."""
    return any(not is_stale(lock) for lock in locks(stack))


def is_own() -> bool:
    """Whether the default backend is the one in use."""
    return not os.environ.get("PULUMI_BACKEND_URL")


def is_empty() -> bool:
    """Whether the default backend holds no stack any more."""
    return not any((own_folder() / ".pulumi" / "stacks").glob("*/*.json*"))
