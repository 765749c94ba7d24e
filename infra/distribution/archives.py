"""An archive whose bytes follow from its files alone: one that can be made again and compared."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Collection, Mapping

_MOST = 65535


def tgz(files: Mapping[str, str | bytes], *, folder: str = "", executable: Collection[str] = ()) -> bytes:
    """A compressed tar of these files below `folder`, in order of their paths, without times and owners."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, text in sorted(files.items()):
            content = text.encode() if isinstance(text, str) else text
            member = tarfile.TarInfo(f"{folder}/{path}" if folder else path)
            member.size, member.mode = len(content), 0o755 if path in executable else 0o644
            archive.addfile(member, io.BytesIO(content))
    return _gzip(stream.getvalue())


def _gzip(content: bytes) -> bytes:
    """In gzip's form, stored: what a compressor makes of it differs between zlib and its replacements."""
    blocks = [content[i : i + _MOST] for i in range(0, len(content), _MOST)] or [b""]
    stored = b"".join(
        struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks, start=1)
    )
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    return head + stored + struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)
