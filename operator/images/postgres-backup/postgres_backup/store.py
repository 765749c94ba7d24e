"""The object store, asked before the engine works there: a refusal has one code, and comes within seconds.

A store that speaks S3 is asked by botocore, whose errors have S3's codes; a volume is looked at (`folder`);
any other is asked by the engine itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from postgres_backup import codes, folder
from postgres_backup.engine import Engine
from postgres_backup.folder import PROBE
from postgres_backup.outcome import INVALID_REQUEST, Failed
from postgres_backup.request import Folder, S3Store

CONNECT_SECONDS = 5
READ_SECONDS = 10


def preflight(store: S3Store | Folder | None, engine: Engine, *, write: bool) -> None:
    """List below the prefix with a signed request; to `write`, put and delete a small object too.

    The engine has nothing that writes one object: of its stores, the first thing written says whether that is
    allowed.

    :raises Failed: by what the store answers.
    """
    if store is None:
        engine.reach()
        return
    if isinstance(store, Folder):
        folder.preflight(store, write=write)
        return
    key = f"{store.path}/{PROBE}"
    with _answers():
        client = _client(store)
        client.list_objects_v2(Bucket=store.bucket, Prefix=f"{store.path}/", MaxKeys=1)
        if write:
            client.put_object(Bucket=store.bucket, Key=key, Body=b"kindling")
            client.delete_object(Bucket=store.bucket, Key=key)


def some_keys(store: S3Store | Folder | None, engine: Engine) -> Sequence[str]:
    """A few keys below the prefix, from it on; empty if there are none.

    :raises Failed: by what the store answers.
    """
    if store is None:
        return engine.left()
    if isinstance(store, Folder):
        return folder.left(store)
    prefix = f"{store.path}/"
    with _answers():
        found = _client(store).list_objects_v2(Bucket=store.bucket, Prefix=prefix, MaxKeys=3)
        keys = [str(each["Key"]) for each in found.get("Contents") or ()]
    # A store on a file system lists folders, too, until it tidies up.
    return [key.removeprefix(prefix) for key in keys if not key.endswith("/")]


@contextmanager
def _answers() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        raise Failed(*codes.meaning(code, status=status)) from None
    except BotoCoreError as error:
        raise Failed(*_of(error)) from None
    except ValueError:
        # botocore's own for an endpoint that is no URL.
        raise Failed(INVALID_REQUEST, "endpointURL is none: write it as https://HOST:PORT") from None


def _of(error: BotoCoreError) -> tuple[str, str]:
    """By the first of its classes that has a meaning."""
    for each in type(error).__mro__:
        if each.__name__ in codes.MEANINGS:
            return codes.MEANINGS[each.__name__]
    return (
        INVALID_REQUEST,
        f"the store cannot be asked ({type(error).__name__}): check targetURL, endpointURL, region",
    )


def _client(store: S3Store):  # type: ignore[no-untyped-def]  # it is made when it is asked for
    # Nothing of the machine's own configuration counts: neither its files nor the cloud's metadata service.
    session = botocore.session.Session(session_vars={"config_file": (None, None, "/dev/null", None)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session.create_client(
            "s3",
            region_name=store.region,
            endpoint_url=store.endpoint or None,
            aws_access_key_id=store.access_key,
            aws_secret_access_key=store.secret_key,
            verify=store.ca,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 2, "mode": "standard"},
                signature_version="s3v4",
                s3={"addressing_style": "path" if store.endpoint else "auto"},
                # Other stores than the cloud's do not know the checksums that it takes by default.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
