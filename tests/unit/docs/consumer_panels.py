"""What the dashboard of consumers shows: of those that have spec.metrics, by their own word."""

from __future__ import annotations

from tests.unit.docs.panel import CHOSEN, EVERY, Panel

CONSUMER, OF_CONSUMER = (
    "namespace, app_kubernetes_io_instance",
    "{{namespace}}/{{app_kubernetes_io_instance}}",
)
"""The labels of a resource's Pods, as the PodMonitor gives them."""


def _consumer(metric: str, *labels: str, of: str = "rate", window: str = EVERY) -> str:
    """The figures of a resource's Pods together."""
    return f"sum by ({', '.join((CONSUMER, *labels))}) ({of}(kindling_consumer_{metric}{CHOSEN}{window}))"


def _percentile(share: float) -> str:
    return f"histogram_quantile({share}, {_consumer('handler_seconds_bucket', 'le')})"


def _of_consumers(metric: str) -> str:
    """Every process has a metric of this name."""
    return f"{metric} and on (namespace, pod) kindling_consumer_messages_held{CHOSEN}"


MESSAGES = (
    Panel(
        title="Messages",
        queries=((_consumer("messages_total"), OF_CONSUMER),),
        unit="ops",
        help="Those that were acknowledged, dead letters among them.",
    ),
    Panel(title="Outputs", queries=((_consumer("outputs_total"), OF_CONSUMER),), unit="ops"),
    Panel(
        title="Dead letters in an hour",
        queries=(
            (
                _consumer("dead_letters_total", "reason", of="increase", window="[1h]"),
                f"{OF_CONSUMER} {{{{reason}}}}",
            ),
        ),
    ),
    Panel(
        title="Messages held",
        queries=((f"sum by ({CONSUMER}) (kindling_consumer_messages_held{CHOSEN})", OF_CONSUMER),),
        width=12,
        help="Received and not acknowledged: waiting, handled, or to be retried.",
    ),
    Panel(
        title="Figures of functions",
        queries=((_consumer("user_metric_sum", "metric"), f"{OF_CONSUMER} {{{{metric}}}}"),),
        width=12,
        rare=True,
        help="What functions record by their context, a second.",
    ),
)
HANDLERS = (
    Panel(
        title="Calls, by how they ended",
        queries=((_consumer("handler_seconds_count", "result"), f"{OF_CONSUMER} {{{{result}}}}"),),
        unit="ops",
    ),
    Panel(
        title="How long a call takes",
        queries=(
            (_percentile(0.5), f"{OF_CONSUMER}, half of them"),
            (_percentile(0.99), f"{OF_CONSUMER}, 99 of 100"),
        ),
        unit="s",
    ),
    Panel(
        title="Slowest call under way",
        queries=((f"max by ({CONSUMER}) (kindling_consumer_handler_slowest_seconds{CHOSEN})", OF_CONSUMER),),
        unit="s",
    ),
)
PROCESSES = (
    Panel(
        title="Memory of consumers",
        queries=((_of_consumers("process_resident_memory_bytes"), "{{pod}}"),),
        unit="bytes",
    ),
    Panel(
        title="Processor of consumers",
        queries=((_of_consumers(f"rate(process_cpu_seconds_total{EVERY})"), "{{pod}}"),),
        help="Cores.",
    ),
    Panel(
        title="Lost spans of consumers in an hour",
        queries=(
            (
                f"sum by ({CONSUMER}) (increase(kindling_consumer_trace_spans_lost_total{CHOSEN}[1h]))",
                OF_CONSUMER,
            ),
        ),
        help="Of traces, where there are any.",
    ),
)
