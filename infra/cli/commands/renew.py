"""`renew`: the newest versions of the Debian packages that our images are built of, into their lock files.

Edits files of this checkout and nothing else. A changed lock is another tag: the next `up` builds and rolls.
"""

from __future__ import annotations

from pathlib import Path

from infra import paths
from infra.cli.arguments import Command
from infra.drivers import debian_lock, image_tools
from infra.progress import Progress

SECONDS = 60.0


def locked(repository: Path) -> list[Path]:
    """The lock files: one beside each Containerfile of an image of ours that has packages."""
    folders = [repository / "operator", *(repository / "operator/images").iterdir()]
    folders += (repository / "infra/images").iterdir()
    return sorted(
        folder / debian_lock.FILE
        for folder in folders
        if (folder / "Containerfile").is_file() and image_tools.named(folder) is None
    )


def run(_command: Command) -> int:
    """Rewrite each lock file that is not the newest, and say what has changed in it."""
    progress, any_change = Progress(), False
    with debian_lock.archive() as archive:
        for file in locked(paths.REPOSITORY):
            image = file.parent.relative_to(paths.REPOSITORY)
            names = debian_lock.installed_packages((file.parent / "Containerfile").read_text())
            with progress.step(f"Ask Debian for the packages of {image}"):
                pins = debian_lock.merged(
                    archive.resolve(names, architecture=each) for each in debian_lock.ARCHITECTURES
                )
            known = file.read_text() if file.exists() else ""
            if (wanted := debian_lock.text(pins)) == known:
                continue
            any_change = True
            file.write_text(wanted)
            print(f"{file.relative_to(paths.REPOSITORY)}:")
            for line in debian_lock.changes(debian_lock.read(known), pins):
                print(f"  {line}")
    print("Next: commit these, python3 -m infra up" if any_change else "All are of the newest versions.")
    return 0
