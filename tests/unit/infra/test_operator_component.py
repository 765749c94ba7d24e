"""The operator's objects: what they are named, how its Pod is kept, what it may do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kindling.prober import fair_queue, workers

from infra import program, rbac, settings
from infra.components import images
from infra.components.images import OPERATOR, operands
from infra.settings import BrokerSettings, OperatorSettings
from tests.unit.infra.fakes import Graph, declare

# Stack dev's settings without a broker, whose objects are not what is looked at here.
BARE = replace(settings.read("dev"), broker=BrokerSettings(enabled=False))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return declare(lambda: program.build(BARE), stack="dev", preview=False)


@pytest.fixture(scope="module")
def pod(graph: Graph) -> dict[str, Any]:
    spec: dict[str, Any] = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    return spec


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    return next(dict(one) for one in pod["containers"] if one["name"] == "operator")


@pytest.fixture(scope="module")
def prober(pod: dict[str, Any]) -> dict[str, Any]:
    return next(dict(one) for one in pod["containers"] if one["name"] == "prober")


def test_names_that_users_rely_on(graph: Graph) -> None:
    namespace = graph.one("kubernetes:core/v1:Namespace").inputs["metadata"]
    assert namespace["name"] == "kindling-system"
    for type in ("apps/v1:Deployment", "core/v1:ServiceAccount", "core/v1:Service"):
        meta = graph.one(f"kubernetes:{type}").inputs["metadata"]
        assert (meta["namespace"], meta["name"]) == ("kindling-system", "kindling-operator")


def test_the_namespace_takes_restricted_pods_only(graph: Graph) -> None:
    labels = graph.one("kubernetes:core/v1:Namespace").inputs["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_the_prober_has_no_token_and_little_memory(
    pod: dict[str, Any], container: dict[str, Any], prober: dict[str, Any]
) -> None:
    """It speaks to servers that are anybody's; what reaches both containers is one folder, for the socket."""
    assert pod["automountServiceAccountToken"] is False
    assert prober["image"] == container["image"]
    assert "env" not in prober
    (mount,) = prober["volumeMounts"]
    assert mount["name"] == "sockets"
    assert mount in container["volumeMounts"]
    assert prober["command"][-1] == environment_of(container)["KINDLING_PROBER"]
    assert prober["command"][-1].startswith(mount["mountPath"])
    (projected,) = [volume for volume in pod["volumes"] if "projected" in volume]
    holders = [
        one["name"]
        for one in pod["containers"]
        if projected["name"] in [mount["name"] for mount in one["volumeMounts"]]
    ]
    assert holders == ["operator"]
    most = workers.HEADROOM_BYTES * fair_queue.WORKERS
    assert int(prober["resources"]["limits"]["memory"].removesuffix("Mi")) * 2**20 > most + 64 * 2**20


def test_the_operator_finds_its_credentials_where_clients_look(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    (volume,) = [volume for volume in pod["volumes"] if "projected" in volume]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    token, bundle, namespace = volume["projected"]["sources"]
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3607}
    assert bundle["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"


def test_the_pod_is_restricted(
    pod: dict[str, Any], container: dict[str, Any], prober: dict[str, Any]
) -> None:
    """The API server would refuse less, but only once there is one; and `read-only` it does not ask."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == prober["securityContext"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all("hostPath" not in volume for volume in pod["volumes"])


def test_the_container_runs_the_image_by_content(container: dict[str, Any]) -> None:
    assert container["image"] == f"localhost/kindling-operator:{OPERATOR.digest()}"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    for kind in ("requests", "limits"):
        assert {"cpu", "memory"} == set(container["resources"][kind])


def test_the_probes_ask_the_process(container: dict[str, Any]) -> None:
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("http", 8080)
    paths = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert paths == {
        "startup": {"path": "/healthz", "port": "http"},
        "liveness": {"path": "/healthz", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
    }


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    return {
        item["name"]: item.get("value", item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"))
        for item in container["env"]
    }


def test_the_environment(container: dict[str, Any]) -> None:
    """What a stack leaves out is not there, since an empty value would be in its plan and not in the Pod."""
    assert environment_of(container) == {
        "KINDLING_LOG_LEVEL": "INFO",
        "KINDLING_PROBER": "/run/kindling/prober.sock",
        **{
            f"KINDLING_IMAGE_{name.upper().replace('-', '_')}": f"localhost/kindling-{name}:{source.digest()}"
            for name, source in operands().items()
        },
        "KINDLING_NAMESPACE": "metadata.namespace",
        "KINDLING_POD": "metadata.name",
    }


def test_the_operator_gets_the_stacks_broker() -> None:
    graph = declare(lambda: program.build(settings.read("dev")), stack="dev", preview=False)
    pod = graph.one("kubernetes:apps/v1:Deployment", "operator-deployment").inputs["spec"]["template"]["spec"]
    assert environment_of(pod["containers"][0])["KINDLING_LOCAL_BROKER"] == "pulsar.pulsar.svc:6650"


def test_settings_reach_the_deployment() -> None:
    chosen = replace(
        BARE,
        operator=OperatorSettings(replicas=3, log_level="debug", watch_namespaces=("a", "b")),
    )
    graph = declare(lambda: program.build(chosen), stack="dev", preview=False)
    spec = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    values = environment_of(spec["template"]["spec"]["containers"][0])
    assert spec["replicas"] == 3
    assert values["KINDLING_LOG_LEVEL"] == "DEBUG"
    assert values["KINDLING_WATCH_NAMESPACES"] == "a,b"


def test_what_a_stack_says_of_the_pods_is_beside_what_is_ours() -> None:
    own: dict[str, Any] = {
        "labels": {"team": "platform", "app.kubernetes.io/name": "another"},
        "annotations": {"sidecar.istio.io/inject": "false"},
        "nodeSelector": {"pool": "system"},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "system", "effect": "NoSchedule"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
        "resources": {
            "operator": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"cpu": "2", "memory": "512Mi"},
            }
        },
    }
    changed = replace(BARE, operator=replace(BARE.operator, pod=own))
    graph = declare(lambda: program.build(changed), stack="dev", preview=False)
    template = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
    spec, labels = template["spec"], template["metadata"]["labels"]
    for key in ("nodeSelector", "affinity", "tolerations", "priorityClassName", "imagePullSecrets"):
        assert spec[key] == own[key]
    assert template["metadata"]["annotations"] == own["annotations"]
    assert (labels["team"], labels["app.kubernetes.io/name"]) == ("platform", "kindling")
    operator, prober = spec["containers"]
    assert operator["resources"] == own["resources"]["operator"]
    assert prober["resources"]["limits"]["memory"] == "512Mi"
    assert operator["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_stacks_pull_secrets_reach_the_operator_its_operands_and_the_broker() -> None:
    images = replace(BARE.images, pull_secrets=("registry", "mirror"))
    chosen = replace(settings.read("dev"), images=images)
    named = [{"name": "registry"}, {"name": "mirror"}]

    def deployments(chosen: settings.Settings) -> dict[str, dict[str, Any]]:
        graph = declare(lambda: program.build(chosen), stack="dev", preview=False)
        found = graph.of("kubernetes:apps/v1:Deployment")
        return {item.name: item.inputs["spec"]["template"]["spec"] for item in found}

    pods = deployments(chosen)
    assert pods["operator-deployment"]["imagePullSecrets"] == named
    assert pods["broker-deployment"]["imagePullSecrets"] == named
    (operator, _) = pods["operator-deployment"]["containers"]
    assert environment_of(operator)["KINDLING_PULL_SECRETS"] == "registry,mirror"
    # Those of the operator's Pod alone come first, and go no further.
    own = replace(chosen.operator, pod={"imagePullSecrets": [{"name": "own"}]})
    pods = deployments(replace(chosen, operator=own))
    assert pods["operator-deployment"]["imagePullSecrets"] == [{"name": "own"}]
    assert environment_of(pods["operator-deployment"]["containers"][0])["KINDLING_PULL_SECRETS"]
    plain = deployments(settings.read("dev"))
    assert not [name for name, pod in plain.items() if "imagePullSecrets" in pod]
    assert "KINDLING_PULL_SECRETS" not in environment_of(plain["operator-deployment"]["containers"][0])


def test_replicas_prefer_different_nodes_and_do_not_go_at_once(graph: Graph, pod: dict[str, Any]) -> None:
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    # One node must still hold both.
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    budget = graph.one("kubernetes:policy/v1:PodDisruptionBudget").inputs["spec"]
    # At most one may go; a floor of one would never let the single replica of a small stack move.
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget


def test_all_selectors_find_the_pods(graph: Graph) -> None:
    spec = graph.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    labels = spec["template"]["metadata"]["labels"]
    selectors = [
        spec["selector"]["matchLabels"],
        spec["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        graph.one("kubernetes:core/v1:Service").inputs["spec"]["selector"],
        graph.one("kubernetes:policy/v1:PodDisruptionBudget").inputs["spec"]["selector"]["matchLabels"],
        graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]["podSelector"][
            "matchLabels"
        ],
    ]
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_only_the_http_port_is_open(graph: Graph) -> None:
    policy = graph.one("kubernetes:networking.k8s.io/v1:NetworkPolicy").inputs["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]


def test_the_roles_are_the_table(graph: Graph) -> None:
    tables = {
        ("ClusterRole", "operator-cluster-role"): rbac.cluster_rules(),
        ("Role", "operator-role"): rbac.OWN_NAMESPACE_RULES,
        **{("ClusterRole", f"users-{role}"): rbac.user_rules(role) for role in rbac.USER_ROLES},
    }
    for (kind, name), table in tables.items():
        rules = graph.one(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}", name).inputs["rules"]
        assert rules == [
            {
                "apiGroups": [rule.group],
                "resources": list(rule.resources),
                "verbs": list(rule.verbs),
                **({"resourceNames": list(rule.names)} if rule.names else {}),
            }
            for rule in table
        ]


def test_the_roles_are_bound_to_the_pods_account(graph: Graph, pod: dict[str, Any]) -> None:
    for kind in ("ClusterRole", "Role"):
        binding = graph.one(f"kubernetes:rbac.authorization.k8s.io/v1:{kind}Binding").inputs
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": "kindling-operator",
        }
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "kindling-system")
        assert subject["name"] == pod["serviceAccountName"]


@pytest.mark.parametrize(
    "rule", [*rbac.cluster_rules(), *rbac.OWN_NAMESPACE_RULES], ids=lambda rule: rule.why
)
def test_no_rule_is_a_wildcard_or_too_much(rule: rbac.Rule) -> None:
    assert rule.resources
    assert rule.verbs
    assert not any("*" in word for word in (rule.group, *rule.resources, *rule.verbs))
    assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule.verbs)
    assert len(rule.verbs) == len(set(rule.verbs))


RESTORED = ("database.technotuesday.io", "database.db.example.com")


def test_only_children_and_events_can_be_written() -> None:
    """No Pods, nodes, roles; of the resources themselves the status, and the finalizer of those that have
    one; a Restore creates a Postgresql.
    """
    writable = {
        (rule.group, resource)
        for rule in rbac.cluster_rules()
        if set(rule.verbs) - set(rbac.READ)
        for resource in rule.resources
        if not resource.endswith("/status")
    }
    assert writable == {
        ("apps", "deployments"),
        ("database.technotuesday.io", "backups"),
        ("database.technotuesday.io", "restores"),
        ("pulsar.pulsarconsumer.krvarma.com", "pulsarconsumers"),
        ("apps", "statefulsets"),
        ("", "services"),
        ("", "secrets"),
        ("", "configmaps"),
        ("", "persistentvolumeclaims"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("cert-manager.io", "certificates"),
        ("events.k8s.io", "events"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        *((group, "postgresqls") for group in RESTORED),
    }
    on_resources = {
        verb
        for rule in rbac.cluster_rules()
        if rule.group in RESTORED and "postgresqls" in rule.resources
        for verb in rule.verbs
    }
    assert on_resources == {*rbac.READ, "create", "patch"}
    deletable = {rule.resources for rule in rbac.cluster_rules() if "delete" in rule.verbs}
    ends = {("jobs",), ("cronjobs",)}
    taken_back = {("poddisruptionbudgets",), ("configmaps",), ("certificates",), ("secrets",)}
    exchanged = {("deployments",), ("statefulsets",)}
    assert deletable == {*taken_back, *ends, *exchanged}, "all else goes with its owner"
    for kind in rbac.NEEDS.keys() - {"Memcached"}:
        here = {rule.resources for rule in rbac.cluster_rules([kind]) if "delete" in rule.verbs}
        assert not here & exchanged, f"of {kind} no workload is deleted"


def test_an_image_changes_with_what_enters_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "operator/Containerfile": "FROM x",
        "operator/requirements.txt": "a==1",
        "operator/src/kindling/a.py": "1",
        "operator/images/postgres/Containerfile": "FROM y",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    before = OPERATOR.digest()
    (tmp_path / "operator/images/postgres/Containerfile").write_text("FROM z")
    assert OPERATOR.digest() == before
    seen = {before}
    for name in ("operator/Containerfile", "operator/requirements.txt", "operator/src/kindling/a.py"):
        (tmp_path / name).write_text("changed")
        seen.add(OPERATOR.digest())
    assert len(seen) == 4
