"""The lock files of our images' Debian packages: what they hold, and what becomes of one that has aged."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from infra import paths, processes
from infra.cli.arguments import Command
from infra.cli.commands import renew
from infra.components.images import BROKER, OPERATOR, ImageSource, operands
from infra.drivers import debian_lock, images
from infra.drivers.engine import ContainerEngine
from infra.errors import KindlingError

PINS = {"libc6": ("2.41-12+deb13u4",), "sqv": ("1.3.0-3+b2", "1.3.0-3+b1")}
SOURCES = [OPERATOR, BROKER, *operands().values()]


def test_written_is_read() -> None:
    content = debian_lock.text(PINS)
    assert debian_lock.read(content) == PINS
    assert content.endswith("Package: *\nPin: release *\nPin-Priority: -1\n")
    assert debian_lock.read(debian_lock.unlocked(content)) == PINS
    assert "Pin-Priority: -1" not in debian_lock.unlocked(content)
    assert debian_lock.read("") == {}


def test_architectures_are_merged() -> None:
    found = debian_lock.merged([{"a": "1", "b": "1+b1"}, {"a": "1", "b": "1+b2", "c": "3"}])
    assert found == {"a": ("1",), "b": ("1+b1", "1+b2"), "c": ("3",)}


def test_changes_are_reported_by_package() -> None:
    after = {"libc6": ("2.41-12+deb13u5",), "tar": ("1.35",)}
    assert debian_lock.changes(PINS, after) == [
        "libc6 2.41-12+deb13u4 -> 2.41-12+deb13u5",
        "sqv 1.3.0-3+b2 and 1.3.0-3+b1 -> gone",
        "tar new -> 1.35",
    ]
    assert debian_lock.changes(PINS, PINS) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.image)
def test_each_image_is_built_of_what_its_lock_names(source: ImageSource) -> None:
    folder = paths.REPOSITORY / source.context
    containerfile = (folder / "Containerfile").read_text()
    pins = debian_lock.read((folder / debian_lock.FILE).read_text())
    names = debian_lock.installed_packages(containerfile)
    assert names
    assert {*names, "apt", "libc6", "ca-certificates"} <= pins.keys()
    # Nothing is installed from a base before the lock is there and the base is of it.
    for stage in containerfile.split("FROM ${BASE}")[1:]:
        first = stage.index('"apt-get"')
        assert "COPY packages.pref /etc/apt/preferences.d/kindling.pref\n" in stage[:first]
        assert '"upgrade", "--update"' in stage[first:].partition("\n")[0]


def test_there_is_a_lock_for_each_image_of_ours() -> None:
    folders = {paths.REPOSITORY / source.context for source in SOURCES}
    assert {file.parent for file in renew.locked(paths.REPOSITORY)} == folders


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.image)
def test_lock_and_architecture_move_the_tag(
    source: ImageSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in {source.context, source.tree}:
        shutil.copytree(paths.REPOSITORY / part, tmp_path / part, dirs_exist_ok=True)
    monkeypatch.setattr("infra.components.images.REPOSITORY", tmp_path)
    seen = {source.digest()}
    lock = tmp_path / source.context / debian_lock.FILE
    lock.write_text(lock.read_text().replace("+deb13u", "+deb14u"))
    seen.add(source.digest())
    other = "arm64" if debian_lock.architecture() == "amd64" else "amd64"
    monkeypatch.setattr(debian_lock, "architecture", lambda: other)
    seen.add(source.digest())
    assert len(seen) == 3


class Engine:
    """Builds what apt would: not what is locked to versions that the mirror has no more."""

    def __init__(self, *, gone: bool) -> None:
        self.gone = gone
        self.built: list[str] = []

    def has_image(self, ref: str) -> bool:
        return True

    def build(
        self, *, context: Path, containerfile: Path, tag: str, build_args: dict[str, str], platform: str
    ) -> None:
        lock = (context / debian_lock.FILE).read_text()
        strict = debian_lock.unlocked(lock) != lock
        self.built.append("locked" if strict else "newer")
        assert (context / "inner" / "file").read_text() == "content"
        if strict and self.gone:
            raise processes.ProgramError(
                "podman failed", why="E: Package 'libc6' has no installation candidate"
            )

    def save(self, ref: str, archive: Path) -> None:
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_text(self.built[-1])


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "context"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("content")
    (folder / "Containerfile").write_text("FROM x")
    (folder / debian_lock.FILE).write_text(debian_lock.text(PINS))
    return folder


def build(engine: Engine, context: Path, *, exact: bool = False) -> str:
    archive = images.build_archive(
        engine,  # type: ignore[arg-type]
        name="kindling-x",
        tag="tag",
        context=context,
        containerfile=context / "Containerfile",
        build_args={},
        exact=exact,
    )
    return archive.read_text()


def test_built_as_it_is_locked(context: Path) -> None:
    engine = Engine(gone=False)
    assert [build(engine, context) for _ in range(2)] == ["locked", "locked"]
    assert engine.built == ["locked"]


def test_a_version_that_is_gone_keeps_nobody_from_working_here(
    context: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine(gone=True)
    lock = (context / debian_lock.FILE).read_text()
    assert [build(engine, context) for _ in range(2)] == ["newer", "newer"]
    assert engine.built == ["locked", "newer"]
    said = capsys.readouterr().err
    assert "kindling-x" in said
    assert "python3 -m infra renew" in said
    assert (context / debian_lock.FILE).read_text() == lock


def test_what_goes_to_a_registry_is_what_is_locked(context: Path) -> None:
    engine = Engine(gone=True)
    build(engine, context)  # what was built for this machine alone does not do
    with pytest.raises(KindlingError) as raised:
        build(engine, context, exact=True)
    assert "no installation candidate" in raised.value.why
    assert "python3 -m infra renew" in raised.value.remedy


needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt on this machine")


@needs_apt
def test_renew_writes_what_debian_has_and_then_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a Debian of one package in two architectures, so that no mirror is asked."""
    for name in ("operator", "infra/images/broker"):
        (tmp_path / name).mkdir(parents=True)
        words = ["apt-get", "-q", "install", "--yes", "-o", "Some::Option", "server"]
        (tmp_path / name / "Containerfile").write_text(f"RUN --mount=type=cache {json.dumps(words)}\n")
    (tmp_path / "operator/images").mkdir()
    lists = tmp_path / "debian"
    for architecture, version in (("amd64", "1.2"), ("arm64", "1.2+b1")):
        folder = lists / "dists/x/main" / f"binary-{architecture}"
        folder.mkdir(parents=True)
        (folder / "Packages").write_text(
            "".join(
                f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nPriority: required\n"
                f"Filename: {name}.deb\nSize: 1\nSHA256: {'0' * 64}\nEssential: {essential}\n\n"
                for name, essential in (("server", "no"), ("apt", "yes"), ("ca-certificates", "no"))
            )
        )
    monkeypatch.setattr(debian_lock, "sources", lambda: f"deb [trusted=yes] file:{lists} x main\n")
    monkeypatch.setattr(debian_lock, "_KEYS", Path(__file__))
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    assert renew.run(Command("renew")) == 0
    reported = capsys.readouterr().out
    assert "operator/packages.pref:\n" in reported
    assert "  server new -> 1.2 and 1.2+b1\n" in reported
    made = (tmp_path / "operator" / debian_lock.FILE).read_text()
    assert debian_lock.read(made) == dict.fromkeys(("apt", "ca-certificates", "server"), ("1.2", "1.2+b1"))
    assert (tmp_path / "infra/images/broker" / debian_lock.FILE).read_text() == made
    assert renew.run(Command("renew")) == 0
    assert "All are of the newest versions." in capsys.readouterr().out


@needs_apt
@pytest.mark.parametrize(("there", "installs"), [("1.2", True), ("1.3", False)])
def test_apt_itself_takes_what_is_locked_or_fails(tmp_path: Path, there: str, installs: bool) -> None:
    """And with the versions only preferred, the newer one."""
    lists, root = tmp_path / "debian", tmp_path / "root"
    (lists / "dists/x/main/binary-amd64").mkdir(parents=True)
    (lists / "dists/x/main/binary-amd64/Packages").write_text(
        f"Package: server\nVersion: {there}\nArchitecture: amd64\n"
        f"Filename: s.deb\nSize: 1\nSHA256: {'0' * 64}\n"
    )
    for part in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / part).mkdir(parents=True)
    (root / "status").touch()
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{lists} x main\n")
    options = [f"Dir={root}", f"Dir::State::status={root}/status", "APT::Sandbox::User="]
    options += ["APT::Architecture=amd64", "APT::Architectures=amd64", "Dir::Etc::sourceparts=-"]
    words = ["apt-get", *(word for option in options for word in ("-o", option))]
    lock = debian_lock.text({"server": ("1.2",)})

    def install(preferences: str) -> bool:
        (root / "etc/apt/preferences.d" / "kindling.pref").write_text(preferences)
        done = subprocess.run([*words, "-s", "install", "server"], capture_output=True, text=True, timeout=60)
        return done.returncode == 0 and f"Inst server ({there}" in done.stdout

    subprocess.run([*words, "update"], check=True, capture_output=True, timeout=60)
    assert install(lock) is installs
    assert install(debian_lock.unlocked(lock))


def test_engine_is_the_shape_that_images_needs() -> None:
    assert {"has_image", "build", "save"} <= set(dir(ContainerEngine))


def test_of_the_next_suite_two_packages_alone_are_taken() -> None:
    """Also where the lock has aged, and the newest versions are taken."""
    with_it = debian_lock.text({**PINS, "pgbackrest": ("2.60.0-1",), "libxml2-16": ("2.15",)})
    assert debian_lock.read(with_it) == {**PINS, "pgbackrest": ("2.60.0-1",), "libxml2-16": ("2.15",)}
    for content in (with_it, debian_lock.unlocked(with_it)):
        assert "Package: pgbackrest libxml2-16\nPin: release n=forky\nPin-Priority: 990\n" in content
        assert "Package: *\nPin: release n=forky\nPin-Priority: -1\n" in content
    assert "forky" not in debian_lock.text(PINS)
    for source in SOURCES:
        folder = paths.REPOSITORY / source.context
        asks = "forky" in (folder / "Containerfile").read_text()
        assert asks == ("pgbackrest" in (folder / debian_lock.FILE).read_text())


def test_both_ends_of_a_backup_have_one_engine_and_one_server() -> None:
    locks = [
        debian_lock.read((paths.REPOSITORY / images.OPERANDS / name / debian_lock.FILE).read_text())
        for name in ("postgres", "postgres-backup")
    ]
    for package in ("pgbackrest", "postgresql-17", "libxml2-16", "libssl3t64", "libc6"):
        assert locks[0][package] == locks[1][package]


@needs_apt
@pytest.mark.parametrize("locked", [True, False])
def test_apt_itself_takes_nothing_else_of_the_next_suite(tmp_path: Path, locked: bool) -> None:
    lists, root = tmp_path / "debian", tmp_path / "root"
    for suite, version in (("trixie", "1"), ("forky", "2")):
        folder = lists / f"dists/{suite}/main/binary-amd64"
        folder.mkdir(parents=True)
        (folder / "Packages").write_text(
            "".join(
                f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
                f"Filename: {name}{version}.deb\nSize: 1\nSHA256: {'0' * 64}\n\n"
                for name in ("pgbackrest", "server")
            )
        )
        (lists / f"dists/{suite}/Release").write_text(f"Suite: {suite}\nCodename: {suite}\n")
    for part in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / part).mkdir(parents=True)
    (root / "status").touch()
    suites = [f"deb [trusted=yes] file:{lists} {suite} main\n" for suite in ("trixie", "forky")]
    (root / "etc/apt/sources.list").write_text("".join(suites))
    lock = debian_lock.text({"server": ("1",), "pgbackrest": ("2",)})
    preferences = lock if locked else debian_lock.unlocked(lock)
    (root / "etc/apt/preferences.d" / "kindling.pref").write_text(preferences)
    options = [f"Dir={root}", f"Dir::State::status={root}/status", "APT::Sandbox::User="]
    options += ["APT::Architecture=amd64", "APT::Architectures=amd64", "Dir::Etc::sourceparts=-"]
    words = ["apt-get", *(word for option in options for word in ("-o", option))]
    subprocess.run([*words, "update"], check=True, capture_output=True, timeout=60)
    done = subprocess.run(
        [*words, "-s", "install", "server", "pgbackrest"], capture_output=True, text=True, timeout=60
    )
    assert "Inst server (1 " in done.stdout, done.stdout + done.stderr
    assert "Inst pgbackrest (2 " in done.stdout
