"""The stores of backups: what a URL and an address say of one, and which keys of a Secret open it.

That of a folder on a volume (`claims`) has neither address nor keys.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from kindling.kube.resources import Object

S3, GCS, AZURE, CLAIM = "s3", "gs", "azblob", "pvc"
DEFAULT_REGION = "us-east-1"

ACCESS_KEY, SECRET_KEY = "accessKeyId", "secretAccessKey"
SERVICE_ACCOUNT_KEY = "serviceAccountKey"
ACCOUNT_NAME, ACCOUNT_KEY, SAS_TOKEN = "accountName", "accountKey", "sasToken"
KEYS = {
    S3: ((ACCESS_KEY,), (SECRET_KEY,)),
    GCS: ((SERVICE_ACCOUNT_KEY,),),
    AZURE: ((ACCOUNT_NAME,), (ACCOUNT_KEY, SAS_TOKEN)),
    CLAIM: (),
}
"""What the Secret of credentialsSecretRef has for each store: of the keys in one group exactly one."""

_FORMS = {
    S3: "s3://BUCKET/PREFIX",
    GCS: "gs://BUCKET/PREFIX",
    AZURE: "azblob://CONTAINER/PREFIX",
    CLAIM: "pvc://CLAIM/PREFIX",
}
_PLACES = {AZURE: "container", CLAIM: "claim"}
_HOSTS = {GCS: "storage.googleapis.com", AZURE: "blob.core.windows.net"}
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_BUCKETS = {
    S3: r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    GCS: r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]",
    AZURE: r"[a-z0-9](?:[a-z0-9]|-(?!-)){1,61}[a-z0-9]",
    CLAIM: r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
}
_TARGETS = {
    scheme: re.compile(rf"{scheme}://({bucket})((?:/[A-Za-z0-9!_.*()-]+)*)/?")
    for scheme, bucket in _BUCKETS.items()
}
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


class Store(NamedTuple):
    """Where backups go; `host` without a scheme. `bucket` is a container of Azure's, or a claim, of which
    the rest of the address says nothing.
    """

    url: str
    scheme: str
    bucket: str
    prefix: str
    endpoint: str | None
    host: str
    port: int
    tls: bool
    region: str


def read(given: Object) -> Store:
    """Total over what the CRD admits, and of `targetURL`, `endpointURL` and `region` alone."""
    url, endpoint = str(given.get("targetURL") or ""), given.get("endpointURL")
    region = str(given.get("region") or DEFAULT_REGION)
    scheme = _scheme(url)
    found = _TARGETS[scheme].fullmatch(url) if scheme in _TARGETS else None
    bucket, prefix = (found[1], found[2]) if found else ("", "")
    host = _HOSTS.get(scheme, f"s3.{region}.amazonaws.com")
    try:
        parts = urlsplit(str(endpoint or f"https://{host}"))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit("https:"), "", 65536
    tls = parts.scheme != "http"
    return Store(
        url=url.rstrip("/"),
        scheme=scheme,
        bucket=bucket,
        prefix=prefix.rstrip("/"),
        endpoint=str(endpoint) if endpoint else None,
        host=host,
        port=port or (443 if tls else 80),
        tls=tls,
        region=region,
    )


def wrong(given: Object, *, field: str) -> str | None:
    """What is wrong with the store's URL, its address or its region."""
    url, endpoint, region = str(given.get("targetURL") or ""), given.get("endpointURL"), given.get("region")
    scheme = _scheme(url)
    if scheme not in _TARGETS:
        known = ", ".join(_FORMS.values())
        return (
            f"{field}.targetURL {url!r} is not of a store that is supported: use one of {known}; other "
            f"stores that speak S3 have their address in {field}.endpointURL."
        )
    if _TARGETS[scheme].fullmatch(url) is None or "/." in url:
        what = _PLACES.get(scheme, "bucket")
        return (
            f"{field}.targetURL {url!r} is no {what} with a prefix: use {_FORMS[scheme]}, with letters, "
            "digits and hyphens."
        )
    if scheme == CLAIM and (said := _of_no_claim(given)):
        return f"{field}.{said}"
    if region is not None and scheme != S3:
        return (
            f"{field}.region {region!r} is for a store that speaks S3 alone: leave it out with {scheme}://."
        )
    if endpoint is not None and (
        _ENDPOINT.fullmatch(str(endpoint)) is None or not 0 < read(given).port < 65536
    ):
        return (
            f"{field}.endpointURL {endpoint!r} is no address of a store: use https://HOST or "
            "https://HOST:PORT."
        )
    if scheme == GCS and not read(given).tls:
        return (
            f"{field}.endpointURL {endpoint!r} would get the service account's tokens in clear: use https://."
        )
    return None


def _of_no_claim(given: Object) -> str | None:
    """The first field that a folder on a volume has no use for."""
    for name in ("endpointURL", "region"):
        if (value := given.get(name)) is not None:
            return f"{name} {value!r} is for a store with an address: leave it out with {CLAIM}://."
    for name in ("credentialsSecretRef", "caSecretRef"):
        if (value := given.get(name)) is not None:
            return f"{name}.name {value.get('name')!r} is for a store that asks for it: leave it out with {CLAIM}://."
    return None


def form(given: Object) -> str:
    """How the URL of a store of this kind is written."""
    return _FORMS[_scheme(str(given.get("targetURL") or ""))]


def _scheme(url: str) -> str:
    """Empty without one."""
    found = _SCHEME.match(url)
    return found[1] if found else ""
