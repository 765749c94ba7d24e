"""The environment is read once, and an error in it names the variable, its value and a remedy."""

from __future__ import annotations

import logging

import pytest
from kindling.config import Config, InvalidConfig

GOOD = {"KINDLING_IMAGE_POSTGRES": "postgres:17"}


def test_defaults() -> None:
    config = Config.load({**GOOD, "KINDLING_WATCH_NAMESPACES": "", "KINDLING_POD": "op-1"})
    assert config == Config(
        images=config.images,
        namespace="kindling-system",
        pod="op-1",
        watch_namespaces=(),
        kinds=(),
        log_level=logging.INFO,
        log_format="json",
        port=8080,
        watch_seconds=120,
        resync_seconds=600,
        tunnel=False,
        local_broker="",
        pull_secrets=(),
        certificate_seconds=90 * 86400,
        debug=False,
        prober=None,
        traces="none",
    )


def test_an_operands_image_is_named_by_its_folder() -> None:
    images = Config.load({**GOOD, "KINDLING_IMAGE_PULSAR_CONSUMER": " consumer:1 "}).images
    assert dict(images) == {"postgres": "postgres:17", "pulsar-consumer": "consumer:1"}


@pytest.mark.parametrize("value", ["", "two words"])
def test_an_image_that_a_kind_needs_is_missed_by_name(value: str) -> None:
    images = Config.load({"KINDLING_IMAGE_PULSAR_CONSUMER": value}).images
    with pytest.raises(
        InvalidConfig, match=r"KINDLING_IMAGE_PULSAR_CONSUMER=.*operator/images/pulsar-consumer"
    ):
        images["pulsar-consumer"]


def test_on_a_developers_machine() -> None:
    config = Config.load({**GOOD, "KINDLING_LOG_FORMAT": "text", "KINDLING_TUNNEL": "1"})
    assert (config.log_format, config.tunnel) == ("text", True)


def test_namespaces_are_split() -> None:
    config = Config.load({**GOOD, "KINDLING_WATCH_NAMESPACES": "a, b,,a"})
    assert config.watch_namespaces == ("a", "b")


def test_kinds_are_split() -> None:
    assert Config.load({**GOOD, "KINDLING_KINDS": "Memcached, Postgresql,,Memcached"}).kinds == (
        "Memcached",
        "Postgresql",
    )


def test_an_unknown_kind_is_an_error_that_lists_the_kinds() -> None:
    with pytest.raises(
        InvalidConfig, match=r"KINDLING_KINDS='A,Redis': 'A' is no kind; .*Postgresql, Memcached"
    ):
        Config.load({**GOOD, "KINDLING_KINDS": "A,Redis"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KINDLING_LOG_LEVEL", "loud"),
        ("KINDLING_LOG_FORMAT", "xml"),
        ("KINDLING_TUNNEL", "yes"),
        ("KINDLING_DEBUG", "true"),
        ("KINDLING_PROBER", "relative/socket"),
        ("OTEL_TRACES_EXPORTER", "jaeger"),
        ("KINDLING_PORT", "0"),
        ("KINDLING_LOCAL_BROKER", "pulsar"),
        ("KINDLING_PULL_SECRETS", "registry,Not_A_Name"),
        ("KINDLING_LOCAL_BROKER", "pulsar://pulsar:6650"),
        ("KINDLING_PORT", "http"),
        ("KINDLING_WATCH_SECONDS", "-1"),
        ("KINDLING_RESYNC_SECONDS", "0"),
        ("KINDLING_CERTIFICATE_SECONDS", "119"),
        ("KINDLING_NAMESPACE", "No_Such"),
        ("KINDLING_WATCH_NAMESPACES", "a,B"),
        ("KINDLING_KINDS", "Memcached,memcached"),
        ("KINDLING_KINDS", "Redis"),
    ],
)
def test_an_invalid_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        Config.load({**GOOD, name: value})
