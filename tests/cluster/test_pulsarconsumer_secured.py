"""PulsarConsumer and a broker behind TLS that wants to know who asks: each way in, each way to stay out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.authority import Authority, Pair
from tests.cluster.consumers import ADMIN as PLAIN_ADMIN
from tests.cluster.consumers import BROKER, KIND, Make, edit, pods, printed, wait_ready
from tests.cluster.secured_broker import (
    ADMIN,
    ISSUER_URL,
    SERVER,
    TOKEN_SECONDS,
    Secured,
    secured,
)
from tests.cluster.stack import Environment, within

Keep = Callable[..., str]


@pytest.fixture(scope="module")
def broker(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(environment, tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.fixture(scope="module")
def keep(environment: Environment) -> Iterator[Keep]:
    """Makes a Secret with these values, by key; returns its name."""
    made: list[str] = []

    def _keep(**values: str) -> str:
        name = f"shown-{os.urandom(3).hex()}"
        data = {key.replace("_", "."): value for key, value in values.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        environment.apply(body)
        made.append(name)
        return name

    yield _keep
    if made:
        environment.kubectl("delete", "secret", *made, "--ignore-not-found")


@pytest.fixture(scope="module")
def ca(broker: Secured, keep: Keep) -> str:
    return keep(ca_crt=broker.authority.certificate)


def tls(ca: str, certificate: str = "") -> dict[str, Any]:
    own = {"clientCertificateSecretRef": {"name": certificate}} if certificate else {}
    return {"caSecretRef": {"name": ca}, **own}


def token(name: str) -> dict[str, Any]:
    return {"tokenSecretRef": {"name": name}}


def basic(keep: Keep, password: str) -> dict[str, Any]:
    return {"basicSecretRef": {"name": keep(username="workers", password=password)}}


def oauth2(keep: Keep, secret: str, **changes: str) -> dict[str, Any]:
    shown = {"credentialsSecretRef": {"name": keep(clientId="workers", clientSecret=secret)}}
    return {"oauth2": {"issuerURL": ISSUER_URL, "audience": "pulsar", **shown, **changes}}


def pair(keep: Keep, made: Pair) -> str:
    return keep(tls_crt=made.certificate, tls_key=made.key)


def said(environment: Environment, name: str, type: str = "Ready") -> dict[str, Any]:
    conditions = environment.get(f"{KIND}/{name}")["status"]["conditions"]
    return next((found for found in conditions if found["type"] == type), {})


def send(environment: Environment, name: str, word: str) -> None:
    """By the consumer's own way to the broker."""
    [pod] = pods(environment, name)
    environment.kubectl(
        "exec", pod, "-c", "consumer", "--",
        "env", f"PULSAR_MESSAGE={word}", "python3", "-m", "pulsar_consumer.producer",
    )  # fmt: skip
    within(60, lambda: word in printed(environment, pod))


def test_each_way_in_consumes_is_counted_and_shows_no_secret(
    environment: Environment, make: Make, keep: Keep, broker: Secured, ca: str
) -> None:
    certificate = pair(keep, broker.authority.issue("workers"))
    ways: dict[str, dict[str, Any]] = {
        "token": {"auth": token(keep(token=broker.tokens["workers"])), "tls": tls(ca)},
        "basic": {"auth": basic(keep, broker.password), "tls": tls(ca)},
        "oauth2": {"auth": oauth2(keep, broker.client_secret), "tls": tls(ca)},
        "certificate": {"tls": tls(ca, certificate)},
        "certificate and token": {
            "auth": token(keep(token=broker.tokens["workers"])),
            "tls": tls(ca, certificate),
        },
    }
    # A token is obtained from an issuer of that authority also for a broker without TLS, which wants none.
    plain = {"serverAddress": BROKER, "adminURL": PLAIN_ADMIN}
    ways["oauth2 in clear"] = {**ways["oauth2"], **plain}
    secured = {"serverAddress": SERVER, "adminURL": ADMIN}
    names = {way: make(**{**secured, **spec}) for way, spec in ways.items()}
    for way, name in names.items():
        wait_ready(environment, name)
        send(environment, name, f"by-{way.replace(' ', '-')}")
    for way, name in names.items():
        # Asked once a consumer was connected.
        moving = "--for=condition=BacklogMoving"
        environment.kubectl("wait", moving, f"{KIND}/{name}", "--timeout=90s")
        assert environment.get(f"{KIND}/{name}")["status"]["backlog"]["consumers"] == 1, way
        [pod] = pods(environment, name)
        words = ("get", f"deployment/{name}-deployment", f"pod/{pod}", f"{KIND}/{name}", "-o", "json")
        everything = environment.kubectl(*words) + environment.kubectl("logs", pod, "-c", "consumer")
        for secret in (broker.client_secret, broker.password, broker.tokens["workers"], "PRIVATE KEY"):
            assert secret not in everything, way


def waits(environment: Environment, name: str, reason: str, words: str) -> dict[str, Any]:
    """BacklogMoving, once it has reason and words: on a full machine an answer may be late, and another
    comes within minutes.
    """

    def has_both() -> bool:
        found = said(environment, name, "BacklogMoving")
        return found.get("reason") == reason and words in found.get("message", "")

    with suppress(AssertionError):
        within(150, has_both)
    return said(environment, name, "BacklogMoving")


def test_each_way_to_stay_out_has_its_reason_and_heals(
    environment: Environment, make: Make, keep: Keep, broker: Secured, ca: str
) -> None:
    good = token(keep(token=broker.tokens["workers"]))
    others = Authority("others")
    stranger = pair(keep, others.issue("workers"))
    ways: dict[str, tuple[dict[str, Any], str, str]] = {
        "no token": ({"tls": tls(ca)}, "AuthenticationFailed", "or wants some"),
        "another password": (
            {"auth": basic(keep, "wrong"), "tls": tls(ca)},
            "AuthenticationFailed",
            "does not accept the credentials of spec.auth",
        ),
        "another client secret": (
            {"auth": oauth2(keep, "wrong"), "tls": tls(ca)},
            "AuthenticationFailed",
            "the issuer does not accept client ID and secret of spec.auth.oauth2: status 401 (invalid_c",
        ),
        "another certificate": (
            {"tls": tls(ca, stranger)},
            "AuthenticationFailed",
            "does not accept the client certificate of spec.tls",
        ),
        "no right": (
            {"auth": token(keep(token=broker.tokens["strangers"])), "tls": tls(ca)},
            "NotAuthorized",
            "Grant the bearer of spec.auth the right to consume the topic",
        ),
        "another authority": (
            {"auth": good, "tls": tls(keep(ca_crt=others.certificate))},
            "CertificateRejected",
            "the broker's certificate is not accepted: unable to get local issuer certificate",
        ),
        "the system's authorities": ({"auth": good}, "CertificateRejected", "spec.tls.caSecretRef"),
        "no issuer": (
            {"auth": oauth2(keep, broker.client_secret, issuerURL="https://nobody.invalid"), "tls": tls(ca)},
            "IssuerUnreachable",
            "the issuer cannot be asked for a token: there is no connection",
        ),
        "no certificate": (
            {"auth": good, "tls": tls(keep(ca_crt="not a certificate"))},
            "InvalidCertificate",
            "ca.crt is no certificate in PEM",
        ),
    }
    names = {way: make(serverAddress=SERVER, adminURL=ADMIN, **spec) for way, (spec, *_) in ways.items()}
    for way, (_, reason, words) in ways.items():
        wait_ready(environment, names[way], reason=reason)
        assert words in said(environment, names[way])["message"], way
    backlog = {
        "no token": ("NotAuthorized", "answered 401"),
        "another client secret": ("NotAuthorized", "it answered 401"),
        "another authority": ("AdminUnreachable", "its certificate is not accepted"),
        "no issuer": ("IssuerUnreachable", "gives the operator no token"),
    }
    for way, (reason, words) in backlog.items():
        found = waits(environment, names[way], reason, words)
        assert (found["status"], found["reason"]) == ("Unknown", reason), way
        assert words in found["message"], way
    for name in names.values():
        edit(environment, name, auth=None)
        edit(environment, name, auth=good, tls=tls(ca) | {"clientCertificateSecretRef": None})
    for name in names.values():
        wait_ready(environment, name)


def test_an_access_token_is_renewed_and_nobody_is_disconnected(
    environment: Environment, make: Make, keep: Keep, broker: Secured, ca: str
) -> None:
    """Through three lives of a token; the broker ends a connection whose token has ended."""
    name = make(
        serverAddress=SERVER,
        adminURL=ADMIN,
        auth=oauth2(keep, broker.client_secret),
        tls=tls(ca),
        deletionPolicy="Unsubscribe",
    )
    wait_ready(environment, name)
    stats = f"/admin/v2/persistent/public/default/{name}/stats"

    def connection() -> tuple[str, str]:
        _, found = broker.admin("GET", stats)
        [consumer] = found["subscriptions"]["printers"]["consumers"]
        return consumer["address"], consumer["connectedSince"]

    before = connection()
    time.sleep(3 * TOKEN_SECONDS)
    assert connection() == before
    send(environment, name, "after-three-tokens")
    environment.kubectl("delete", f"{KIND}/{name}", "--timeout=90s")
    _, found = broker.admin("GET", f"/admin/v2/persistent/public/default/{name}/subscriptions")
    assert found == []


def test_a_replay_has_the_messages_since_a_moment_come_once_more(
    environment: Environment, make: Make, keep: Keep, broker: Secured, ca: str
) -> None:
    """Each that was acknowledged, in order, and none from before."""
    kept = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    assert broker.admin("POST", "/admin/v2/namespaces/public/default/retention", kept)[0] == 204
    shown = token(keep(token=broker.tokens["workers"]))
    name = make(serverAddress=SERVER, adminURL=ADMIN, auth=shown, tls=tls(ca))
    wait_ready(environment, name)
    before, after = [f"before-{number}" for number in range(3)], [f"after-{number}" for number in range(3)]
    for word in before:
        send(environment, name, word)
    time.sleep(1.1)
    moment = datetime.now(UTC).isoformat()
    time.sleep(1.1)
    for word in after:
        send(environment, name, word)
    edit(environment, name, replay={"from": moment})
    replayed = "--for=condition=Replayed"
    environment.kubectl("wait", replayed, f"{KIND}/{name}", "--timeout=60s")
    [pod] = pods(environment, name)
    within(60, lambda: len(printed(environment, pod)) >= 9)
    time.sleep(12)  # for what might be done again
    assert printed(environment, pod) == [*before, *after, *after]
    status = environment.get(f"{KIND}/{name}")["status"]
    assert status["replay"]["from"] == moment
    later = {"from": datetime.now(UTC).isoformat()}
    edit(environment, name, replay=later)
    within(60, lambda: environment.get(f"{KIND}/{name}")["status"]["replay"]["from"] == later["from"])
    time.sleep(5)
    assert printed(environment, pod) == [*before, *after, *after]
