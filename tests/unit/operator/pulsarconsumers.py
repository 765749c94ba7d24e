"""PulsarConsumer resources for tests: one by hand, and a strategy of everything the CRD admits."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from kindling.kinds.base import Observed
from kindling.kinds.pulsarconsumer import PulsarConsumer
from kindling.kube.resources import DEPLOYMENT, POD, SECRET, Object, Ref

from tests.authority import Authority

IMAGE = "consumer:1"
BROKER = "pulsar.pulsar.svc:6650"
KIND = PulsarConsumer(image=IMAGE)
LOCAL = PulsarConsumer(image=IMAGE, local_broker=BROKER)
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
LONG_AGO = "2025-12-31T00:00:00Z"
JUST_NOW = "2026-01-01T00:00:59Z"

HOSTS = st.sampled_from(
    ["localhost", "LOCALHOST.", "127.0.0.1", "127.1.2.3", "[::1]", "broker", "10.0.0.1", "."]
)
PORTS = st.sampled_from(["", ":6650", ":1", ":65535"])
ADDRESSES = st.builds(
    lambda scheme, hosts, end: f"{scheme}://{','.join(host + port for host, port in hosts)}{end}",
    st.sampled_from(["pulsar", "pulsar+ssl"]),
    st.lists(st.tuples(HOSTS, PORTS), min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
)
WORDS = st.from_regex(r"[!-~]{1,20}", fullmatch=True)
KEYS = st.fixed_dictionaries({"name": st.just("other"), "key": st.just("k")})
ENTRIES: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {"name": st.from_regex(r"[A-OQ-Z_][A-Z0-9_]{0,8}", fullmatch=True)},
    optional={
        "value": st.text(max_size=9),
        "valueFrom": st.fixed_dictionaries({}, optional={"secretKeyRef": KEYS, "configMapKeyRef": KEYS}),
    },
)
AMOUNTS = st.integers(0, 9) | st.sampled_from(["500m", "1", "0.5Gi", "128Mi"])
REQUIRED: dict[str, st.SearchStrategy[Any]] = {
    "serverAddress": ADDRESSES,
    "topic": WORDS,
    "subscriptionName": WORDS,
    "replicas": st.integers(0, 1000),
}
AUTH: st.SearchStrategy[Object] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "tokenSecretRef": st.fixed_dictionaries(
                {"name": st.just("pulsar-token")}, optional={"key": st.just("jwt")}
            )
        }
    ),
    st.just({"basicSecretRef": {"name": "pulsar-login"}}),
    st.fixed_dictionaries(
        {
            "oauth2": st.fixed_dictionaries(
                {
                    "issuerURL": st.just("https://issuer.example.com/realms/a"),
                    "credentialsSecretRef": st.just({"name": "pulsar-client"}),
                },
                optional={"audience": WORDS, "scope": WORDS},
            )
        }
    ),
)
TLS: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {},
    optional={
        "caSecretRef": st.sampled_from([{"name": "pulsar-ca"}, {"name": "pulsar-ca", "key": "ca.pem"}]),
        "clientCertificateSecretRef": st.just({"name": "pulsar-certificate"}),
    },
)
HANDLERS: list[Object] = [
    {"http": {"url": "http://orders.shop:8080", "path": "/a"}},
    {"http": {"serviceRef": {"name": "orders", "port": 8080}}},
    {"container": {"image": "mine:1"}},
    {"container": {"image": "mine:1", "command": ["/orders"], "args": ["-v"], "port": 9000}},
]
SPECS: st.SearchStrategy[Object] = st.fixed_dictionaries(
    REQUIRED,
    optional={
        "image": st.just("mine:1"),
        "subscriptionType": st.sampled_from(["Exclusive", "Shared", "Failover", "Key_Shared"]),
        "initialPosition": st.sampled_from(["Latest", "Earliest"]),
        "auth": AUTH,
        "tls": TLS,
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
                "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), AMOUNTS),
            },
        ),
        "adminURL": st.sampled_from(["http://broker", "http://broker.pulsar.svc:8080/"]),
        "env": st.lists(ENTRIES, max_size=3, unique_by=lambda entry: str(entry["name"])),
        "handler": st.sampled_from(HANDLERS),
    },
)
NAMES = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?)?", fullmatch=True
)


def consumer(
    *, name: str = "printer", generation: int = 1, status: Object | None = None, **spec: Any
) -> Object:
    """Without labels, as the document's; `spec` is laid over the least one."""
    least = {
        "serverAddress": "pulsar://broker:6650",
        "topic": "orders",
        "subscriptionName": "printers",
        "replicas": 1,
    }
    meta = {"namespace": "ns", "name": name, "uid": "cr-uid", "generation": generation}
    return {"metadata": meta, "spec": {**least, **spec}, "status": status or {}}


def observed(children: Mapping[Ref, Object] | None = None) -> Observed:
    return Observed(objects=children or {}, now=NOW, entropy=b"e" * 32)


def token(**values: str) -> dict[Ref, Object]:
    """The Secret pulsar-token with these values."""
    return secret("pulsar-token", values)


def secret(name: str, values: Mapping[str, str], *, version: str = "1") -> dict[Ref, Object]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    meta = {"namespace": "ns", "name": name, "uid": f"{name}-uid", "resourceVersion": version}
    return {Ref(SECRET, "ns", name): {"metadata": meta, "data": data}}


AUTHORITY = Authority("tests")
OWN = AUTHORITY.issue("workers")
SECRETS: dict[Ref, Object] = {
    **token(token="canary-token", jwt="canary-token"),
    **secret("pulsar-login", {"username": "canary-user", "password": "canary-password"}),
    **secret("pulsar-client", {"clientId": "canary-id", "clientSecret": "canary-secret"}),
    **secret("pulsar-ca", {"ca.crt": AUTHORITY.certificate, "ca.pem": AUTHORITY.certificate}),
    **secret("pulsar-certificate", {"tls.crt": OWN.certificate, "tls.key": OWN.key}),
}
"""Every Secret that SPECS name."""


def rolled_out(wanted: int = 1, *, available: int | None = None, **status: object) -> dict[Ref, Object]:
    """The Deployment of `consumer()`, with all of its Pods made and so many of them available."""
    up = wanted if available is None else available
    meta = {
        "namespace": "ns",
        "name": "printer-deployment",
        "generation": 1,
        "ownerReferences": [{"uid": "cr-uid"}],
    }
    counts = {"replicas": wanted, "updatedReplicas": wanted, "availableReplicas": up}
    body = {
        "metadata": meta,
        "spec": {"replicas": wanted},
        "status": {"observedGeneration": 1, **counts, **status},
    }
    return {Ref(DEPLOYMENT, "ns", "printer-deployment"): body}


def pod(
    *,
    name: str = "printer-1",
    ready: bool = True,
    since: str = LONG_AGO,
    said: str | None = None,
    waiting: str | None = None,
    **status: object,
) -> dict[Ref, Object]:
    """A consumer's Pod: running `since`, or waiting; `said` is what it left when it ended last."""
    container: Object = {"name": "consumer", "image": IMAGE, "state": {"running": {"startedAt": since}}}
    if waiting is not None:
        container["state"] = {"waiting": {"reason": waiting}}
    if said is not None:
        container["lastState"] = {"terminated": {"exitCode": 1, "message": said}}
    labels = {
        "app.kubernetes.io/instance": "printer",
        "kindling.dev/kind": "pulsarconsumer.pulsar.pulsarconsumer.krvarma.com",
    }
    body = {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [container],
            **status,
        },
    }
    return {Ref(POD, "ns", name): body}
