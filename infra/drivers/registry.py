"""A registry of images, asked over its HTTP API (the OCI distribution specification): is it there, as what?

Only asked: what pushes is the container engine, whose own login is used here too.
"""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message

from infra.drivers import registry_login
from infra.errors import KindlingError

SECONDS = 20.0
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
# Of a repository that is to be made beforehand: Amazon's message, the specification's, and its code.
_NO_REPOSITORY = (
    "does not exist in the registry",
    "repository name not known",
    "name unknown",
    "name_unknown",
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Docker's own is reached by another name than it is called by.
_API_HOSTS = {"docker.io": "registry-1.docker.io"}


@dataclass(frozen=True)
class Registry:
    """One registry by its HOST[:PORT]; `insecure` speaks plain HTTP."""

    host: str
    insecure: bool = False

    @classmethod
    def of(cls, repository: str, *, insecure: bool) -> Registry:
        """The registry of `HOST[:PORT]/PATH`."""
        return cls(repository.partition("/")[0], insecure)

    def check(self) -> None:
        """Raise `KindlingError` unless it answers as a registry does; a login is not asked for."""
        with self._answer("GET", "/v2/", login=False) as (status, _headers):
            if status not in (200, 401):
                raise self._strange(f"GET /v2/ is answered with status {status}")

    def digest(self, repository: str, reference: str) -> str | None:
        """The digest of `repository` (with its host) at a tag or digest; None where there is none.

        Some answer 403 for what is not there to somebody who may push it; whoever may not learns it from the
        push. Raises `KindlingError` where the registry cannot be asked, or holds no image there.
        """
        name = repository.partition("/")[2]
        with self._answer("HEAD", f"/v2/{name}/manifests/{reference}") as (status, headers):
            if status in (403, 404):
                return None
            if status == 401:
                raise KindlingError(
                    f"the registry {self.host} does not let {name} be read",
                    why=f"it answers with status {status}",
                    remedy=login(self.host),
                )
            kind = headers.get_content_type()
            if status != 200 or kind not in MANIFESTS:
                raise self._strange(f"{name}:{reference} is answered with status {status}, as {kind}")
            digest = headers.get("Docker-Content-Digest", "")
            if not _DIGEST.fullmatch(digest):
                raise self._strange(f"{name}:{reference} has no digest (`{digest}`)")
            return str(digest)

    @contextmanager
    def _answer(self, method: str, path: str, *, login: bool = True) -> Iterator[tuple[int, Message]]:
        """Status and headers; after a 401 once more, with what the engine's login gives for it."""
        url = f"{'http' if self.insecure else 'https'}://{_API_HOSTS.get(self.host, self.host)}{path}"
        status, headers = self._ask(method, url, {})
        if status == 401 and login:
            asked = headers.get("WWW-Authenticate", "")
            granted = registry_login.authorization(self.host, asked, insecure=self.insecure, timeout=SECONDS)
            if granted is not None:
                status, headers = self._ask(method, url, {"Authorization": granted})
        yield status, headers

    def _ask(self, method: str, url: str, extra: Mapping[str, str]) -> tuple[int, Message]:
        request = urllib.request.Request(url, method=method, headers={"Accept": ", ".join(MANIFESTS)})
        for name, value in extra.items():
            # Not carried along to wherever the registry redirects to.
            request.add_unredirected_header(name, value)
        try:
            trusted = None if self.insecure else registry_login.trusted(self.host)
            with urllib.request.urlopen(request, timeout=SECONDS, context=trusted) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            remedy = "check kindling:registry and the network, then run the same command again."
            if isinstance(reason, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(reason):
                remedy = "if it speaks plain HTTP, set kindling:insecureRegistry to true."
            if isinstance(reason, ssl.SSLCertVerificationError):
                remedy = (
                    "if its certificate is of an authority of your own, put the authority's into "
                    f"/etc/containers/certs.d/{self.host}/ca.crt (or /etc/docker/...), for the engine too."
                )
            raise KindlingError(
                f"the registry {self.host} does not answer", why=str(reason), remedy=remedy
            ) from None

    def _strange(self, why: str) -> KindlingError:
        return KindlingError(
            f"{self.host} does not answer as a registry of images does",
            why=why,
            remedy="check kindling:registry: HOST[:PORT]/PREFIX of a registry, and nothing else's there.",
        )


def login(host: str) -> str:
    """The remedy where a registry wants to know who asks."""
    return f"log in with your container engine: `podman login {host}` or `docker login {host}`."


def refusal(host: str, message: str, *, repositories: Sequence[str] = ()) -> str:
    """The remedy for a push that failed, by the engine's own message.

    `repositories` are all that are pushed to, where they must be there beforehand.
    """
    message = message.lower()
    if any(word in message for word in _NO_REPOSITORY):
        return (
            f"create the repositories at {host}, which makes none by itself: {', '.join(repositories)}; "
            "then run the same command again."
        )
    if any(word in message for word in ("unauthorized", "authentication required", "denied")):
        return login(host)
    if "http response to https client" in message:
        return "if it speaks plain HTTP, set kindling:insecureRegistry to true."
    if any(word in message for word in ("no space left", "507 insufficient storage")):
        return f"free disk space on {host} or on this machine, then run the same command again."
    return "check kindling:registry and the network, then run the same command again."
