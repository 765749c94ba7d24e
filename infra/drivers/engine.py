"""The container engine, Docker or Podman, behind one small face.

Apart from `kind` because images are built and kept here whether or not a cluster exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra import paths, processes
from infra.drivers import podman_config
from infra.errors import KindlingError
from infra.progress import Progress

# By it the containers of one network find each other by name, with Podman's older network plugins.
NAMES_PACKAGE = "golang-github-containernetworking-plugin-dnsname"
# Installing this needs a mirror, but no daemon, no kernel module and no reboot.
PACKAGES = ("podman", "runc", "containernetworking-plugins", "iptables", "conntrack", NAMES_PACKAGE)
INSTALL_SECONDS = 60.0
_NAMES = {"cni": NAMES_PACKAGE, "netavark": "aardvark-dns"}
# Where they go by themselves. Podman takes an empty TMPDIR for the folder that it was started in.
_TEMPORARY = {"docker": "/tmp", "podman": "/var/tmp"}
# Docker's last word on a push.
_PUSHED = re.compile(r"digest: (sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class ContainerEngine:
    """One working engine. `program` is the client; Docker's has been seen to reach its daemon."""

    name: Literal["docker", "podman"]
    program: Path
    _environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def detect(cls) -> ContainerEngine:
        """Docker when its daemon answers, else Podman; raises `KindlingError` when neither is there.

        `KINDLING_ENGINE=docker|podman` decides where both are.
        """
        wanted = os.environ.get("KINDLING_ENGINE", "")
        if wanted not in ("", "docker", "podman"):
            raise KindlingError(
                f"KINDLING_ENGINE is `{wanted}`", remedy="set it to docker or podman, or unset it"
            )
        docker = shutil.which("docker")
        if docker and wanted != "podman" and _daemon_answers(docker):
            return cls("docker", Path(docker))
        podman = shutil.which("podman")
        if podman and wanted != "docker":
            return cls("podman", Path(podman), podman_config.env_vars(Path(podman)))
        raise KindlingError(
            "no container engine answers on this machine",
            why="neither a Docker daemon nor podman was found"
            + (f" (KINDLING_ENGINE={wanted})" if wanted else ""),
            remedy="install Docker or Podman, or run as root on Debian, where Podman is then installed",
        )

    def env_vars(self) -> dict[str, str]:
        """What kind and the engine's client need in their environment."""
        # Older Docker clients build without mounts and secrets by default.
        builder = {"DOCKER_BUILDKIT": "1"} if self.name == "docker" else {}
        host = os.environ.get(paths.HOST_TMPDIR)
        temporary = {} if host is None else {"TMPDIR": host or _TEMPORARY[self.name]}
        return {**self._environment, **builder, **temporary, "KIND_EXPERIMENTAL_PROVIDER": self.name}

    def run(
        self, *arguments: str | Path, timeout: float = 120, on_line: Callable[[str], None] | None = None
    ) -> str:
        """Call the client; returns standard output, raises `ProgramError`."""
        return processes.run(
            [self.program, *arguments], timeout=timeout, env=self.env_vars(), on_line=on_line
        )

    def succeeds(self, *arguments: str | Path, timeout: float) -> bool:
        """Call the client, where failing is an answer too."""
        return processes.succeeds([self.program, *arguments], timeout=timeout, env=self.env_vars())

    def has_image(self, ref: str) -> bool:
        """Whether the image is in the engine's own storage."""
        return self.succeeds("image", "inspect", ref, "--format", "ok", timeout=60)

    def has_any_of(self, name: str) -> bool:
        """Whether an image of this name is there, whatever its tag."""
        try:
            return bool(self.run("images", "--quiet", name, timeout=60).strip())
        except processes.ProgramError:
            return False

    def architecture(self, ref: str) -> str:
        """What an image in the engine's storage is for, such as `amd64`; empty where there is none."""
        try:
            return self.run("image", "inspect", ref, "--format", "{{.Architecture}}", timeout=60).strip()
        except processes.ProgramError:
            return ""

    def build(
        self,
        *,
        context: Path,
        containerfile: Path,
        tag: str,
        build_args: Mapping[str, str],
        platform: str = "",
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        """Build an image from a context; the host's own CA bundle, if it has one, is lent to the build.

        It is offered as the build secret `ca-bundle`, so it never becomes part of a layer. Without a
        `platform` it is the engine's own.
        """
        arguments: list[str | Path] = ["build", "--tag", tag, "--file", containerfile]
        if platform:
            arguments += ["--platform", platform]
        for name, value in sorted(build_args.items()):
            arguments += ["--build-arg", f"{name}={value}"]
        if bundle := _own_ca_bundle():
            arguments += ["--secret", f"id=ca-bundle,src={bundle}"]
        if self.name == "podman":
            arguments += ["--layers", "--format", "docker"]
        self.run(*arguments, context, timeout=1800, on_line=on_line)

    def save(self, ref: str, archive: Path) -> None:
        """Write the image as a docker-archive tar, complete or not at all."""
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        archive.parent.mkdir(parents=True, exist_ok=True)
        # Podman can name the format; Docker has no other.
        form = ["--format", "docker-archive"] if self.name == "podman" else []
        self.run("save", *form, "--output", partial, ref, timeout=600)
        os.replace(partial, archive)

    def load(self, archive: Path) -> None:
        """Take an image from an archive, under the name that it has there."""
        self.run("load", "--input", archive, timeout=600)

    def push(self, ref: str, destination: str, *, insecure: bool) -> str:
        """Push an image of ours to `destination`, with the engine's own login; returns its digest there.

        Docker's daemon has settings of its own for a registry without TLS; only Podman takes it as an option.
        """
        if self.name == "docker":
            self.run("tag", ref, destination)
            output = self.run("push", destination, timeout=1800)
            found = _PUSHED.findall(output)
            return str(found[-1]) if found else ""
        with tempfile.TemporaryDirectory(prefix="kindling-push-") as folder:
            digest = Path(folder, "digest")
            args = ["--tls-verify=false"] if insecure else []
            self.run("push", "--digestfile", digest, *args, ref, f"docker://{destination}", timeout=1800)
            return digest.read_text().strip()

    def import_rootfs(self, tar: Path, ref: str, *, platform: str = "") -> None:
        """Make an image of one layer from a root file system tar, of the engine's own platform or another."""
        args = []
        if platform:
            architecture = platform.partition("/")[2]
            args = ["--platform", platform] if self.name == "docker" else ["--arch", architecture]
        self.run("import", *args, tar, ref, timeout=600)

    def remove_image(self, ref: str) -> None:
        """Drop the tag; a missing image is fine."""
        if self.has_image(ref):
            self.run("image", "rm", "--force", ref)

    def ensure_names(self, network: str) -> None:
        """See to it that the containers of this network find each other by name.

        Docker's always do; Podman's where a plug-in was there when the network was made. Raises
        `KindlingError` where that cannot be installed.
        """
        if self.name == "docker" or self._has_names(network):
            return
        backend = self.run("info", "--format", "{{.Host.NetworkBackend}}").strip()
        package = _NAMES.get(backend, NAMES_PACKAGE)
        # Imported where something is missing: see `infra.bootstrap`.
        from infra import bootstrap

        if bootstrap.apt.available():
            bootstrap.apt.install([package])
        # What is in use stays: its containers are somebody's cluster.
        free = not self.succeeds("network", "exists", network, timeout=60) or self.succeeds(
            "network", "rm", network, timeout=60
        )
        if free:
            self.run("network", "create", network)
            if self._has_names(network):
                return
            self.run("network", "rm", network)
        raise KindlingError(
            f"containers of Podman's network `{network}` do not find each other by name",
            why="nodes of one cluster must; the network "
            + ("has no plug-in for that" if free else "was made without, and is in use"),
            remedy=(
                f"install {package}"
                if free
                else "remove the clusters on it (`kind get clusters`) and run the same command again"
            )
            + ", or do without `kindling:workers`.",
        )

    def _has_names(self, network: str) -> bool:
        if not self.succeeds("network", "exists", network, timeout=60):
            return False
        [found] = json.loads(self.run("network", "inspect", network))
        return bool(found.get("dns_enabled"))

    def pull(self, ref: str, *, platform: str = "") -> bool:
        """Fetch from a registry; False when no registry answers with it."""
        args = ["--platform", platform] if platform else []
        return self.succeeds("pull", "--quiet", *args, ref, timeout=600)


def install_engine(progress: Progress) -> ContainerEngine:
    """The engine that is there, else Podman from the distribution's packages."""
    try:
        return ContainerEngine.detect()
    except KindlingError:
        from infra import bootstrap

        if not bootstrap.apt.available():
            raise
    with progress.step(INSTALL_STEP):
        bootstrap.apt.install(PACKAGES)
    return ContainerEngine.detect()


INSTALL_STEP = "Install Podman"


def _daemon_answers(docker: str) -> bool:
    return processes.succeeds([docker, "version", "--format", "{{.Server.Version}}"], timeout=20)


def _own_ca_bundle() -> str | None:
    """The bundle this host's tools are set to use instead of their own, if any."""
    for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if (value := os.environ.get(name)) and Path(value).is_file():
            return value
    return None
