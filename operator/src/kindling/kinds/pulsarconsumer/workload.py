"""The Deployment NAME-deployment: the consumers.

What an image must do is read the environment named here, answer /healthz and /readyz on port 8080 as
any user, serve /metrics where PULSAR_METRICS_PORT says, and acknowledge what it has handled when it is sent
SIGTERM.
"""

from __future__ import annotations

from kindling.kinds import pod_security, pod_template
from kindling.kinds.base import Child, Observed
from kindling.kinds.metadata import child_metadata, labels_of, selector_of
from kindling.kinds.pulsarconsumer import access, ambassador, handler, metrics, traces
from kindling.kinds.pulsarconsumer.spec import DEFAULT_RESOURCES, Spec
from kindling.kinds.pulsarconsumer.topics import Topics
from kindling.kinds.rollout import rollout
from kindling.kube.resources import DEPLOYMENT, Object, Ref, ResourceType

UID = 65532
CONTAINER = "consumer"
HEALTH_PORT = 8080
TYPE = "PULSAR_SUBSCRIPTION_TYPE"
# A stop takes a second or two; while it is still connecting, ten.
GRACE_SECONDS = 30


def workload_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-deployment"


def workload_ref(cr: Object) -> Ref:
    return Ref(DEPLOYMENT, cr["metadata"]["namespace"], workload_name(cr))


def build(
    type: ResourceType, cr: Object, spec: Spec, observed: Observed, *, own_image: str, local_broker: str
) -> Child:
    """`own_image` is what the ambassadors run, whatever the consumers do."""
    selector = {"matchLabels": selector_of(type, cr)}
    sidecars = [
        *ambassador.containers(spec.server, local_broker=local_broker, image=own_image),
        *handler.containers(cr, env=spec.env, resources=spec.resources),
    ]
    template = {
        "metadata": {"labels": labels_of(type, cr)},
        "spec": {
            **pod_security.pod(
                cr,
                uid=UID,
                volumes=True,
                grace_seconds=GRACE_SECONDS,
                pull_secrets=spec.pull_secrets,
            ),
            **_pull_secrets(cr, spec),
            "topologySpreadConstraints": pod_security.spread(selector),
            "initContainers": sidecars,
            "containers": [_consumer(cr, spec, observed)],
            "volumes": [{"name": "tmp", "emptyDir": {}}, *access.volumes(cr), *handler.volumes(cr)],
        },
    }
    return Child(
        type=DEPLOYMENT,
        body={
            "metadata": child_metadata(type, cr, name=workload_name(cr)),
            "spec": {
                "replicas": spec.replicas,
                **({"progressDeadlineSeconds": spec.deadline} if spec.deadline else {}),
                "selector": selector,
                "strategy": _strategy(spec, observed.objects.get(workload_ref(cr))),
                "template": pod_template.applied(type, cr, template),
            },
        },
    )


def _pull_secrets(cr: Object, spec: Spec) -> Object:
    """For the users' image and the operator's in one Pod, both's."""
    users = (cr.get("spec") or {}).get("imagePullSecrets") or []
    if not (handler.container_of(cr) and users):
        return {}
    names = dict.fromkeys([*(item["name"] for item in users), *spec.pull_secrets])
    return {"imagePullSecrets": [{"name": name} for name in names]}


def _strategy(spec: Spec, known: Object | None) -> Object:
    """New consumers before old ones go, except where the broker takes no new one beside an old one.

    That is so for Exclusive, and for every change of type, until that change has come to its end.
    """
    recreate = spec.subscription_type == "Exclusive"
    before = _type_of(known)
    if before is not None and not recreate:
        under_way = ((known or {})["spec"].get("strategy") or {}).get("type") == "Recreate"
        recreate = before != spec.subscription_type or (under_way and not rollout(known).complete)
    if recreate:
        return {"type": "Recreate", "rollingUpdate": None}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}


def _type_of(known: Object | None) -> str | None:
    """The subscription type that an observed Deployment gives its consumers."""
    template = ((known or {}).get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        for item in container.get("env") or ():
            if container.get("name") == CONTAINER and item.get("name") == TYPE:
                return str(item.get("value", ""))
    return None


def _consumer(cr: Object, spec: Spec, observed: Observed) -> Object:
    variables = {
        "PULSAR_SERVER": spec.server,
        **_topics(spec.topics),
        "PULSAR_SUBSCRIPTION_NAME": spec.subscription,
        TYPE: spec.subscription_type,
        "PULSAR_INITIAL_POSITION": spec.initial_position,
    }
    variables |= access.variables(cr)
    variables |= handler.variables(cr, observed) | metrics.variables(cr) | traces.variables(cr, spec.env)
    # Kubernetes puts variables' values in place of $(NAME), and makes $$ one $.
    env = [{"name": name, "value": value.replace("$", "$$")} for name, value in variables.items()]
    mounts = [{"name": "tmp", "mountPath": "/tmp"}, *access.mounts(cr), *handler.mounts(cr)]
    # Beside a container that handles the messages it is the operator's program alone.
    users = traces.beside(spec.env) if handler.container_of(cr) else spec.env
    return {
        "name": CONTAINER,
        **pod_security.image(spec.image),
        "env": [*env, *users],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}, *metrics.ports(cr)],
        "resources": DEFAULT_RESOURCES if handler.container_of(cr) else spec.resources,
        "securityContext": pod_security.CONTAINER,
        # Not the end of the log where it says nothing: that is other people's messages.
        "terminationMessagePolicy": "File",
        "readinessProbe": _probe("/readyz", period=2, failures=1),
        "livenessProbe": _probe("/healthz", period=10, failures=3),
        "volumeMounts": mounts,
    }


def _topics(topics: Topics) -> dict[str, str]:
    """Names have no blanks."""
    if topics.pattern:
        return {"PULSAR_TOPICS_PATTERN": topics.pattern}
    if topics.one:
        return {"PULSAR_TOPIC": topics.names[0]}
    return {"PULSAR_TOPICS": " ".join(topics.names)}


def _probe(path: str, *, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
