"""The container engine's login to a registry, read where the engine keeps it and never kept here.

Apart from `registry` because it is the one thing that sees passwords and tokens: they go into an
Authorization header and nowhere else.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from infra import processes

# What Docker's own registry is filed under.
_FILED = {"docker.io": "https://index.docker.io/v1/"}
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


def authorization(host: str, asked: str, *, insecure: bool, timeout: float) -> str | None:
    """The Authorization header for what a registry `asked` with (WWW-Authenticate); None without a login.

    A registry with tokens may give one to anybody, so it is asked for one without a login too.
    """
    scheme, _, rest = asked.partition(" ")
    kept = _login(host)
    if scheme.lower() == "basic":
        return kept.basic
    if scheme.lower() != "bearer":
        return None
    parameters = dict(_PARAMETER.findall(rest))
    realm = parameters.pop("realm", "")
    # A password goes to no place without TLS unless the whole registry has none.
    if not realm.startswith("https://") and not (insecure and realm.startswith("http://")):
        return None
    asking = {k: v for k, v in parameters.items() if k in ("service", "scope")}
    if kept.identity is not None:
        # OAuth2 (distribution/spec/auth/oauth): the identity token is a refresh token, and is posted.
        form = {"grant_type": "refresh_token", "client_id": "kindling", "refresh_token": kept.identity}
        body = urllib.parse.urlencode({**form, **asking}).encode()
        request = urllib.request.Request(realm, data=body, method="POST")
    else:
        request = urllib.request.Request(f"{realm}?{urllib.parse.urlencode(asking)}")
        if kept.basic is not None:
            request.add_unredirected_header("Authorization", kept.basic)
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=trusted(host)) as answer:
            granted = json.load(answer)
    except (OSError, ValueError):
        return None
    token = granted.get("token") or granted.get("access_token") if isinstance(granted, dict) else None
    return f"Bearer {token}" if isinstance(token, str) else None


def files() -> Iterator[Path]:
    """Where Podman and Docker keep logins, the first one first."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield Path(runtime, "containers", "auth.json")
    yield Path("/run/containers", str(os.getuid()), "auth.json")
    yield _config() / "containers" / "auth.json"
    yield Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker", "config.json")


def trusted(host: str) -> ssl.SSLContext:
    """The system's certificate authorities, and those that the engines keep for this registry."""
    context = ssl.create_default_context()
    for folder in (Path("/etc/docker"), Path("/etc/containers"), _config() / "containers"):
        for file in sorted((folder / "certs.d" / host).glob("*.crt")):
            context.load_verify_locations(file)
    return context


@dataclass(frozen=True)
class Login:
    """What an engine keeps of a login: a header with name and password, or an identity token instead."""

    basic: str | None = None
    identity: str | None = None


def _login(host: str) -> Login:
    filed = _FILED.get(host, host)
    for file in files():
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            helper = content.get("credHelpers", {}).get(filed) or content.get("credsStore")
            entry = content.get("auths", {}).get(filed, {})
            kept, identity = entry.get("auth"), entry.get("identitytoken")
        except (OSError, ValueError, AttributeError):
            continue
        if identity:
            return Login(identity=str(identity))
        if kept:
            return Login(basic=f"Basic {kept}")
        if helper and (found := _from_helper(str(helper), filed)) is not None:
            return found
    return Login()


def _from_helper(helper: str, host: str) -> Login | None:
    """Of a program that keeps logins (docker-credential-helpers)."""
    try:
        login = json.loads(processes.run([f"docker-credential-{helper}", "get"], timeout=30, stdin=host))
        name, secret = login["Username"], login["Secret"]
    except (processes.ProgramError, ValueError, KeyError, TypeError):
        return None
    if name == "<token>":
        return Login(identity=secret)
    return Login(basic="Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode())


def _config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
