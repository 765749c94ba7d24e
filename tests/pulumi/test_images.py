"""Images by real engines and a real registry: built, kept, pushed, for one platform and for several.

Podman of the machine, and Docker's daemon with each of its storage drivers.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.bootstrap import apt, debian_rootfs, image_archive
from infra.drivers import base_image, debian_lock, images, platforms
from infra.drivers.engine import ContainerEngine
from infra.drivers.registry import MANIFESTS, Registry
from infra.errors import KindlingError
from tests.pulumi.daemon import docker
from tests.unit.infra.registry_server import registry

BINFMT = Path("/proc/sys/fs/binfmt_misc")
OWN = platforms.own()
FOREIGN = next(f"linux/{each}" for each in debian_lock.ARCHITECTURES if f"linux/{each}" != OWN)
ARM64 = platforms.architecture(FOREIGN) == "arm64"
# How the kernel knows a program for arm64, as qemu-user-static's own package has it.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture(
    scope="module",
    params=["podman", "docker-overlay2", pytest.param("docker-vfs", marks=pytest.mark.thorough)],
)
def engine(
    request: pytest.FixtureRequest, host: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerEngine]:
    name, _, storage = request.param.partition("-")
    folder = tmp_path_factory.mktemp("engine")
    if name == "docker":
        # Sockets have short names.
        with ExitStack() as stack:
            yield stack.enter_context(docker(folder, storage=storage))
        return
    podman = shutil.which("podman")
    assert podman is not None, "missing: podman; `python3 -m infra test` installs it"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINDLING_ENGINE", "podman")
        found = ContainerEngine.detect()
    conf = folder / "registries.conf"
    conf.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    engine = replace(found, _environment={**found._environment, "CONTAINERS_REGISTRIES_CONF": str(conf)})
    yield engine
    # It keeps its images where everybody's of this machine are.
    for name in ("localhost/kindling-canary", f"{host}/team/canary"):
        for found_id in set(engine.run("images", "--quiet", "--filter", f"reference={name}").split()):
            engine.succeeds("image", "rm", "--force", found_id, timeout=60)


@pytest.fixture(scope="module")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One program of Debian's for each platform, that needs nothing else."""
    if not apt.available():
        pytest.skip("packages of other architectures are fetched by mmdebstrap, which needs root and apt")
    folder, found = tmp_path_factory.mktemp("busybox"), {}
    for platform in (OWN, FOREIGN):
        architecture = platforms.architecture(platform)
        tar = folder / f"{architecture}.tar"
        debian_rootfs.debootstrap(
            suite="bookworm",
            include=["busybox-static"],
            tar=tar,
            variant="extract",
            architecture=architecture,
        )
        found[platform] = image_archive.extract_file(tar, "bin/busybox", folder / architecture)
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def context(folder: Path, busybox: dict[str, Path]) -> Path:
    """An image of that program, which is built without running anything."""
    folder.mkdir()
    for platform, file in busybox.items():
        shutil.copy2(file, folder / platforms.architecture(platform))
    (folder / "Containerfile").write_text(
        "ARG BASE\nFROM scratch\nARG TARGETARCH\nCOPY ${TARGETARCH} /bin/busybox\n"
    )
    return folder


def running(folder: Path) -> Path:
    """An image on another one, which is built by running a program of it, and was never built before."""
    folder.mkdir()
    words = ["/bin/busybox", "mkdir", f"/{secrets.token_hex(8)}"]
    (folder / "Containerfile").write_text(f"ARG BASE\nFROM ${{BASE}}\nRUN {json.dumps(words)}\n")
    return folder


def push(
    engine: ContainerEngine, folder: Path, host: str, tag: str, *wanted: str, base: str = "scratch"
) -> str:
    """`HOST/team/canary:TAG` for these platforms; returns it by its digest."""
    tags = {platform: f"{tag}-{platforms.architecture(platform)}" for platform in wanted}
    digest = images.push(
        engine,
        name="kindling-canary",
        tag=tag,
        context=folder,
        containerfile=folder / "Containerfile",
        build_args={"BASE": base},
        tags={tags_of: tag if len(wanted) == 1 else name for tags_of, name in tags.items()},
        repository=f"{host}/team/canary",
        insecure=True,
    )
    assert Registry(host, insecure=True).digest(f"{host}/team/canary", tag) == digest
    return f"{host}/team/canary@{digest}"


def fetched(reference: str, what: str = "manifests") -> dict[str, Any]:
    """As a node asks the registry."""
    repository, _, digest = reference.partition("@")
    host, _, name = repository.partition("/")
    request = urllib.request.Request(
        f"http://{host}/v2/{name}/{what}/{digest}", headers={"Accept": ", ".join(MANIFESTS)}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def architecture(reference: str) -> str:
    config = fetched(reference)["config"]["digest"]
    return str(fetched(f"{reference.partition('@')[0]}@{config}", "blobs")["architecture"])


def each_of(reference: str) -> dict[str, str]:
    """A list's images by platform."""
    repository = reference.partition("@")[0]
    return {
        f"{item['platform']['os']}/{item['platform']['architecture']}": f"{repository}@{item['digest']}"
        for item in fetched(reference)["manifests"]
    }


def test_an_image_is_built_kept_pushed_and_loaded_again(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    folder = context(tmp_path / "one", busybox)
    pushed = push(engine, folder, host, f"one-{engine.name}", OWN)
    assert architecture(pushed) == platforms.architecture(OWN)
    ref = f"localhost/kindling-canary:one-{engine.name}"
    assert engine.has_image(ref)
    (kept,) = (cache / "images").glob("*.tar")
    engine.remove_image(ref)
    assert not engine.has_image(ref)
    # From the archive, not built again: the same image has the same digest.
    shutil.rmtree(folder)
    assert push(engine, folder, host, f"one-{engine.name}", OWN) == pushed
    assert engine.has_image(ref)
    engine.remove_image(ref)
    assert kept.exists()


def test_a_tag_with_its_digest_is_pulled_and_known_again(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    """As kind's own node image is named."""
    folder = context(tmp_path / "t", busybox)
    # An image of its own: others of the same content have the same digest, by which an engine knows it.
    with (folder / "Containerfile").open("a") as file:
        file.write(f"LABEL canary={secrets.token_hex(8)}\n")
    pushed = push(engine, folder, host, f"t-{engine.name}", OWN)
    repository, _, digest = pushed.partition("@")
    named = f"{repository}:t-{engine.name}@{digest}"
    # Docker keeps what it pushed under that name too.
    for ref in (f"localhost/kindling-canary:t-{engine.name}", f"{repository}:t-{engine.name}"):
        engine.remove_image(ref)
    assert not engine.has_image(named)
    assert engine.pull(named)
    assert engine.has_image(named)
    assert not engine.pull(f"{repository}:t-{engine.name}@sha256:{'0' * 64}")


def test_several_platforms_are_one_name_of_which_each_node_takes_its_own(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    folder = context(tmp_path / "list", busybox)
    pushed = push(engine, folder, host, f"list-{engine.name}", OWN, FOREIGN)
    found = each_of(pushed)
    assert set(found) == {OWN, FOREIGN}
    for platform, reference in found.items():
        assert architecture(reference) == platforms.architecture(platform)
    # Whichever is named first.
    assert push(engine, folder, host, f"list-{engine.name}", FOREIGN, OWN) == pushed


def test_a_machine_that_cannot_run_the_platform_says_what_to_install(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    if list(BINFMT.glob("qemu-*")):
        pytest.skip("this machine runs programs of other architectures")
    base = push(engine, context(tmp_path / "base", busybox), host, f"b-{engine.name}", OWN, FOREIGN)
    made = running(tmp_path / "made")
    assert architecture(push(engine, made, host, f"m-{engine.name}", OWN, base=base))
    with pytest.raises(KindlingError) as raised:
        push(engine, made, host, f"m2-{engine.name}", OWN, FOREIGN, base=base)
    assert f"cannot be built for {FOREIGN} on this machine" in raised.value.what
    assert "exec format error" in raised.value.why.lower()
    assert "qemu-user-static" in raised.value.remedy
    assert Registry(host, insecure=True).digest(f"{host}/team/canary", f"m2-{engine.name}") is None


def test_a_base_of_one_platform_alone_is_not_taken_for_another(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    base = push(engine, context(tmp_path / "base", busybox), host, f"o-{engine.name}", OWN)
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "Containerfile").write_text("ARG BASE\nFROM ${BASE}\nLABEL canary=1\n")
    with pytest.raises(KindlingError) as raised:
        push(engine, folder, host, f"o2-{engine.name}", FOREIGN, base=base)
    assert raised.value.what == f"the base image {base} is for {OWN}, not for {FOREIGN}"
    assert "kindling:baseImage" in raised.value.remedy


@pytest.fixture
def emulation(tmp_path: Path) -> Iterator[None]:
    """The kernel runs arm64 programs by Debian's qemu for as long as this lasts."""
    if not ARM64:
        pytest.skip("written for a machine of amd64")
    if not apt.available():
        pytest.skip("needs root and apt")
    with ExitStack() as stack:
        if not (BINFMT / "register").exists():
            words = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
            if done.returncode != 0:
                pytest.skip(f"this machine's kernel has no binfmt_misc: {done.stderr}")
            stack.callback(subprocess.run, ["umount", str(BINFMT)], timeout=30, check=False)
        if not (BINFMT / "qemu-aarch64").exists():
            stack.enter_context(_qemu(tmp_path))
        yield


@contextmanager
def _qemu(folder: Path) -> Iterator[None]:
    words = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "qemu-user-static"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"Debian's qemu-user-static could not be downloaded: {done.stderr[-500:]}")
    [package] = folder.glob("*.deb")
    subprocess.run(["dpkg", "-x", package, folder], capture_output=True, timeout=120, check=True)
    program = folder / "usr/bin/qemu-aarch64-static"
    # F: opened now, so that it is found in whichever root file system.
    (BINFMT / "register").write_text(f":kindling-arm64:M::{MAGIC}:{MASK}:{program}:F")
    try:
        yield
    finally:
        (BINFMT / "kindling-arm64").write_text("-1")


@pytest.mark.usefixtures("emulation")
def test_with_emulation_both_platforms_are_built_and_pushed(
    engine: ContainerEngine, busybox: dict[str, Path], host: str, tmp_path: Path, cache: Path
) -> None:
    base = push(engine, context(tmp_path / "base", busybox), host, f"e-{engine.name}", OWN, FOREIGN)
    made = push(engine, running(tmp_path / "made"), host, f"e2-{engine.name}", OWN, FOREIGN, base=base)
    found = each_of(made)
    assert {platform: architecture(found[platform]) for platform in found} == {
        OWN: platforms.architecture(OWN),
        FOREIGN: platforms.architecture(FOREIGN),
    }


def test_the_base_of_another_platform_takes_nothing_away_from_this_ones(
    engine: ContainerEngine,
    busybox: dict[str, Path],
    host: str,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pushed = push(engine, context(tmp_path / "base", busybox), host, f"d-{engine.name}", OWN, FOREIGN)
    base = f"{pushed.partition('@')[0]}:d-{engine.name}"
    monkeypatch.setattr(base_image, "BASE_IMAGE", base)
    monkeypatch.setattr(base_image, "OWN_BASE_IMAGE", "localhost/kindling-canary:no-base")
    assert images.ensure_base_image(engine) == base
    other = images.ensure_base_image(engine, platform=FOREIGN)
    assert engine.architecture(other) == platforms.architecture(FOREIGN)
    assert engine.architecture(base) == platforms.architecture(OWN)
    assert images.ensure_base_image(engine) == base
    for ref in (other, base, "localhost/kindling-debian:trixie-slim"):
        engine.remove_image(ref)
