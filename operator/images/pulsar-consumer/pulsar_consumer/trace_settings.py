"""Whether there are to be traces, of OpenTelemetry's standard environment variables.

Apart from what makes them, so that nothing of OpenTelemetry is imported where there are none. The operator
reads them in the same way (`kindling/telemetry/settings.py`): below this line both files are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import urlsplit

OTLP, CONSOLE, NONE = EXPORTERS = ("otlp", "console", "none")
PROTOCOL = "http/protobuf"
_RATIOS = ("traceidratio", "parentbased_traceidratio")
SAMPLERS = ("always_on", "always_off", "parentbased_always_on", "parentbased_always_off", *_RATIOS)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_NUMBERS = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
)
_SIZES = {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": 512, "OTEL_BSP_MAX_QUEUE_SIZE": 2048}
"""Spans in a request and spans that wait, with the SDK's defaults."""


def exporter(env: Mapping[str, str]) -> str:
    """The exporter of the traces, NONE where there are to be none: unlike elsewhere, that is so where no
    variable names an exporter or an endpoint.

    :raises ValueError: with variable, value and remedy, for the first one that is wrong.
    """
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return NONE
    name = env.get("OTEL_TRACES_EXPORTER", "")
    if name not in ("", *EXPORTERS):
        raise ValueError(f"OTEL_TRACES_EXPORTER={name!r}: set it to one of {', '.join(EXPORTERS)}")
    name = name or (OTLP if any(env.get(variable) for variable in _ENDPOINTS) else NONE)
    if name == OTLP:
        _check_otlp(env)
    if name != NONE:
        _check_sampler(env)
    return name


def _check_otlp(env: Mapping[str, str]) -> None:
    for variable in _PROTOCOLS:
        if (value := env.get(variable, "")) not in ("", PROTOCOL):
            raise ValueError(f"{variable}={value!r}: set it to {PROTOCOL}, which alone is spoken")
    for variable in _ENDPOINTS:
        if (value := env.get(variable, "")) and not _is_url(value):
            raise ValueError(f"{variable}={value!r}: set it to a URL, as http://collector.monitoring:4318")
    for variable in _NUMBERS:
        value = env.get(variable, "")
        if value and not (value.isascii() and value.isdigit() and 0 < int(value) < 2**31):
            raise ValueError(f"{variable}={value!r}: set it to a whole number, 1 or more")
    batch, queue = (int(env.get(variable) or default) for variable, default in _SIZES.items())
    if batch > queue:
        names = tuple(_SIZES)
        raise ValueError(f"{names[0]}={batch}: set it to at most {names[1]}, which is {queue}")


def _is_url(text: str) -> bool:
    try:
        found = urlsplit(text)
        return found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        return False


def _check_sampler(env: Mapping[str, str]) -> None:
    name = env.get("OTEL_TRACES_SAMPLER", "")
    if name not in ("", *SAMPLERS):
        raise ValueError(f"OTEL_TRACES_SAMPLER={name!r}: set it to one of {', '.join(SAMPLERS)}")
    ratio = env.get("OTEL_TRACES_SAMPLER_ARG", "")
    if name in _RATIOS and not _is_ratio(ratio):
        raise ValueError(f"OTEL_TRACES_SAMPLER_ARG={ratio!r}: set it to a number from 0 to 1, as 0.1")


def _is_ratio(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and 0 <= value <= 1
