"""A release's signature: made by the command, and checked by OpenSSL as the guide has it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from infra.cli.arguments import Command
from infra.cli.commands import release
from infra.distribution import files, signing
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from tests import guides
from tests.unit.infra.releases import IMAGES
from tests.unit.infra.repository import commit, new_repository, work_in

GUIDE = REPOSITORY / "docs/guides/install.md"
PASSPHRASE = "correct horse"
MAKE, CHECK = "openssl genpkey", "openssl base64"


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    if words[1] == "genpkey" or "-pubout" in words:
        # In place of the terminal that OpenSSL asks.
        words = [*words, "-pass" if words[1] == "genpkey" else "-passin", f"pass:{PASSPHRASE}"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The folder with kindling.key and kindling.pub, made as the guide has it."""
    for words in guides.openssl(MAKE):
        done = run(words, tmp_path)
        assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a release goes, of a checkout whose rendering these tests are not about."""
    folder = new_repository(tmp_path / "repository")
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3\n\n- much\n")
    (folder / "docs/upgrading.md").write_text("# Upgrading\n\n## Upgrade notes\n\n### 1.2.3\n\nNothing.\n")
    commit(folder)
    work_in(folder, monkeypatch)
    monkeypatch.setattr(files, "image_names", lambda: tuple(IMAGES))

    def of(_source: object, _root: Path) -> dict[str, bytes]:
        made = {"install.yaml": b"kind: List\n", "crds.yaml": b"kind: List\n"}
        return {**made, files.SUMS: files.sums(made).encode()}

    monkeypatch.setattr(files, "of", of)
    monkeypatch.setenv(signing.PASSPHRASE, PASSPHRASE)
    return tmp_path / "release"


def make(output: Path, key: Path | None) -> None:
    release.run(
        Command("release", version="1.2.3", images=tuple(IMAGES.values()), output=output, signing_key=key)
    )


def verified(output: Path) -> tuple[bool, str]:
    """What the guide's two commands say in the release's folder."""
    first, second = guides.openssl(CHECK)
    assert run(first, output).returncode == 0
    done = run(second, output)
    return done.returncode == 0, done.stdout + done.stderr


def test_the_guide_has_no_other_command_of_openssl() -> None:
    assert guides.openssl() == guides.openssl(CHECK) + guides.openssl(MAKE)


def test_openssl_verifies_it_as_the_guide_says(
    keys: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(output, keys / "kindling.key")
    good, said = verified(output)
    assert good, said
    assert said in GUIDE.read_text()
    assert "unsigned" not in capsys.readouterr().out
    assert sorted(path.name for path in output.iterdir()) == [
        "SHA256SUMS", "SHA256SUMS.sig", "crds.yaml", "install.yaml",
    ]  # fmt: skip


def test_the_same_release_has_the_same_signature(keys: Path, output: Path) -> None:
    make(output, keys / "kindling.key")
    make(output.with_name("again"), keys / "kindling.key")
    assert (output / signing.SIGNATURE).read_bytes() == (
        output.with_name("again") / signing.SIGNATURE
    ).read_bytes()


def test_changed_sums_and_another_key_are_refused(keys: Path, output: Path) -> None:
    make(output, keys / "kindling.key")
    sums = output / files.SUMS
    text = sums.read_text()
    sums.write_text(text.replace(text[:8], "00000000", 1))
    assert not verified(output)[0]
    sums.write_text(text)
    assert verified(output)[0]
    for words in guides.openssl(MAKE):
        run(words, keys)
    assert not verified(output)[0]


def test_without_a_key_it_is_said_to_be_unsigned(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(output, None)
    assert not (output / signing.SIGNATURE).exists()
    assert capsys.readouterr().out.rstrip().endswith(f"{output}, unsigned.")


def of_another_curve(folder: Path) -> None:
    words = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out other.key"
    subprocess.run(shlex.split(words), cwd=folder, capture_output=True, timeout=30, check=True)


@pytest.mark.parametrize(
    ("file", "passphrase", "why"),
    [
        ("missing.key", PASSPHRASE, "No such file"),
        ("kindling.pub", PASSPHRASE, "it is no private key in PEM"),
        ("kindling.key", "", "it is encrypted"),
        ("kindling.key", "wrong", f"{signing.PASSPHRASE} does not open it"),
        ("other.key", PASSPHRASE, "no key of the curve P-256"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_before_anything_is_made(
    keys: Path,
    output: Path,
    file: str,
    passphrase: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_another_curve(keys)
    monkeypatch.setenv(signing.PASSPHRASE, passphrase)
    with pytest.raises(KindlingError) as raised:
        make(output, keys / file)
    assert raised.value.what == f"--signing-key cannot be `{keys / file}`"
    assert why in raised.value.why
    assert raised.value.remedy
    assert passphrase not in str(raised.value) or not passphrase
    assert not output.exists()
