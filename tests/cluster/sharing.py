"""The one stack of several workers: whoever comes first brings it up, and whoever leaves last takes it down.

Some files do what the others in the cluster would notice: they restart the operator or the node, or count all
that is written. They wait until they are alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra import locks

EXCLUSIVE = (
    "test_cert_manager.py",
    "test_default_class.py",
    "test_dev.py",
    "test_environment_lifecycle.py",
    "test_every_kind.py",
    "test_faults.py",
    "test_frozen.py",
    "test_hba.py",
    "test_lifecycle.py",
    "test_object_store.py",
    "test_sixty.py",
    "test_tls.py",
    "test_updates.py",
)
"""They come last, and all in one worker: two that wait to be alone would wait for each other."""
SECOND = (
    "test_backup.py",
    "test_backup_volume.py",
    "test_growing_volume.py",
    "test_handler_command.py",
    "test_pulsarconsumer_schemas.py",
    "test_pulsarconsumer_topics.py",
    "test_pulsarconsumer_traces.py",
    "test_rotation.py",
)
THIRD = (
    "test_binding_imports.py",
    "test_broker_image.py",
    "test_crash_loop.py",
    "test_deletion_protection.py",
    "test_exporters.py",
    "test_memcached.py",
    "test_memcached_discovery.py",
    "test_memcached_rollout.py",
    "test_memcached_secured.py",
    "test_memcached_workloads.py",
    "test_mycustomresource.py",
    "test_network.py",
    "test_pod_template.py",
    "test_pulsarconsumer_handlers.py",
    "test_rejected_pods.py",
    "test_service_template.py",
    "test_unbound_volume.py",
    "test_volumes.py",
)
"""A second and a third worker's, about as long as what is left for the first. None uses what others make."""


@dataclass
class SharedStack:
    """One worker's part in the stack of this run of all workers."""

    folder: Path
    """Where the workers' locks and their record are."""
    run: str
    """The same in all workers of a run, and in no other run: what another left is cleared up."""
    _presence: int = field(default=-1, init=False)

    @contextmanager
    def joined(self, *, up: Callable[[], object], down: Callable[[], object]) -> Iterator[None]:
        """With the stack up. Raises RuntimeError if another worker of this run could not bring it up."""
        with locks.exclusive(self.folder / "users.lock"):
            record = self._read()
            if record.get("failed"):
                raise RuntimeError("another worker could not bring the stack up: see its first failure")
            if not record.get("users"):
                down()  # What an earlier, killed run left.
                self._write(failed=True)
                try:
                    up()
                except BaseException:
                    down()
                    raise
            self._write(users=record.get("users", 0) + 1)
        self._presence = os.open(
            self.folder / "presence.lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, mode=0o600
        )
        try:
            fcntl.flock(self._presence, fcntl.LOCK_SH)
            yield
        finally:
            os.close(self._presence)
            with locks.exclusive(self.folder / "users.lock"):
                users = self._read().get("users", 1) - 1
                self._write(users=users)
                if users == 0:
                    down()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Without any other worker in the stack; one that comes waits."""
        fcntl.flock(self._presence, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._presence, fcntl.LOCK_SH)

    def _read(self) -> dict[str, Any]:
        """Empty if the record is of another run."""
        try:
            record: dict[str, Any] = json.loads((self.folder / "users.json").read_text())
        except FileNotFoundError:
            return {}
        return record if record.get("run") == self.run else {}

    def _write(self, **record: Any) -> None:
        (self.folder / "users.json").write_text(json.dumps({"run": self.run, **record}))
