"""What the dashboards show: each panel with its queries, in PromQL."""

from __future__ import annotations

from tests.unit.docs.consumer_panels import HANDLERS, MESSAGES, PROCESSES
from tests.unit.docs.panel import CHOSEN, EVERY, Query
from tests.unit.docs.panel import Dashboard as Dashboard
from tests.unit.docs.panel import Panel as Panel

KIND, OF_KIND = "group, kind", "{{kind}}.{{group}}"
RESOURCE, NAME = "group, kind, namespace, name", "{{namespace}}/{{name}}"


def _rate(metric: str, *labels: str) -> str:
    return f"sum by ({', '.join((KIND, *labels))}) (rate({metric}{EVERY}))"


def _hourly(metric: str) -> Query:
    return f"sum by ({KIND}) (increase({metric}[1h]))", OF_KIND


def _process(metric: str) -> Query:
    """Of the operator's processes alone: every other one has a metric of this name."""
    return f"{metric} and on (job, instance) kindling_leader", "{{instance}}"


def _backup(metric: str) -> str:
    return f"max by (namespace, name) (kindling_backup_{metric}{CHOSEN})"


def _since(metric: str) -> Query:
    return f"time() - {_backup(metric)}", NAME


_ALL, _READY = f"kindling_resource_ready{CHOSEN}", f"sum(kindling_resource_ready{CHOSEN})"
_HEALTH = (
    Panel(
        title="Leaders",
        queries=(("sum(kindling_leader)", ""),),
        type="stat",
        width=4,
        help="One, at any time.",
    ),
    Panel(title="Cached objects", queries=(("max(kindling_cache_objects)", ""),), type="stat", width=4),
    Panel(title="Memory", queries=(_process("process_resident_memory_bytes"),), unit="bytes"),
    Panel(title="Processor", queries=(_process(f"rate(process_cpu_seconds_total{EVERY})"),), help="Cores."),
)
_QUEUE = (
    Panel(title="Resources that wait for a worker", queries=(("max(kindling_workqueue_depth)", "waiting"),)),
    Panel(title="Longest wait", queries=(("max(kindling_workqueue_oldest_seconds)", "first"),), unit="s"),
    Panel(
        title="Restarts of databases",
        queries=(
            ("max(kindling_restarts_waiting)", "waiting"),
            ("max(kindling_restart_seconds) / 60", "minutes of the current one"),
        ),
    ),
    Panel(
        title="Reconciliations",
        queries=(
            (_rate("kindling_reconcile_duration_seconds_count", "result"), f"{OF_KIND} {{{{result}}}}"),
        ),
        unit="ops",
        width=12,
    ),
    Panel(
        title="Duration of reconciliations, 99th percentile",
        queries=(
            (
                f"histogram_quantile(0.99, {_rate('kindling_reconcile_duration_seconds_bucket', 'le')})",
                OF_KIND,
            ),
        ),
        unit="s",
        width=12,
    ),
    Panel(
        title="Errors",
        queries=((_rate("kindling_reconcile_errors_total", "error"), f"{OF_KIND} {{{{error}}}}"),),
        unit="ops",
        rare=True,
    ),
    Panel(
        title="Writes to the API server",
        queries=((_rate("kindling_api_writes_total", "verb"), f"{{{{verb}}}} {OF_KIND}"),),
        unit="ops",
    ),
    Panel(
        title="Actions on servers",
        queries=(
            (
                _rate("kindling_external_actions_total", "action", "result"),
                f"{{{{action}}}} {{{{result}}}} {OF_KIND}",
            ),
        ),
        unit="ops",
        rare=True,
    ),
)
_WATCHES = (
    Panel(title="Lost watches in an hour", queries=(_hourly("kindling_relists_total"),), rare=True),
    Panel(
        title="Missed deletes in an hour",
        queries=(_hourly("kindling_missed_deletes_total"),),
        rare=True,
    ),
    Panel(
        title="Lost spans in an hour",
        queries=(("sum(increase(kindling_trace_spans_lost_total[1h]))", "lost"),),
        help="Of traces, where there are any.",
    ),
)
_RESOURCES = (
    Panel(title="Resources", queries=((f"count({_ALL})", ""),), type="stat", width=4),
    Panel(title="Not Ready", queries=((f"count({_ALL}) - {_READY}", ""),), type="stat", width=4),
    Panel(
        title="Not Ready, by kind",
        queries=((f"count by ({KIND}) ({_ALL}) - sum by ({KIND}) ({_ALL})", OF_KIND),),
        width=16,
    ),
    Panel(
        title="Resources that are not Ready, and why",
        queries=(
            (
                f"max by ({RESOURCE}, reason) (kindling_resource_ready_reason{CHOSEN}) "
                f"and on ({RESOURCE}) kindling_resource_ready == 0",
                "",
            ),
        ),
        type="table",
        width=24,
        rare=True,
        help="docs/troubleshooting.md explains each reason.",
    ),
)


def _volume(metric: str) -> str:
    return f"max by (namespace, name) (kindling_postgresql_volume_{metric}{CHOSEN})"


_DATABASES = (
    Panel(
        title="Until a server's certificate ends",
        queries=(
            (
                "max by (namespace, name) "
                f"(kindling_postgresql_certificate_expiration_timestamp_seconds{CHOSEN}) - time()",
                NAME,
            ),
            (
                "max by (namespace, name) "
                f"(kindling_postgresql_role_certificate_expiration_timestamp_seconds{CHOSEN}) - time()",
                f"{NAME}, roles",
            ),
            (
                "max by (namespace, name) "
                f"(kindling_memcached_certificate_expiration_timestamp_seconds{CHOSEN}) - time()",
                NAME,
            ),
        ),
        unit="s",
        width=12,
        rare=True,  # no server serves a certificate where Pods do not run
        help="A successor comes when a third of its life is left.",
    ),
    Panel(
        title="Share of the volume that is used",
        queries=((f"{_volume('used_bytes')} / {_volume('capacity_bytes')}", NAME),),
        unit="percentunit",
        width=12,
        rare=True,  # nobody says how full a volume is where Pods do not run
        help="At least that much, by the server's own word.",
    ),
    Panel(
        title="Until a volume is full",
        queries=((f"{_volume('full_timestamp_seconds')} - time()", NAME),),
        unit="s",
        width=12,
        rare=True,
        help="If its data grows on as in the last hours; nothing without growth.",
    ),
    Panel(
        title="Age of a rotated login",
        queries=(
            (
                "time() - max by (namespace, name) "
                f"(kindling_postgresql_credentials_rotated_timestamp_seconds{CHOSEN})",
                NAME,
            ),
        ),
        unit="s",
        width=12,
        rare=True,
        help="Since the last rotation of spec.credentials.rotation; nothing before the first.",
    ),
    Panel(
        title="An earlier login in use",
        queries=(
            (
                "time() - max by (namespace, name) "
                f"(kindling_postgresql_credentials_previous_valid_until_timestamp_seconds{CHOSEN}) > 0",
                NAME,
            ),
        ),
        unit="s",
        width=12,
        rare=True,
        help="For how long after its overlap; nothing once it is disabled.",
    ),
)
_CONSUMERS = (
    Panel(
        title="Messages not acknowledged",
        queries=(
            (f"max by (namespace, name) (kindling_pulsarconsumer_backlog_messages{CHOSEN})", NAME),
            (
                f"max by (namespace, name) (kindling_pulsarconsumer_backlog_unacknowledged{CHOSEN})",
                f"{NAME}, with consumers",
            ),
        ),
        rare=True,  # no consumer here has an admin API to ask
        help="As the broker says, once a minute and with two digits.",
    ),
    Panel(
        title="Oldest message that waits",
        queries=(
            (
                "time() - max by (namespace, name) "
                f"(kindling_pulsarconsumer_backlog_oldest_timestamp_seconds{CHOSEN})",
                NAME,
            ),
        ),
        unit="s",
        rare=True,
        help="For how long it has waited; nothing while none is older than a minute.",
    ),
    Panel(
        title="Consumers connected",
        queries=((f"max by (namespace, name) (kindling_pulsarconsumer_backlog_consumers{CHOSEN})", NAME),),
        rare=True,
    ),
    Panel(
        title="Backlog stuck",
        queries=((f"max by (namespace, name) (kindling_pulsarconsumer_backlog_stuck{CHOSEN})", NAME),),
        rare=True,
        help="1: messages wait, consumers are connected, and none acknowledges anything.",
    ),
)
_BACKUPS = (
    Panel(title="Since the last good backup", queries=(_since("last_success_timestamp_seconds"),), unit="s"),
    Panel(
        title="Until the next backup is due",
        queries=((f"{_backup('next_due_timestamp_seconds')} - time()", NAME),),
        unit="s",
        help="Below zero: it is not there yet.",
    ),
    Panel(
        title="Since a backup failed",
        queries=(_since("last_failure_timestamp_seconds"),),
        unit="s",
        rare=True,
    ),
    Panel(
        title="Archiving",
        queries=((_backup("archiving"), NAME),),
        type="state-timeline",
        width=12,
        help="1: the log reaches the store.",
    ),
    Panel(
        title="Verified",
        queries=((_backup("verified"), NAME),),
        type="state-timeline",
        width=12,
        help="1: the newest restore that was tried succeeded, lately enough.",
    ),
    Panel(
        title="Changes that would be lost with the volume now",
        queries=((_backup("data_loss_window_seconds"), NAME),),
        unit="s",
        width=6,
    ),
    Panel(
        title="Any moment of so long can be restored",
        queries=(
            (
                f"{_backup('latest_recoverable_timestamp_seconds')} "
                f"- {_backup('first_recoverable_timestamp_seconds')}",
                NAME,
            ),
        ),
        unit="s",
        width=6,
    ),
    Panel(
        title="Since a restore succeeded",
        queries=(_since("last_verified_timestamp_seconds"),),
        unit="s",
        width=6,
    ),
    Panel(
        title="How long that restore took",
        queries=((_backup("restore_duration_seconds"), NAME),),
        unit="s",
        width=6,
    ),
)

DASHBOARDS = (
    Dashboard(
        name="kindling-operator",
        title="Kindling / Operator",
        rows=(("Health", _HEALTH), ("Queue and reconciliations", _QUEUE), ("Watches", _WATCHES)),
    ),
    Dashboard(
        name="kindling-resources",
        title="Kindling / Resources and backups",
        rows=(
            ("Resources", _RESOURCES),
            ("Databases", _DATABASES),
            ("Consumers", _CONSUMERS),
            ("Backups", _BACKUPS),
        ),
        by_namespace=True,
    ),
    Dashboard(
        name="kindling-consumers",
        title="Kindling / Consumers",
        rows=(("Messages", MESSAGES), ("Handlers", HANDLERS), ("Processes", PROCESSES)),
        by_namespace=True,
    ),
)
