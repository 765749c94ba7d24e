"""A machine on which the whole program runs in seconds: the real command line, Pulumi, provider and API.

Its container engine and its kind are programs of a page each that remember their arguments; a
"cluster" of theirs is an API server and controllers as processes (`tests.apiserver`). What only real
nodes can show (images that are pulled, data that stays) is tested in tests/cluster.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from infra import paths
from infra.bootstrap import virtualenv
from infra.bootstrap.toolchain import Toolchain
from tests.unit.infra.cli_machine import Machine, new_machine

# Whatever is in them was built from pinned sources, so they are shared; images here are empty files.
SHARED = ("tools", "python", "pulumi-home", "versions.json")
PROGRAMS = {
    "podman": """\
        match words:
            case ["--version"]:
                print("podman version 4.3.1")
            case ["info", *_]:
                print("/")
            case ["ps", *_]:
                label = words[words.index("--filter") + 1].partition("=")[2].partition("=")[2]
                print("\\n".join(node for node in memory["nodes"] if node.startswith(label + "-")))
            case ["inspect", "--format", asked, node]:
                print(json.dumps(memory["nodes"][node]) if "Mounts" in asked else "true")
            case ["exec", node, "ctr", *_]:
                print("\\n".join(memory["images"]))
            case ["images", *_]:
                pass
            case ["image", "inspect", ref, *_]:
                sys.exit("kindest/node" not in ref and "kindling-base" not in ref)
            case ["save", *_]:
                open(words[words.index("--output") + 1], "w").write(words[-1])
            case ["build", *_]:
                memory["tmpdir"] = os.environ.get("TMPDIR")
            case ["kill", *_]:
                pass
            case _:
                sys.exit(f"not expected here: {words}")
        """,
    "kind": """\
        match words:
            case ["version", "--quiet"]:
                print("0.33.0")
            case ["create", "cluster", "--name", name, *_]:
                [node] = json.load(sys.stdin)["nodes"]
                mounts = [(mount["containerPath"], mount["hostPath"]) for mount in node["extraMounts"]]
                memory["nodes"][name + "-control-plane"] = [
                    {"Destination": inside, "Source": outside} for inside, outside in mounts
                ]
            case ["delete", "cluster", "--name", name]:
                memory["nodes"].pop(name + "-control-plane", None)
                memory["images"] = []
            case ["get", "kubeconfig", *_]:
                print(open(memory["kubeconfig"]).read())
            case ["load", "image-archive", archive, *_]:
                memory["images"].append(open(archive).read())
            case _:
                sys.exit(f"not expected here: {words}")
        """,
}


class Host(Machine):
    """Such a machine; `memory` is what its engine and its kind remember."""

    @property
    def _memory(self) -> Path:
        return self.home / "memory.json"

    @property
    def memory(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self._memory.read_text())
        return loaded

    def remember(self, **what: Any) -> None:
        """Change what they remember, as somebody would by hand."""
        self._memory.write_text(json.dumps({**self.memory, **what}))

    def settings(self, text: str) -> None:
        """Replace the stack's settings."""
        (self.checkout / "Pulumi.dev.yaml").write_text(text)


def new_host(folder: Path, *, kubeconfig: Path) -> Host:
    """A machine with nothing up; its kind answers with that kubeconfig."""
    wanted = ["pulumi", "pulumi-resource-kubernetes", "kubectl"]
    missing = [state.name for state in Toolchain().survey(wanted) if not state.path]
    missing += [] if virtualenv.present() else ["the Python environment"]
    if missing:
        pytest.fail(f"missing: {', '.join(missing)}; `python3 -m infra test` sets them up")
    bare = new_machine(folder, environment=False)
    host = Host(bare.home, bare.checkout, {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"})
    host.extra["KINDLING_ENGINE"] = "podman"
    (folder / "cache").mkdir()
    for name in SHARED:
        if (paths.cache_dir() / name).exists():
            (folder / "cache" / name).symlink_to(paths.cache_dir() / name)
    for name, body in PROGRAMS.items():
        program = folder / "bin" / name
        program.write_text(_program(host._memory, textwrap.dedent(body)))
        program.chmod(0o755)
    for part in ("__main__.py", "crds", "operator", "samples"):
        (host.checkout / part).symlink_to(paths.REPOSITORY / part)
    host._memory.write_text(json.dumps({"nodes": {}, "images": [], "kubeconfig": str(kubeconfig)}))
    host.settings(
        "config:\n  pulumi:disable-default-providers: [kubernetes]\n  kindling:samples: false\n"
        "  kindling:broker: false\n"
    )
    return host


def _program(memory: Path, body: str) -> str:
    head = f"""\
#!{sys.executable}
import fcntl, json, os, sys
words = sys.argv[1:]
file = open({str(memory)!r}, "r+")
fcntl.flock(file, fcntl.LOCK_EX)
memory = json.load(file)
"""
    tail = """\
file.seek(0)
file.truncate()
json.dump(memory, file)
"""
    return head + body + tail
