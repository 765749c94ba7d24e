"""A release's signature and provenance: made by the command, and checked by OpenSSL as the guide has it."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cli.arguments import Command
from infra.cli.commands import release
from infra.distribution import files, provenance, signing
from infra.distribution.files import Source
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from tests import guides
from tests.unit.infra.releases import IMAGES
from tests.unit.infra.repository import commit, new_repository, work_in

GUIDE = REPOSITORY / "docs/guides/install.md"
PASSPHRASE = "correct horse"
MAKE, CHECK, CHECK_PROVENANCE = "openssl genpkey", "openssl base64", "openssl dgst"
LOCKS = ("requirements.txt", "operator/requirements.txt", "operator/packages.pref")


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
    for path in LOCKS:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(f"{path}\n")
    commit(folder)
    work_in(folder, monkeypatch)
    monkeypatch.setattr(files, "image_names", lambda: tuple(IMAGES))

    def of(source: Source, _root: Path) -> dict[str, bytes]:
        made = {"install.yaml": b"kind: List\n", "crds.yaml": b"kind: List\n"}
        made["release.json"] = json.dumps({"commit": source.commit}).encode()
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
    blocks = (CHECK, CHECK_PROVENANCE, MAKE)
    assert guides.openssl() == [words for block in blocks for words in guides.openssl(block)]


def test_openssl_verifies_it_as_the_guide_says(
    keys: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(output, keys / "kindling.key")
    good, said = verified(output)
    assert good, said
    assert said in GUIDE.read_text()
    assert "unsigned" not in capsys.readouterr().out
    assert sorted(path.name for path in output.iterdir()) == [
        "SHA256SUMS", "SHA256SUMS.sig", "crds.yaml", "install.yaml", "provenance.intoto.jsonl",
        "release.json",
    ]  # fmt: skip


def test_the_same_release_has_the_same_signature(keys: Path, output: Path) -> None:
    make(output, keys / "kindling.key")
    make(output.with_name("again"), keys / "kindling.key")
    assert (output / signing.SIGNATURE).read_bytes() == (
        output.with_name("again") / signing.SIGNATURE
    ).read_bytes()
    assert (output / provenance.FILE).read_bytes() == (
        output.with_name("again") / provenance.FILE
    ).read_bytes()


def proven(output: Path) -> tuple[bool, str]:
    """What the guide's program, and then its command, say in the release's folder."""
    [program] = [body for language, _, body in guides.blocks(guides.INSTALL) if language == "python"]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=output, capture_output=True, text=True, timeout=30, check=False
    )
    if done.returncode != 0:
        return False, done.stderr
    [words] = guides.openssl(CHECK_PROVENANCE)
    done = run(words, output)
    return done.returncode == 0, done.stdout + done.stderr


def change_payload(output: Path, old: str, new: str) -> None:
    envelope = json.loads((output / provenance.FILE).read_text())
    payload = base64.b64decode(envelope["payload"]).decode()
    assert old in payload
    envelope["payload"] = base64.b64encode(payload.replace(old, new).encode()).decode()
    (output / provenance.FILE).write_text(json.dumps(envelope))


def test_the_provenance_names_all_files_images_and_locks(keys: Path, output: Path) -> None:
    make(output, keys / "kindling.key")
    assert proven(output) == (True, "Verified OK\n")
    [line] = (output / provenance.FILE).read_text().splitlines()
    envelope = json.loads(line)
    public = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", keys / "kindling.pub", "-outform", "DER"],
        capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    assert envelope["signatures"][0]["keyid"] == hashlib.sha256(public.stdout).hexdigest()
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    digests = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    unnamed = {provenance.FILE, signing.SIGNATURE}
    for file in output.iterdir():
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        assert digests.pop(file.name, None) == (None if file.name in unnamed else found)
    assert {f"{name}@sha256:{digest}" for name, digest in digests.items()} == set(IMAGES.values())
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {
        "version": "1.2.3", "images": IMAGES, "url": "", "allowDirty": False,
    }  # fmt: skip
    [source, *locks] = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": json.loads((output / "release.json").read_text())["commit"]}
    assert {lock["name"] for lock in locks} == {*LOCKS, "Pulumi.yaml"}


def test_changed_files_payloads_and_another_key_are_not_proven(keys: Path, output: Path) -> None:
    make(output, keys / "kindling.key")
    text = (output / "crds.yaml").read_text()
    (output / "crds.yaml").write_text("kind: Other\n")
    good, said = proven(output)
    assert not good
    assert "crds.yaml is not the file that was released" in said
    (output / "crds.yaml").write_text(text)
    assert proven(output)[0]
    change_payload(output, "1.2.3", "6.6.6")
    assert not proven(output)[0]
    change_payload(output, "6.6.6", "1.2.3")
    assert proven(output)[0]
    for words in guides.openssl(MAKE):
        run(words, keys)
    assert not proven(output)[0]


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
    assert not (output / provenance.FILE).exists()
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
