"""How a PulsarConsumer is let in by its broker, and knows it: `spec.auth` and `spec.tls`, and their Secrets.

The consumers have the Secrets as files, so that a new value needs no restart. The consumer's image has the
other half: `pulsar_consumer/settings.py` reads the variables.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kindling.kinds import certificates, reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.certificates import Pair
from kindling.kube.resources import SECRET, Object, Ref

DEFAULT_TOKEN_KEY = "token"
DEFAULT_CA_KEY = "ca.crt"
FILES = "/etc/kindling"
_TOKEN, _BASIC, _OAUTH2 = "auth.tokenSecretRef", "auth.basicSecretRef", "auth.oauth2.credentialsSecretRef"
_CA, _CERTIFICATE = "tls.caSecretRef", "tls.clientCertificateSecretRef"
USERNAME, PASSWORD = "username", "password"
CLIENT_ID, CLIENT_SECRET = "clientId", "clientSecret"
CERTIFICATE, KEY = "tls.crt", "tls.key"


class Use(NamedTuple):
    """A Secret that the spec names: by which field, and for what.

    `volume` is its volume in the Pods, and its folder below FILES. `keys` are those that must have a value,
    each with the name of its file. `variables` are the consumers' settings, each with a file, or empty for
    the folder.
    """

    field: str
    secret: str
    volume: str
    keys: Mapping[str, str]
    variables: Mapping[str, str]


def uses(cr: Object) -> list[Use]:
    """Every Secret of `spec.auth` and `spec.tls`; at most one of the first, says the CRD."""
    spec = cr.get("spec") or {}
    auth, tls = spec.get("auth") or {}, spec.get("tls") or {}

    def use(field: str, ref: Object | None, volume: str, keys: Mapping[str, str], **variables: str) -> Use:
        return Use(field, str((ref or {}).get("name") or ""), volume, keys, variables)

    token, ca = auth.get("tokenSecretRef") or {}, tls.get("caSecretRef") or {}
    token_key = {str(token.get("key") or DEFAULT_TOKEN_KEY): DEFAULT_TOKEN_KEY}
    ca_key = {str(ca.get("key") or DEFAULT_CA_KEY): DEFAULT_CA_KEY}
    login, client = auth.get("basicSecretRef"), _oauth2(cr).get("credentialsSecretRef")
    pair = tls.get("clientCertificateSecretRef")
    client_keys = _same(CLIENT_ID, CLIENT_SECRET)
    found = (
        use(_TOKEN, token, "token", token_key, PULSAR_TOKEN_FILE=DEFAULT_TOKEN_KEY),
        use(_BASIC, login, "basic", _same(USERNAME, PASSWORD), PULSAR_BASIC_FILES=""),
        use(_OAUTH2, client, "oauth2", client_keys, PULSAR_OAUTH2_FILES=""),
        use(_CA, ca, "broker-ca", ca_key, PULSAR_TLS_CA_FILE=DEFAULT_CA_KEY),
        use(
            _CERTIFICATE,
            pair,
            "client-certificate",
            _same(CERTIFICATE, KEY),
            PULSAR_TLS_CERTIFICATE_FILE=CERTIFICATE,
            PULSAR_TLS_KEY_FILE=KEY,
        ),
    )
    return [each for each in found if each.secret]


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def missing(cr: Object, observed: Observed) -> tuple[Use, str] | None:
    """The first Secret that is not there, or whose key has no value: that key, or an empty one."""
    namespace = cr["metadata"]["namespace"]
    for use in uses(cr):
        if Ref(SECRET, namespace, use.secret) not in observed.objects:
            return use, ""
        values = observed.secret(namespace=namespace, name=use.secret)
        for key in use.keys:
            if not values.get(key):
                return use, key
    return None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Without its Secrets a consumer could not start; those that run have theirs and go on."""
    if (found := missing(cr, observed)) is None:
        return _unusable(cr, observed)
    use, key = found
    secret = f"Secret {use.secret!r} of spec.{use.field}"
    if key:
        wrong = f"{secret} has no key {key!r}: put the {_contents(use, key)} there"
    else:
        wrong = f"{secret} is not in namespace {cr['metadata']['namespace']!r}: create it"
    return Problem(reason=reasons.SECRET_NOT_FOUND, message=f"{wrong}, or refer to another one.")


def _unusable(cr: Object, observed: Observed) -> Problem | None:
    """What is no certificate in PEM; no value is repeated."""
    for use in uses(cr):
        values = observed.secret(namespace=cr["metadata"]["namespace"], name=use.secret)
        [first, *rest] = use.keys
        if use.field == _CA and certificates.read(values[first]) is None:
            wrong = f"{first} is no certificate in PEM: put the {_contents(use, first)} there"
        elif use.field == _CERTIFICATE and certificates.read(values[first]) is None:
            wrong = f"{first} is no certificate in PEM: put one there"
        elif use.field == _CERTIFICATE and not certificates.is_pair(Pair(values[first], values[rest[0]])):
            wrong = f"{rest[0]} (not shown) is not the key of {first}: put the two of one pair there"
        else:
            continue
        message = f"Secret {use.secret!r} of spec.{use.field}: {wrong}, or refer to another one."
        return Problem(reason=reasons.INVALID_CERTIFICATE, message=message)
    return None


def _contents(use: Use, key: str) -> str:
    if use.field in (_TOKEN, _CA):
        return {_TOKEN: "token", _CA: "certificates of the broker's authority"}[use.field]
    words = {CLIENT_ID: "client ID", CLIENT_SECRET: "client secret", CERTIFICATE: "certificate"}
    return words.get(key, "private key" if key == KEY else key)


def variables(cr: Object) -> dict[str, str]:
    """The consumers' settings for it."""
    found = {
        name: f"{FILES}/{use.volume}" + (f"/{file}" if file else "")
        for use in uses(cr)
        for name, file in use.variables.items()
    }
    for name, field in (("ISSUER_URL", "issuerURL"), ("AUDIENCE", "audience"), ("SCOPE", "scope")):
        if value := _oauth2(cr).get(field):
            found[f"PULSAR_OAUTH2_{name}"] = str(value)
    return found


def mounts(cr: Object) -> list[Object]:
    return [{"name": use.volume, "mountPath": f"{FILES}/{use.volume}", "readOnly": True} for use in uses(cr)]


def volumes(cr: Object) -> list[Object]:
    return [
        {
            "name": use.volume,
            "secret": {
                "secretName": use.secret,
                "defaultMode": 0o440,
                "items": [{"key": key, "path": path} for key, path in use.keys.items()],
            },
        }
        for use in uses(cr)
    ]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is shown to the admin API, and by what it is known. `version` changes with each of the Secrets.

    `authorization` is the header's value; `oauth2` has what a token is asked for with, see
    `kindling.prober.oauth2`. Certificates and keys are in PEM; all is empty where there is none.
    """

    authorization: str
    oauth2: Mapping[str, str]
    ca: str
    certificate: str
    key: str
    version: str


def shown(cr: Object, observed: Observed) -> Shown | None:
    """None while a Secret or its key is missing."""
    if missing(cr, observed) is not None:
        return None
    namespace, values, versions = cr["metadata"]["namespace"], dict[str, list[str]](), []
    for use in uses(cr):
        data = observed.secret(namespace=namespace, name=use.secret)
        values[use.field] = [data[key].strip() for key in use.keys]
        meta = observed.objects[Ref(SECRET, namespace, use.secret)].get("metadata") or {}
        versions.append(str(meta.get("resourceVersion", "")))
    authorization, oauth2 = "", dict[str, str]()
    if token := values.get(_TOKEN):
        authorization = f"Bearer {token[0]}"
    elif basic := values.get(_BASIC):
        authorization = "Basic " + b64encode(":".join(basic).encode()).decode()
    elif credentials := values.get(_OAUTH2):
        issuer = _oauth2(cr)
        oauth2 = {
            "issuer": str(issuer.get("issuerURL", "")),
            "audience": str(issuer.get("audience") or ""),
            "scope": str(issuer.get("scope") or ""),
            "client_id": credentials[0],
            "client_secret": credentials[1],
        }
    certificate, key = values.get(_CERTIFICATE, ["", ""])
    return Shown(
        authorization=authorization,
        oauth2=oauth2,
        ca=values.get(_CA, [""])[0],
        certificate=certificate,
        key=key,
        version=" ".join(versions),
    )


def _oauth2(cr: Object) -> Object:
    found: Object = ((cr.get("spec") or {}).get("auth") or {}).get("oauth2") or {}
    return found
