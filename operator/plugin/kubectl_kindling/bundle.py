"""A tar.gz of texts, which only its owner may read."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from kubectl_kindling.errors import PluginError


def write(file: Path, texts: Mapping[str, str], *, folder: str, now: datetime) -> None:
    """Write these texts below `folder`; raises `PluginError` where the file cannot be written."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, text in sorted(texts.items()):
            content = text.encode()
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(now.timestamp())
            archive.addfile(member, io.BytesIO(content))
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as output:
            output.write(stream.getvalue())
    except OSError as error:
        raise PluginError(
            f"`{file}` cannot be written", why=str(error.strerror), remedy="name another file with --file."
        ) from None
