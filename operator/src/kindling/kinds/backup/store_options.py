"""How pgBackRest opens a store of each kind: its options and files, and what a credential must be."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from kindling.kinds.backup.stores import (
    ACCESS_KEY,
    ACCOUNT_KEY,
    ACCOUNT_NAME,
    AZURE,
    CLAIM,
    GCS,
    SAS_TOKEN,
    SECRET_KEY,
    SERVICE_ACCOUNT_KEY,
    Store,
)
from kindling.kinds.postgresql import archiver
from kindling.kube.resources import Object

SERVICE_ACCOUNT_FILE = "service-account.json"
TOKEN_PORT = 443
"""Of the server that gives a service account its tokens; the network is opened for it."""

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_SIGNED = re.compile(r"\??([A-Za-z0-9]+=[^&\s]*&)*sig=[^&\s]+(&[A-Za-z0-9]+=[^&\s]*)*")
_SERVICE_ACCOUNT = ("client_email", "private_key", "token_uri")


def ports(store: Store) -> tuple[int, ...]:
    """What the server and the runs must reach."""
    if store.scheme == CLAIM:
        return ()
    return (store.port, TOKEN_PORT) if store.scheme == GCS and store.port != TOKEN_PORT else (store.port,)


def path(store: Store, inside: str) -> str:
    """Of a repository, as pgBackRest has it: a volume is mounted somewhere."""
    return f"{archiver.STORE}{inside}" if store.scheme == CLAIM else inside


def options(store: Store, keys: Mapping[str, str], *, files: str) -> dict[str, str]:
    """`keys` are the Secret's, by name; `files` is where those of `files_of` are."""
    if store.scheme == CLAIM:
        return {"repo1-type": "posix"}
    if store.scheme == GCS:
        return {
            "repo1-type": "gcs",
            "repo1-gcs-bucket": store.bucket,
            "repo1-gcs-endpoint": _address(store, store.host),
            "repo1-gcs-key-type": "service",
            "repo1-gcs-key": f"{files}/{SERVICE_ACCOUNT_FILE}",
        }
    if store.scheme == AZURE:
        account, shared = keys[ACCOUNT_NAME], keys.get(ACCOUNT_KEY)
        # The cloud has a host for each account; a server of one's own has the account in the path.
        own = store.host.removeprefix(f"{account}.")
        by_host = store.endpoint is None or own != store.host
        return {
            "repo1-type": "azure",
            "repo1-azure-account": account,
            "repo1-azure-container": store.bucket,
            "repo1-azure-endpoint": _address(store, own),
            "repo1-azure-uri-style": "host" if by_host else "path",
            "repo1-azure-key-type": "shared" if shared else "sas",
            "repo1-azure-key": shared or keys[SAS_TOKEN].removeprefix("?"),
        }
    return {
        "repo1-type": "s3",
        "repo1-s3-bucket": store.bucket,
        "repo1-s3-endpoint": store.host if store.tls else f"http://{store.host}",
        "repo1-s3-region": store.region,
        "repo1-s3-uri-style": "path" if store.endpoint else "host",
        "repo1-s3-key": keys[ACCESS_KEY],
        "repo1-s3-key-secret": keys[SECRET_KEY],
        "repo1-storage-port": str(store.port),
    }


def files_of(store: Store, keys: Mapping[str, str]) -> dict[str, str]:
    """What `options` refer to: of the key of a service account the parts that are read."""
    if store.scheme != GCS:
        return {}
    account = json.loads(keys[SERVICE_ACCOUNT_KEY])
    return {
        SERVICE_ACCOUNT_FILE: json.dumps({name: account[name] for name in _SERVICE_ACCOUNT}, sort_keys=True)
    }


def unusable(key: str, value: str) -> str | None:
    """What is wrong with a credential, as "it is" goes on; the value is not in it."""
    if key == SERVICE_ACCOUNT_KEY:
        return (
            None
            if _is_service_account(value)
            else (
                "no key of a service account: put the JSON file there that the cloud gave, with "
                f"client_email, private_key and a token_uri of https on port {TOKEN_PORT}."
            )
        )
    if not is_line(value):
        return "not one line of text; a file's last line break counts too. Write it without one."
    if key == ACCOUNT_NAME and _ACCOUNT.fullmatch(value) is None:
        return "no account's name: write 3 to 24 lowercase letters and digits."
    if key == ACCOUNT_KEY and not _is_base64(value):
        return "no key of an account: write it as the cloud shows it, in base64."
    if key == SAS_TOKEN and _SIGNED.fullmatch(value) is None:
        return "no SAS token: write the query that the cloud gave, with sig= in it."
    return None


def is_line(value: str) -> bool:
    """Whether pgBackRest reads it as it is written: it takes spaces at the ends away."""
    return value.isprintable() and value == value.strip()


def _address(store: Store, host: str) -> str:
    return f"{'https' if store.tls else 'http'}://{host}:{store.port}"


def _is_service_account(value: str) -> bool:
    try:
        found: Object = json.loads(value)
        email, key, uri = (found[name] for name in _SERVICE_ACCOUNT)
        token = urlsplit(uri)
        return (
            all(isinstance(each, str) and each for each in (email, key, uri))
            and '"' not in email
            and "-----BEGIN" in key
            and (token.scheme, token.port or TOKEN_PORT) == ("https", TOKEN_PORT)
            and bool(token.hostname)
            and is_line(uri)
        )
    except (ValueError, TypeError, LookupError, AttributeError):
        return False


def _is_base64(value: str) -> bool:
    try:
        return bool(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False
