"""Images pushed by the machine's own engine to Debian's own registry, and how a registry is asked.

Real ones, because what is asserted is what they say to each other: digests, logins, refusals.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra import paths
from infra.components.images import BROKER, OPERATOR, operands
from infra.drivers import images, platforms, registry_login
from infra.drivers.engine import ContainerEngine
from infra.drivers.registry import MANIFESTS, Registry, refusal
from infra.errors import KindlingError
from tests.unit.infra.registry_fronts import IDENTITY, Tokens, made_beforehand, tokens
from tests.unit.infra.registry_server import HTPASSWD, PASSWORD, USER, registry

TAG = "0123456789ab"
NOTHING = "0" * 12


@pytest.fixture(scope="module")
def engine() -> ContainerEngine:
    return ContainerEngine.detect()


@pytest.fixture(scope="module")
def image(engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of one small file, in the engine alone."""
    tar = tmp_path_factory.mktemp("rootfs") / "rootfs.tar"
    with tarfile.open(tar, "w") as archive:
        entry = tarfile.TarInfo("canary")
        entry.size = 6
        archive.addfile(entry, io.BytesIO(b"canary"))
    name = f"kindling-canary-{os.getpid()}"
    engine.import_rootfs(tar, f"localhost/{name}:{TAG}")
    yield name
    engine.remove_image(f"localhost/{name}:{TAG}")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image stands in the engine; what is pushed is not built."""
    monkeypatch.setattr(images, "build_archive", lambda *_words, **_names: Path("/no/archive"))


def push(engine: ContainerEngine, image: str, repository: str) -> str:
    return images.push(
        engine,
        name=image,
        tag=TAG,
        context=Path(),
        containerfile=Path(),
        build_args={},
        tags={platforms.own(): TAG},
        repository=repository,
        insecure=True,
    )


def test_what_is_pushed_is_found_by_tag_and_by_digest(
    engine: ContainerEngine, image: str, host: str, no_build: None
) -> None:
    repository, asked = f"{host}/team/kindling", Registry(host, insecure=True)
    assert asked.digest(repository, TAG) is None
    digest = push(engine, image, repository)
    assert asked.digest(repository, TAG) == asked.digest(repository, digest) == digest
    assert asked.digest(repository, NOTHING) is None
    assert asked.digest(f"{host}/team/other", TAG) is None
    asked.check()


def test_the_same_image_has_the_same_digest_again(
    engine: ContainerEngine, image: str, host: str, no_build: None
) -> None:
    assert push(engine, image, f"{host}/one") == push(engine, image, f"{host}/one")


def test_an_image_that_the_engine_has_lost_is_taken_from_its_archive(
    engine: ContainerEngine, host: str, tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, archive = f"localhost/{image}:{TAG}", tmp_path / "image.tar"
    engine.save(ref, archive)
    engine.remove_image(ref)
    monkeypatch.setattr(images, "build_archive", lambda *_words, **_names: archive)
    push(engine, image, f"{host}/lost")
    assert Registry(host, insecure=True).digest(f"{host}/lost", TAG) is not None


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that wants a login, and an engine that has none yet."""
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "auth.json").write_text("{}")
    with registry(tmp_path / "private", htpasswd=HTPASSWD) as host:
        yield host


def log_in(host: str, password: str) -> None:
    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    Path(os.environ["REGISTRY_AUTH_FILE"]).write_text(json.dumps({"auths": {host: {"auth": pair}}}))


def test_a_login_of_the_engine_is_enough(
    engine: ContainerEngine, image: str, private: str, no_build: None
) -> None:
    words = ["--tls-verify=false"] if engine.name == "podman" else []
    engine.run("login", *words, "--username", USER, "--password", PASSWORD, private)
    digest = push(engine, image, f"{private}/one")
    assert Registry(private, insecure=True).digest(f"{private}/one", TAG) == digest


@pytest.mark.parametrize("password", [None, "wrong-canary"])
def test_without_a_right_login_both_ways_say_how_to_log_in(
    engine: ContainerEngine, image: str, private: str, no_build: None, password: str | None
) -> None:
    if password is not None:
        log_in(private, password)
    asked = Registry(private, insecure=True)
    asked.check()  # It answers; who asks is not yet of interest.
    with pytest.raises(KindlingError) as refused:
        asked.digest(f"{private}/one", TAG)
    with pytest.raises(KindlingError) as pushed:
        push(engine, image, f"{private}/one")
    for raised in (refused, pushed):
        assert private in raised.value.what
        assert f"podman login {private}" in raised.value.remedy
        assert "wrong-canary" not in str(raised.value)


@pytest.fixture
def granting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Tokens]]:
    """A registry that believes the tokens of a server beside it, and an engine that has no login yet."""
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "auth.json").write_text("{}")
    with tokens(tmp_path / "tokens") as server, registry(tmp_path / "registry", auth=server.auth) as host:
        yield host, server


def test_a_registry_with_a_token_server_is_pushed_to_and_asked_with_the_engines_login(
    engine: ContainerEngine, image: str, granting: tuple[str, Tokens], no_build: None
) -> None:
    host, server = granting
    repository, asked = f"{host}/team/one", Registry(host, insecure=True)
    with pytest.raises(KindlingError, match="does not let team/one be read"):
        asked.digest(repository, TAG)
    log_in(host, PASSWORD)
    assert asked.digest(repository, TAG) is None
    digest = push(engine, image, repository)
    server.asked.clear()
    assert asked.digest(repository, TAG) == digest
    assert server.asked == ["GET password repository:team/one:pull"]
    log_in(host, "wrong-canary")
    with pytest.raises(KindlingError) as refused:
        asked.digest(repository, TAG)
    with pytest.raises(KindlingError) as pushed:
        push(engine, image, repository)
    for raised in (refused, pushed):
        assert f"podman login {host}" in raised.value.remedy
        assert "wrong-canary" not in str(raised.value)


@pytest.mark.parametrize("kept", ["file", "helper"])
def test_an_identity_token_opens_the_real_registry(
    engine: ContainerEngine,
    image: str,
    granting: tuple[str, Tokens],
    no_build: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
) -> None:
    """As `az acr login` leaves it; the push itself is the engine's, with a password here."""
    host, server = granting
    log_in(host, PASSWORD)
    digest = push(engine, image, f"{host}/team/one")
    content: dict[str, object] = {"auths": {host: {"identitytoken": IDENTITY}}}
    if kept == "helper":
        content = {"credHelpers": {host: "canary"}}
        credential_helper(tmp_path, monkeypatch, name="<token>", secret=IDENTITY)
    (tmp_path / "auth.json").write_text(json.dumps(content))
    server.asked.clear()
    assert Registry(host, insecure=True).digest(f"{host}/team/one", TAG) == digest
    assert server.asked == ["POST identity repository:team/one:pull"]
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {host: {"identitytoken": "expired"}}}))
    with pytest.raises(KindlingError, match="does not let team/one be read"):
        Registry(host, insecure=True).digest(f"{host}/team/one", TAG)


def test_repositories_that_must_be_there_beforehand_are_named(
    engine: ContainerEngine, image: str, host: str, no_build: None
) -> None:
    """A real registry behind one that makes none by itself; a list of what a push is to find there."""
    made: set[str] = set()
    with made_beforehand(host, made) as before:
        repository = f"{before}/team/k/kindling-memcached"
        with pytest.raises(KindlingError) as raised:
            push(engine, image, repository)
        names = [
            "operator",
            "exporters",
            "memcached",
            "postgres",
            "postgres-backup",
            "postgres-init",
            "pulsar-consumer",
            "pulsar",
        ]
        assert f"create the repositories at {before}" in raised.value.remedy
        assert ", ".join(f"team/k/kindling-{name}" for name in names) in raised.value.remedy
        assert set(images.repositories(repository)) == {
            f"team/k/{source.image}" for source in (OPERATOR, BROKER, *operands().values())
        }
        guide = (paths.REPOSITORY / "docs/guides/existing-clusters.md").read_text()
        for name in names:
            assert f"`PREFIX/kindling-{name}`" in guide
        made.add("team/k/kindling-memcached")
        digest = push(engine, image, repository)
        assert Registry(before, insecure=True).digest(repository, TAG) == digest


def closed_port() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


def test_a_registry_that_refuses_is_named_by_both_ways(
    engine: ContainerEngine, image: str, no_build: None
) -> None:
    host = closed_port()
    with pytest.raises(KindlingError) as asked:
        Registry(host, insecure=True).digest(f"{host}/one", TAG)
    assert asked.value.what == f"the registry {host} does not answer"
    assert "refused" in asked.value.why
    with pytest.raises(KindlingError, match=f"could not be pushed to {host}"):
        push(engine, image, f"{host}/one")


def test_a_registry_without_tls_is_distinguished_from_one_that_is_away(host: str) -> None:
    with pytest.raises(KindlingError) as raised:
        Registry(host).check()
    assert "kindling:insecureRegistry" in raised.value.remedy


@contextmanager
def server(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> Iterator[tuple[str, list[str]]]:
    """Something that speaks HTTP; yields its HOST:PORT and what it was asked, with the authorization."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            asked.append(f"{self.path} {given}".strip())
            key = self.path.partition("?")[0] + (" with token" if given.startswith("Bearer") else "")
            status, headers, body = answers.get(key, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, _, answer = answers[self.path]
            asked.append(f"POST {self.path} {body}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_words: object) -> None:
            """Nothing to the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}", asked
        running.shutdown()


def test_a_registry_with_tokens_is_given_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Docker Hub and most others do: 401, a token from elsewhere, and again."""
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
    with server(answers) as (host, asked):
        digest = f"sha256:{'a' * 64}"
        challenge = f'Bearer realm="http://{host}/token",service="s",scope="repository:one:pull"'
        answers |= {
            "/v2/one/manifests/t": (401, {"WWW-Authenticate": challenge}, b""),
            "/token": (200, {}, b'{"token": "canary-token"}'),
            "/v2/one/manifests/t with token": (
                200,
                {"Content-Type": MANIFESTS[2], "Docker-Content-Digest": digest},
                b"",
            ),
        }
        log_in(host, PASSWORD)
        assert Registry(host, insecure=True).digest(f"{host}/one", "t") == digest
        assert asked[1].startswith("/token?service=s&scope=repository%3Aone%3Apull Basic ")
        assert asked[2].endswith("Bearer canary-token")


@pytest.mark.parametrize("kept", ["file", "helper"])
def test_an_identity_token_is_posted_for_one_that_lasts_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """As `az acr login` leaves it, in the file or with a helper."""
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
    with server(answers) as (host, asked):
        challenge = f'Bearer realm="http://{host}/token",service="s",scope="repository:one:pull"'
        answers["/token"] = (200, {}, b'{"access_token": "canary-token"}')
        content: dict[str, object]
        if kept == "file":
            nobody = base64.b64encode(b"00000000-0000-0000-0000-000000000000:").decode()
            content = {"auths": {host: {"auth": nobody, "identitytoken": "canary identity"}}}
        else:
            content = {"credHelpers": {host: "canary"}}
            credential_helper(tmp_path, monkeypatch, name="<token>", secret="canary identity")
        (tmp_path / "auth.json").write_text(json.dumps(content))
        reported = registry_login.authorization(host, challenge, insecure=True, timeout=5)
        assert reported == "Bearer canary-token"
        (question,) = asked
        assert question.startswith("POST /token ")
        for word in (
            "grant_type=refresh_token",
            "refresh_token=canary+identity",
            "service=s",
            "scope=repository%3Aone%3Apull",
        ):
            assert word in question


def credential_helper(folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, secret: str) -> None:
    """A program on PATH that knows one login."""
    program = folder / "docker-credential-canary"
    answer = json.dumps({"Username": name, "Secret": secret})
    program.write_text(f"#!/usr/bin/env python3\nimport sys\nsys.stdin.read()\nprint({answer!r})\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_what_is_forbidden_may_be_what_is_not_there() -> None:
    """Artifactory and others answer 403 to whoever may push it."""
    with server({"/v2/one/manifests/t": (403, {}, b"")}) as (place, _asked):
        assert Registry(place, insecure=True).digest(f"{place}/one", "t") is None


def test_an_authority_of_ones_own_is_trusted_where_the_engines_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real registry with TLS: refused with the place for the certificate, and known once it is there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with registry(tmp_path / "tls", tls=True) as host:
        with pytest.raises(KindlingError) as raised:
            Registry(host).check()
        assert f"certs.d/{host}/ca.crt" in raised.value.remedy
        place = tmp_path / "config" / "containers" / "certs.d" / host
        place.mkdir(parents=True)
        shutil.copy(tmp_path / "tls" / "server.crt", place / "ca.crt")
        Registry(host).check()
        assert Registry(host).digest(f"{host}/one", TAG) is None


def test_a_password_goes_to_no_place_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    with server({"/token": (200, {}, b'{"token": "t"}')}) as (host, asked):
        log_in("registry.example", PASSWORD)
        challenge = f'Bearer realm="http://{host}/token",service="s"'
        reported = registry_login.authorization("registry.example", challenge, insecure=False, timeout=5)
        assert reported is None
        assert asked == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"Content-Type": "text/html"}),
        (200, {"Content-Type": MANIFESTS[0]}),
        (200, {"Content-Type": MANIFESTS[0], "Docker-Content-Digest": "sha256:short"}),
        (200, {"Content-Type": "application/vnd.cncf.helm.config.v1+json"}),
        (500, {}),
    ],
)
def test_what_is_no_image_is_not_taken_for_one(status: int, headers: dict[str, str]) -> None:
    with server({"/v2/one/manifests/t": (status, headers, b"")}) as (host, _asked):
        with pytest.raises(KindlingError) as raised:
            Registry(host, insecure=True).digest(f"{host}/one", "t")
        assert raised.value.what == f"{host} does not answer as a registry of images does"


def test_a_web_server_is_not_taken_for_a_registry() -> None:
    with server({}) as (host, _asked), pytest.raises(KindlingError, match="as a registry of images does"):
        Registry(host, insecure=True).check()


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("Error: unauthorized: authentication required", "login h:5"),
        ("denied: requested access to the resource is denied", "login h:5"),
        ("http: server gave HTTP response to HTTPS client", "insecureRegistry"),
        ("write /x: no space left on device", "free disk space"),
        ("dial tcp: connection refused", "kindling:registry"),
    ],
)
def test_a_refused_push_has_a_remedy(words: str, remedy: str) -> None:
    assert remedy in refusal("h:5", words)


def test_logins_are_looked_up_where_the_engines_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's file holds no password where a helper keeps them."""
    program = tmp_path / "docker-credential-canary"
    answer = json.dumps({"Username": "u", "Secret": "s"})
    program.write_text(
        f"#!/usr/bin/env python3\nimport sys\nassert sys.stdin.read() == 'h'\nprint({answer!r})\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("REGISTRY_AUTH_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_RUNTIME_DIR", "HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "canary"}))
    reported = registry_login.authorization("h", 'Basic realm="x"', insecure=False, timeout=5)
    assert reported == "Basic " + base64.b64encode(b"u:s").decode()
    assert registry_login.authorization("other", 'Basic realm="x"', insecure=False, timeout=5) is None
    (tmp_path / "config.json").write_text("not JSON")
    assert registry_login.authorization("h", 'Basic realm="x"', insecure=False, timeout=5) is None
