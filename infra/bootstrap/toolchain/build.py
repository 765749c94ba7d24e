"""Building one tool into the cache, once.

A build happens in a folder of its own that becomes the real one by a rename, so a cut-off build leaves
nothing that looks finished. The key covers the pinned module, the sums of everything it pulls in and
the flags: same key, same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from infra import locks, paths, processes
from infra.bootstrap.toolchain.golang import Go
from infra.bootstrap.toolchain.tools import TOOLS, Tool
from infra.errors import KindlingError

FOLDER = Path(__file__).parent
# Raised when what is put beside an executable changes, which no go.mod shows.
LAYOUT = 2


def location(tool: Tool) -> Path:
    """Where the built executable is or would be."""
    digest = hashlib.sha256()
    folder = FOLDER / tool.folder
    for part in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(part.relative_to(folder).as_posix().encode() + b"\0" + part.read_bytes() + b"\0")
    digest.update(f"{tool.package}\0{tool.ldflags}\0{tool.companions}\0{LAYOUT}".encode())
    key = digest.hexdigest()[:12]
    return paths.cache_dir() / "tools" / f"{tool.name}-{tool.version}-{key}" / tool.name


def build(tool: Tool, go: Go, *, on_line: Callable[[str], None] | None = None) -> Path:
    """Compile the tool and return its path; raises `KindlingError` with the compiler's own message."""
    target = location(tool)
    if target.exists():
        return target
    with locks.exclusive(locks.lock_path(target.parent), say=on_line):
        if not target.exists():
            _build(tool, go, target, on_line=on_line)
    return target


def _build(tool: Tool, go: Go, target: Path, *, on_line: Callable[[str], None] | None) -> None:
    partial = target.parent.with_name(target.parent.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        module = partial / "module"
        shutil.copytree(FOLDER / tool.folder, module)
        for source_module, path in tool.module_files:
            _copy(go.module_dir(folder=module, module=source_module) / path, module, version=tool.version)
        go.build(
            folder=module,
            package=tool.package,
            output=partial / tool.name,
            ldflags=tool.ldflags,
            on_line=on_line,
        )
        if tool.name == "pulumi":
            _add_language_host(partial, go, on_line=on_line)
        shutil.rmtree(module)
        os.rename(partial, target.parent)
    except processes.ProgramError as error:
        raise KindlingError(
            f"{tool.name} {tool.version} could not be built",
            why=error.why or error.what,
            remedy="check that Go's module proxy can be reached (GOPROXY is respected), then run the command "
            "again: everything fetched and compiled so far is kept",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _copy(source: Path, folder: Path, *, version: str) -> None:
    """Copy a file that upstream generates, stamping the version its release build would stamp."""
    text = source.read_text()
    if source.name == "schema.json":
        text = json.dumps(json.loads(text) | {"version": version})
    (folder / source.name).write_text(text)


def _add_language_host(folder: Path, go: Go, *, on_line: Callable[[str], None] | None) -> None:
    """Put what Pulumi's own distribution puts beside `pulumi`: it looks for bundled plugins there."""
    host = TOOLS["pulumi-language-python"]
    shutil.copy2(build(host, go, on_line=on_line), folder / host.name)
    sdk = go.module_dir(folder=folder / "module", module="github.com/pulumi/pulumi/sdk/v3")
    launcher = "pulumi-language-python-exec"
    shutil.copyfile(sdk / "python" / "cmd" / launcher, folder / launcher)
    # Upstream's launcher of dynamic providers is a shell script that looks for a virtual environment;
    # ours is first on PATH. `-m` puts the program's folder on the path of modules, where the
    # providers are.
    dynamic = "pulumi-resource-pulumi-python"
    (folder / dynamic).write_text(
        "#!/usr/bin/env python3\nimport os\nimport sys\n\n"
        "os.execvp('python3', ['python3', '-u', '-m', 'pulumi.dynamic', *sys.argv[1:]])\n"
    )
    for name in (launcher, dynamic):
        (folder / name).chmod(0o755)
