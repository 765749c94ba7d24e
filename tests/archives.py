"""Archives as tests unpack them."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """All of it, with no file outside of the folder.

    Debian 12's Python 3.11.2 knows no filter, and refuses the argument; that one gets what our own git packs.
    """
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)
