"""What MkDocs calls while it builds the site: diagrams are drawn by the copy of Mermaid beside this file.

The copy is npm's archive of @mermaid-js/tiny, with its licence, under the hash that npm publishes: pages load
nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).with_name("mermaid-js-tiny-11.17.2.tgz")
INTEGRITY = "sha512-PmFr1c5cSfNf5AngLLR98DrbvR4U5KeD7I+hQkGqG5w5Veu3QT4dG0qu9f99cpn/sKj2XxRBK0q7EL6hr9NY/A=="
SCRIPT = "assets/mermaid.js"
LICENSE = "assets/mermaid.LICENSE.txt"
MEMBERS = {SCRIPT: "package/dist/mermaid.tiny.js", LICENSE: "package/LICENSE"}


def on_post_build(*, config: dict[str, Any]) -> None:
    """A hook of MkDocs. Raises ValueError if the archive is not the one whose hash is above."""
    found = base64.b64encode(hashlib.sha512(ARCHIVE.read_bytes()).digest()).decode()
    if f"sha512-{found}" != INTEGRITY:
        raise ValueError(f"{ARCHIVE}: sha512-{found}, expected {INTEGRITY}: take the archive from npm again")
    with tarfile.open(ARCHIVE) as archive:
        for target, member in MEMBERS.items():
            content = archive.extractfile(member)
            if content is None:
                raise ValueError(f"{ARCHIVE} has no file {member}")
            (Path(config["site_dir"]) / target).write_bytes(content.read())
