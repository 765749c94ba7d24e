"""Backups in the stores of Google and Azure: how pgBackRest opens them, what is no credential."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kindling.kinds.backup import store_options, stores
from kindling.kinds.base import Child, Observed, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import archiver
from kindling.kube.resources import Object

from tests.unit.operator.backups import IDENTIFIER, KIND, SPEC, backup, observed, secret, secrets
from tests.unit.schema.worlds import applied

KEY = base64.b64encode(b"canary-account-key").decode()
SAS = "sv=2021-06-08&sp=rl&se=2030-01-01T00%3A00%3A00Z&sig=canary%2Bsig%3D"
ACCOUNT = {
    "type": "service_account",
    "project_id": "shop",
    "client_email": "kindling@shop.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n",
    "token_uri": "https://oauth2.googleapis.com/token",
}
AZURE: Object = {"targetURL": "azblob://backups/prefix", "endpointURL": None}
GCS: Object = {"targetURL": "gs://backups_1/prefix", "endpointURL": None}


def with_keys(**keys: str) -> Observed:
    return observed(secrets(store=secret(**keys)))


def google(**changes: Any) -> Observed:
    return with_keys(serviceAccountKey=json.dumps({**ACCOUNT, **changes}))


def made(cr: Object, seen: Observed) -> dict[str, Child]:
    children = KIND.desired(cr, applied(KIND, cr, seen))
    return {f"{child.type.kind}/{child.ref.name}": child for child in children}


def files(cr: Object, seen: Observed, name: str = "nightly-backup") -> dict[str, str]:
    data = made(cr, seen)[f"Secret/{name}"].body["data"]
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


def options(cr: Object, seen: Observed, name: str = "nightly-backup") -> dict[str, str]:
    """Those of the repository alone."""
    lines = files(cr, seen, name)["pgbackrest.conf"].splitlines()
    pairs = [line.split("=", 1) for line in lines if line.startswith("repo1-")]
    return {key: value for key, value in pairs if "retention" not in key}


COMMON = {"repo1-path": f"/prefix/ns/db/{IDENTIFIER}", "repo1-bundle": "y", "repo1-block": "y"}


@pytest.mark.parametrize(
    ("endpoint", "style", "address"),
    [
        (None, "host", "https://blob.core.windows.net:443"),
        ("https://canary.blob.core.chinacloudapi.cn", "host", "https://blob.core.chinacloudapi.cn:443"),
        ("https://azurite.shop.svc:10000", "path", "https://azurite.shop.svc:10000"),
        ("http://canaries:10000", "path", "http://canaries:10000"),
    ],
)
def test_azures_account_is_in_the_host_or_in_the_path(endpoint: str | None, style: str, address: str) -> None:
    cr = backup(**{**AZURE, "endpointURL": endpoint})
    seen = with_keys(accountName="canary", accountKey=KEY)
    expected = {
        **COMMON,
        "repo1-type": "azure",
        "repo1-azure-account": "canary",
        "repo1-azure-container": "backups",
        "repo1-azure-endpoint": address,
        "repo1-azure-uri-style": style,
        "repo1-azure-key": KEY,
        "repo1-azure-key-type": "shared",
    }
    for name in ("nightly-backup", "nightly-verify", "db-archive"):
        assert options(cr, seen, name) == expected, name


@pytest.mark.parametrize("given", [SAS, f"?{SAS}"])
def test_a_sas_token_takes_the_place_of_the_key(given: str) -> None:
    found = options(backup(**AZURE), with_keys(accountName="canary", sasToken=given))
    assert (found["repo1-azure-key-type"], found["repo1-azure-key"]) == ("sas", SAS)


def test_a_service_account_is_a_file_beside_with_no_more_than_is_read() -> None:
    cr, seen = backup(**GCS), google()
    for name, folder in (
        ("nightly-backup", "backup"),
        ("nightly-verify", "backup"),
        ("db-archive", "archive"),
    ):
        assert options(cr, seen, name) == {
            **COMMON,
            "repo1-type": "gcs",
            "repo1-gcs-bucket": "backups_1",
            "repo1-gcs-endpoint": "https://storage.googleapis.com:443",
            "repo1-gcs-key": f"/etc/kindling/{folder}/service-account.json",
            "repo1-gcs-key-type": "service",
        }
        account = json.loads(files(cr, seen, name)["service-account.json"])
        assert account == {name: ACCOUNT[name] for name in ("client_email", "private_key", "token_uri")}
        assert "canary" not in files(cr, seen, name)["pgbackrest.conf"]


@pytest.mark.parametrize(
    ("cr", "seen"),
    [
        (backup(**AZURE), with_keys(accountName="canary", accountKey=KEY)),
        (backup(**GCS), google()),
    ],
)
def test_credentials_are_in_secrets_alone_and_a_run_asks_the_store_by_the_engine(
    cr: Object, seen: Observed
) -> None:
    children = made(cr, seen)
    shown = [child.body for name, child in children.items() if not name.startswith("Secret/")]
    assert KEY not in json.dumps(shown)
    assert "canary" not in json.dumps(shown)
    asked = json.loads(files(cr, seen)["store.json"])
    assert asked == {
        "url": cr["spec"]["targetURL"],
        "endpoint": None,
        "ca": False,
        "path": f"/prefix/ns/db/{IDENTIFIER}",
        "readOnly": False,
    }


@pytest.mark.parametrize(
    ("given", "seen", "reason", "said"),
    [
        (AZURE, with_keys(accessKeyId="a", secretAccessKey="b"), "SecretNotFound", "'accountName'"),
        (AZURE, with_keys(accountName="canary"), "SecretNotFound", "'accountKey' or 'sasToken'"),
        (
            AZURE,
            with_keys(accountName="canary", accountKey=KEY, sasToken=SAS),
            "InvalidSecret",
            "both 'accountKey' and 'sasToken'",
        ),
        (AZURE, with_keys(accountName="evil.example/", accountKey=KEY), "InvalidSecret", "'accountName'"),
        (AZURE, with_keys(accountName="canary", accountKey="canary!"), "InvalidSecret", "base64"),
        (AZURE, with_keys(accountName="canary", accountKey=f"{KEY}\n"), "InvalidSecret", "one line"),
        (AZURE, with_keys(accountName="canary", sasToken="canary"), "InvalidSecret", "sig="),
        (
            {**AZURE, "endpointURL": "http://azurite:10000"},
            with_keys(accountName="canary", sasToken=SAS),
            "InvalidSecret",
            "in clear",
        ),
        (GCS, with_keys(accessKeyId="a", secretAccessKey="b"), "SecretNotFound", "'serviceAccountKey'"),
        (GCS, observed({}), "SecretNotFound", "--from-file=serviceAccountKey=FILE"),
        (GCS, with_keys(serviceAccountKey="canary"), "InvalidSecret", "JSON file"),
        (GCS, with_keys(serviceAccountKey="[]"), "InvalidSecret", "JSON file"),
        (GCS, google(private_key="canary"), "InvalidSecret", "private_key"),
        (GCS, google(client_email=7), "InvalidSecret", "client_email"),
        (GCS, google(token_uri="http://canary.example/token"), "InvalidSecret", "https on port 443"),
        (GCS, google(token_uri="https://canary.example:8443/token"), "InvalidSecret", "https on port 443"),
        (GCS, google(token_uri="https://canary:x/token"), "InvalidSecret", "https on port 443"),
    ],
)
def test_credentials_of_another_store_or_shape_are_refused_by_key(
    given: Object, seen: Observed, reason: str, said: str
) -> None:
    cr = backup(**given)
    status = KIND.status(cr, seen, SyncResult(in_sync=True)).status
    ready = find_condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert "spec.credentialsSecretRef.name 'store'" in ready["message"]
    assert said in ready["message"]
    for value in ("canary", "evil", KEY, SAS):
        assert value not in json.dumps(status)
    assert "Secret/nightly-backup" not in made(cr, seen)


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({"targetURL": "s3://bucket"}, "443"),
        ({"targetURL": "s3://bucket", "endpointURL": "https://store:7070"}, "7070"),
        ({"targetURL": "azblob://backups", "endpointURL": "http://azurite"}, "80"),
        ({"targetURL": "gs://bucket"}, "443"),
        # The server that gives tokens is another one.
        ({"targetURL": "gs://bucket", "endpointURL": "https://store:7070"}, "7070,443"),
    ],
)
def test_the_server_is_let_out_to_what_it_must_reach(given: Object, ports: str) -> None:
    store = stores.read(given)
    assert ",".join(map(str, store_options.ports(store))) == ports


def test_the_ports_are_said_in_the_secret() -> None:
    cr = backup(**{**GCS, "endpointURL": "https://store.example:7070"})
    annotations = made(cr, google())["Secret/db-archive"].body["metadata"]["annotations"]
    assert annotations == {archiver.STORE_PORT: "7070,443"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"targetURL": "azblob://Backups/x"}, "azblob://CONTAINER/PREFIX"),
        ({"targetURL": "azblob://a--b/x"}, "no container"),
        ({"targetURL": "gs://b"}, "gs://BUCKET/PREFIX"),
        ({"targetURL": "gs://bucket/../x"}, "gs://BUCKET/PREFIX"),
        ({"targetURL": "nfs://claim/x"}, "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, azblob://CONTAINER/PREFIX"),
        ({"targetURL": "gs://bucket/x", "region": "eu"}, "spec.region 'eu'"),
        ({"targetURL": "gs://bucket/x", "endpointURL": "http://store"}, "spec.endpointURL 'http://store'"),
        ({"targetURL": "azblob://bucket/x", "region": "eu"}, "spec.region 'eu'"),
    ],
)
def test_what_is_no_place_in_such_a_store_is_refused_with_its_form(given: Object, said: str) -> None:
    found = stores.wrong({**SPEC, **given}, field="spec")
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    "given",
    [
        {"targetURL": "azblob://a-b-1/x/y.z/"},
        {"targetURL": "azblob://a-b"},
        {"targetURL": "gs://b_u.cket"},
        {"targetURL": "s3://bucket/x", "region": "eu"},
    ],
)
def test_what_is_a_place_is_taken(given: Object) -> None:
    assert stores.wrong({**SPEC, **given}, field="spec") is None
