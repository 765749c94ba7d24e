"""What the environment may say: read whole, or refused by the name of the variable."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulsar_consumer.schema import Schema
from pulsar_consumer.settings import (
    BadSetting,
    Broker,
    Consumer,
    Handling,
    Http,
    OAuth2,
    Producer,
    Python,
)
from pulsar_consumer.topics import Topics

LEAST = {
    "PULSAR_SERVER": "pulsar://localhost:6650",
    "PULSAR_TOPIC": "my-topic",
    "PULSAR_SUBSCRIPTION_NAME": "first-subscription",
}
HANDLING = [
    "PULSAR_HANDLER_PYTHON",
    "PULSAR_HANDLER_URL",
    "PULSAR_HANDLER_CONCURRENCY",
    "PULSAR_RETRY_FACTOR",
    "PULSAR_OAUTH2_ISSUER_URL",
    "PULSAR_TLS_CERTIFICATE_FILE",
]
SENDING = {"PULSAR_SERVER": "pulsar://localhost:6650", "PULSAR_TOPIC": "t", "PULSAR_MESSAGE": "hello"}


def test_what_the_documents_set_is_enough() -> None:
    assert Consumer.load(LEAST) == Consumer(
        broker=Broker(server="pulsar://localhost:6650"),
        topics=Topics(names=("my-topic",)),
        subscription="first-subscription",
        subscription_type="Shared",
        initial_position="Latest",
        port=8080,
    )


def test_the_rest_is_read() -> None:
    more = {
        "PULSAR_SUBSCRIPTION_TYPE": "Key_Shared",
        "PULSAR_INITIAL_POSITION": "Earliest",
        "PULSAR_TOKEN_FILE": "/token",
        "PULSAR_HEALTH_PORT": "1",
        "PULSAR_METRICS_PORT": "9153",
    }
    read = Consumer.load({**LEAST, **more})
    assert (read.subscription_type, read.initial_position, read.port) == ("Key_Shared", "Earliest", 1)
    assert read.metrics_port == 9153
    assert read.broker.token_file == Path("/token")


def test_what_lets_it_in_is_read() -> None:
    files = {
        "PULSAR_SERVER": "pulsar+ssl://broker:6651",
        "PULSAR_BASIC_FILES": "/basic",
        "PULSAR_TLS_CA_FILE": "/ca.crt",
        "PULSAR_TLS_CERTIFICATE_FILE": "/tls.crt",
        "PULSAR_TLS_KEY_FILE": "/tls.key",
    }
    found = Consumer.load({**LEAST, **files}).broker
    assert found.encrypted
    assert (found.basic_files, found.ca_file) == (Path("/basic"), Path("/ca.crt"))
    assert (found.certificate_file, found.key_file) == (Path("/tls.crt"), Path("/tls.key"))
    issuer = {
        "PULSAR_OAUTH2_ISSUER_URL": "https://issuer/",
        "PULSAR_OAUTH2_FILES": "/oauth2",
        "PULSAR_OAUTH2_AUDIENCE": "pulsar",
    }
    read = Consumer.load({**LEAST, **issuer}).broker.oauth2
    assert read == OAuth2(issuer="https://issuer/", audience="pulsar", scope="", files=Path("/oauth2"))


PATTERN = "persistent://public/default/orders-(eu|us).*"


def several(**env: str) -> Topics:
    return Topics.load(env)


def test_one_topic_stays_what_it_was() -> None:
    one = several(PULSAR_TOPIC="a")
    assert (one.to_subscribe, one.several, one.prefetch(20), one.given) == ("a", False, 20, ["a"])


def test_several_topics_share_the_messages_that_are_held() -> None:
    """The client leaves a consumer behind for a topic that is named twice."""
    found = several(PULSAR_TOPICS="a b persistent://public/default/a shop/eu/c")
    assert found.to_subscribe == ["a", "b", "shop/eu/c"]
    assert (found.several, found.prefetch(20), found.given) == (True, 6, ["a", "b", "shop/eu/c"])
    assert several(PULSAR_TOPICS=" ".join(f"t{n}" for n in range(100))).prefetch(20) == 1


def test_a_pattern_is_what_the_client_takes() -> None:
    found = several(PULSAR_TOPICS_PATTERN=PATTERN)
    assert found.to_subscribe == re.compile(PATTERN)
    assert (found.several, found.prefetch(20), found.given) == (True, 2, [PATTERN])


@pytest.mark.parametrize(
    ("env", "topic", "name"),
    [
        ({"PULSAR_TOPIC": "a"}, "persistent://public/default/a-partition-3", "a"),
        ({"PULSAR_TOPIC": "a"}, "persistent://public/default/b", None),
        ({"PULSAR_TOPICS": "a shop/eu/b"}, "persistent://shop/eu/b", "shop/eu/b"),
        ({"PULSAR_TOPICS": "a shop/eu/b"}, "persistent://public/default/b", None),
        ({"PULSAR_TOPICS_PATTERN": PATTERN}, "public/default/orders-eu", PATTERN[:28] + "orders-eu"),
        (
            {"PULSAR_TOPICS_PATTERN": PATTERN},
            "persistent://public/default/orders-us1-partition-0",
            "persistent://public/default/orders-us1",
        ),
        ({"PULSAR_TOPICS_PATTERN": PATTERN}, "persistent://public/default/my-orders-eu", None),
        ({"PULSAR_TOPICS_PATTERN": PATTERN}, "non-persistent://public/default/orders-eu", None),
        ({"PULSAR_TOPICS_PATTERN": PATTERN}, "", None),
    ],
)
def test_what_came_from_a_topic_goes_back_to_it_alone(
    env: dict[str, str], topic: str, name: str | None
) -> None:
    assert Topics.load(env).name_of(topic) == name


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "PULSAR_TOPIC='': it must be set"),
        ({"PULSAR_TOPIC": "a", "PULSAR_TOPICS": "b"}, "PULSAR_TOPIC and PULSAR_TOPICS: set one of them"),
        (
            {"PULSAR_TOPICS_PATTERN": "orders-.*"},
            "'orders-.*': set it to persistent://TENANT/NAMESPACE/PATTERN",
        ),
        ({"PULSAR_TOPICS_PATTERN": "persistent://a/b/("}, "it is no regular expression"),
    ],
)
def test_topics_that_cannot_be_read_are_refused_by_name(env: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting) as raised:
        Topics.load(env)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PULSAR_SERVER", "", "must be set"),
        ("PULSAR_SERVER", "http://broker:8080", "pulsar://HOST:PORT"),
        ("PULSAR_SERVER", "localhost:6650", "pulsar://HOST:PORT"),
        ("PULSAR_TOPIC", "", "must be set"),
        ("PULSAR_SUBSCRIPTION_NAME", "", "must be set"),
        ("PULSAR_SUBSCRIPTION_TYPE", "shared", "Shared, Exclusive, Failover, Key_Shared"),
        ("PULSAR_INITIAL_POSITION", "First", "Latest, Earliest"),
        ("PULSAR_OAUTH2_ISSUER_URL", "http://issuer", "https://HOST/PATH"),
        ("PULSAR_HEALTH_PORT", "65536", "1 to 65535"),
        ("PULSAR_HEALTH_PORT", "0", "1 to 65535"),
        ("PULSAR_HEALTH_PORT", "²", "1 to 65535"),
        ("PULSAR_HEALTH_PORT", "9" * 5000, "1 to 65535"),
    ],
)
def test_wrong_setting_is_named_with_its_value_and_what_is_allowed(name: str, value: str, said: str) -> None:
    with pytest.raises(BadSetting) as raised:
        Consumer.load({**LEAST, name: value})
    assert f"{name}={value!r}" in str(raised.value)
    assert said in str(raised.value)


def test_message_goes_once_as_it_is_and_numbered_when_often() -> None:
    assert list(Producer.load(SENDING).messages()) == ["hello"]
    often = Producer.load({**SENDING, "PULSAR_COUNT": "3"})
    assert list(often.messages()) == ["hello 1", "hello 2", "hello 3"]


@pytest.mark.parametrize("count", ["0", "-1", "many", "1.5"])
def test_wrong_count_is_named(count: str) -> None:
    with pytest.raises(BadSetting, match="PULSAR_COUNT"):
        Producer.load({**SENDING, "PULSAR_COUNT": count})


def test_without_a_handler_messages_are_printed() -> None:
    assert Consumer.load({**LEAST, "PULSAR_OUTPUT_TOPIC": "t"}).handling is None


def test_schema_is_read_and_what_cannot_be_is_refused_by_name() -> None:
    assert Schema.load({"PULSAR_SCHEMA_DEFINITION": "{"}) is None
    assert Schema.load({"PULSAR_SCHEMA_TYPE": "Avro"}) == Schema(type="Avro")
    both = {"PULSAR_SCHEMA_TYPE": "JSON", "PULSAR_SCHEMA_DEFINITION": '{"type": "record"}'}
    assert Schema.load(both) == Schema(type="JSON", definition={"type": "record"})
    with pytest.raises(BadSetting, match="PULSAR_SCHEMA_TYPE='avro': set it to one of Avro, JSON"):
        Schema.load({"PULSAR_SCHEMA_TYPE": "avro"})
    with pytest.raises(BadSetting, match=r"spec\.schema\.definition: it is not JSON: Expecting value"):
        Schema.load({**both, "PULSAR_SCHEMA_DEFINITION": "record"})
    with pytest.raises(BadSetting, match=r"spec\.schema\.definition: it is null"):
        Schema.load({**both, "PULSAR_SCHEMA_DEFINITION": "null"})


def test_handler_is_read_with_its_defaults() -> None:
    python = {"PULSAR_HANDLER_PYTHON": "orders:handle", "PULSAR_HANDLER_HASH": "abc"}
    found = Consumer.load({**LEAST, **python}).handling
    assert found == Handling(
        handler=Python(
            name="orders:handle",
            hash="abc",
            files=Path("/etc/kindling/handler"),
            copies=Path("/tmp/handler"),
            timeout_seconds=60,
        ),
        concurrency=1,
        output_topic="",
        dead_letter_topic="",
        max_deliveries=5,
        backoff_initial_seconds=1,
        backoff_factor=2,
        backoff_max_seconds=60,
        marker=Path("/tmp/handler-failing"),
    )
    http = Consumer.load({**LEAST, "PULSAR_HANDLER_URL": "http://a/b", "PULSAR_HANDLER_TIMEOUT_SECONDS": "7"})
    assert http.handling is not None
    assert http.handling.handler == Http(url="http://a/b", timeout_seconds=7)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (
            {"PULSAR_HANDLER_PYTHON": "orders.handle"},
            "PULSAR_HANDLER_PYTHON='orders.handle': set it to MODULE",
        ),
        ({"PULSAR_HANDLER_PYTHON": "orders:handle"}, "PULSAR_HANDLER_HASH='': it must be set"),
        ({"PULSAR_HANDLER_URL": "ftp://a"}, "PULSAR_HANDLER_URL='ftp://a': set it to http://"),
        (
            {"PULSAR_HANDLER_URL": "http://a", "PULSAR_RETRY_FACTOR": "0.5"},
            "PULSAR_RETRY_FACTOR='0.5': set it to a number, 1 to 10",
        ),
    ],
)
def test_wrong_handler_is_named(env: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting) as raised:
        Consumer.load({**LEAST, **env})
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("env", "lacks"),
    [
        ({"PULSAR_TLS_CERTIFICATE_FILE": "/tls.crt"}, "PULSAR_TLS_KEY_FILE"),
        ({"PULSAR_OAUTH2_ISSUER_URL": "https://issuer"}, "PULSAR_OAUTH2_FILES"),
    ],
)
def test_half_of_what_lets_it_in_is_named(env: dict[str, str], lacks: str) -> None:
    with pytest.raises(BadSetting, match=lacks):
        Consumer.load({**LEAST, **env})


@given(
    st.dictionaries(
        st.sampled_from([*LEAST, "PULSAR_HEALTH_PORT", "PULSAR_COUNT", *HANDLING]), st.text(max_size=6)
    )
)
def test_any_environment_is_read_or_refused(env: dict[str, str]) -> None:
    for load in (Consumer.load, Producer.load):
        with suppress(BadSetting):
            load({**LEAST, "PULSAR_MESSAGE": "m", **env})
