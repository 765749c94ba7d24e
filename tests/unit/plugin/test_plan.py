"""`plan`: what is asked of the cluster, what comes of the answer, and that what was made for it is gone."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from kindling.kinds.base import Observed
from kindling.kinds.postgresql import volume
from kubectl_kindling import cli
from kubectl_kindling.commands import plan
from kubectl_kindling.errors import FAILED, FINE, NOT_READY, USAGE
from kubectl_kindling.kinds import Type
from kubectl_kindling.plans import Planned, lines

from infra.paths import REPOSITORY
from tests.unit.operator.postgresqls import NOW
from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.guide import GUIDE
from tests.unit.plugin.recordings import FORBIDDEN, Object, healthy

EXAMPLE = "postgresqls.database.db.example.com"
Printed = pytest.CaptureFixture[str]
RESTART = {
    "action": "Update",
    "object": "StatefulSet/mydb",
    "fields": ["spec.resources"],
    "disruption": "Restart",
    "message": "one restart, about 8 s",
    "seconds": 8,
}
CONFIG = {
    "action": "Update",
    "object": "ConfigMap/mydb-config",
    "fields": ["spec.resources"],
    "disruption": "None",
    "message": "is updated",
}
REFUSED = {
    "action": "Refuse",
    "fields": ["spec.storage.size"],
    "disruption": "None",
    "message": "spec.storage.size '5Gi' is less than the volume has.",
}
COMPARE = {"action": "Compare", "object": "server", "disruption": "Unknown", "message": "not yet; wait"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "EVERY_SECONDS", 0.01)


def serve(kubectl: FakeKubectl, *items: Object, worst: str = "None", live: bool = True) -> Object:
    """A database, a file that has it, and an operator that answers so."""
    wanted = healthy()
    wanted["spec"] |= {"password": "canary", "resources": {"limits": {"memory": "1Gi"}}}
    kubectl.say("apply", "--dry-run=server", stdout=json.dumps(wanted))
    asked: dict[str, Any] = {
        "apiVersion": wanted["apiVersion"],
        "kind": "Postgresql",
        "metadata": {"name": "plan-x1", "namespace": "shop", "generation": 1},
    }
    kubectl.say("create", stdout=json.dumps(asked))
    status = {"observedGeneration": 1, "plan": {"disruption": worst, "items": list(items)}}
    kubectl.has(EXAMPLE, "plan-x1", one={**asked, "status": status})
    if live:
        kubectl.has(EXAMPLE, "mydb", one=healthy())
    else:
        kubectl.lacks(EXAMPLE, "mydb")
    kubectl.lacks("postgresqls.database.technotuesday.io", "mydb")
    kubectl.say("delete")
    return wanted


def test_a_plan_is_asked_for_read_and_what_asked_is_gone(kubectl: FakeKubectl, capsys: Printed) -> None:
    wanted = serve(kubectl, CONFIG, RESTART, worst="Restart")
    assert cli.run(["plan", "-f", "db.yaml"]) == NOT_READY
    assert capsys.readouterr().out.splitlines() == [
        "postgresql/mydb (shop): the server restarts",
        "  spec.resources: one restart, about 8 s (StatefulSet/mydb, ConfigMap/mydb-config)",
        "  spec.password changes, which is in no plan: the server gets it, and sessions stay.",
    ]
    (apply,) = kubectl.commands("apply")
    assert apply[:3] == ["apply", "--dry-run=server", "--filename=db.yaml"]
    assert "--server-side" not in apply
    (create,) = kubectl.commands("create")
    assert "--validate=strict" in create
    given = json.loads(kubectl.given[0])
    assert given["metadata"] == {"generateName": "plan-", "namespace": "shop"}
    spec = {name: value for name, value in wanted["spec"].items() if name != "password"}
    assert given["spec"] == {**spec, "paused": True, "mode": "Plan", "planFor": "mydb"}
    (deleted,) = kubectl.commands("delete")
    assert deleted[:4] == ["delete", EXAMPLE, "plan-x1", "--namespace=shop"]
    assert kubectl.commands("patch", "replace") == []
    assert "canary" not in str(kubectl.given)


def test_what_is_not_there_is_created(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, CONFIG, live=False)
    assert cli.run(["plan", "-f", "db.yaml"]) == FINE
    assert capsys.readouterr().out.splitlines()[0] == "postgresql/mydb (shop): is created"


def test_server_side_is_passed_on(kubectl: FakeKubectl) -> None:
    serve(kubectl)
    assert cli.run(["plan", "-f", "db.yaml", "--server-side", "--field-manager", "flux"]) == FINE
    (apply,) = kubectl.commands("apply")
    assert {"--server-side", "--force-conflicts", "--field-manager=flux"} <= {*apply}


@pytest.mark.parametrize(
    ("items", "worst", "status", "title"),
    [
        ([], "None", FINE, "nothing to do"),
        ([CONFIG], "None", FINE, "the server runs on"),
        ([CONFIG | {"disruption": "Reload"}], "Reload", FINE, "a reload, sessions stay"),
        ([REFUSED], "None", NOT_READY, "the server runs on"),
        ([RESTART], "Restart", NOT_READY, "the server restarts"),
        ([RESTART | {"disruption": "Stop"}], "Stop", NOT_READY, "the server stops"),
        ([RESTART | {"disruption": "DataLost"}], "DataLost", NOT_READY, "DATA IS LOST"),
    ],
)
def test_the_exit_status_says_whether_anybody_notices(
    kubectl: FakeKubectl, capsys: Printed, items: list[Object], worst: str, status: int, title: str
) -> None:
    serve(kubectl, *items, worst=worst)
    assert cli.run(["plan", f"{EXAMPLE}/mydb"]) == status
    assert capsys.readouterr().out.splitlines()[0] == f"postgresql/mydb (shop): {title}"


def test_json_has_all_items(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, CONFIG, RESTART, worst="Restart", live=False)
    assert cli.run(["plan", "-f", "db.yaml", "-o", "json"]) == NOT_READY
    assert json.loads(capsys.readouterr().out) == {
        "items": [
            {
                "apiVersion": "database.db.example.com/v1",
                "kind": "Postgresql",
                "namespace": "shop",
                "name": "mydb",
                "disruption": "Restart",
                "items": [CONFIG, RESTART],
                "notes": [],
            }
        ],
        "refused": [],
    }


def test_what_is_refused_stands_with_its_field(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl, REFUSED)
    assert cli.run(["plan", "-f", "db.yaml"]) == NOT_READY
    printed = capsys.readouterr().out
    assert "spec.storage.size: refused. spec.storage.size '5Gi' is less than the volume has." in printed


def test_what_the_api_server_refuses_is_an_answer_too(kubectl: FakeKubectl, capsys: Printed) -> None:
    words = 'The Postgresql "mydb" is invalid: spec.mode: Unsupported value: "x"\n'
    kubectl.say("apply", stderr=words, status=1)
    assert cli.run(["plan", "-f", "db.yaml"]) == NOT_READY
    assert capsys.readouterr().out.startswith('refused: The Postgresql "mydb" is invalid: spec.mode')
    assert kubectl.commands("create") == []


def test_a_missing_right_is_no_answer(kubectl: FakeKubectl, capsys: Printed) -> None:
    serve(kubectl)
    kubectl.says = [said for said in kubectl.says if "create" not in said["words"]]
    kubectl.say("create", stderr=FORBIDDEN.splitlines()[0].replace("cannot list", "cannot create"), status=1)
    assert cli.run(["plan", "-f", "db.yaml"]) == FAILED
    assert "you lack the right `create`" in " ".join(capsys.readouterr().err.split())


def test_an_operator_that_does_not_answer(
    kubectl: FakeKubectl, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SECONDS", 0.1)
    serve(kubectl)
    for said in kubectl.says:
        said["stdout"] = said["stdout"].replace('"observedGeneration": 1', '"observedGeneration": -1')
    kubectl.say("nothing")
    assert cli.run(["plan", f"{EXAMPLE}/mydb"]) == FAILED
    assert "the operator has not answered" in capsys.readouterr().err
    assert len(kubectl.commands("delete")) == 1


def test_a_server_that_is_not_compared_in_time_is_said_so(
    kubectl: FakeKubectl, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SECONDS", 0.2)
    serve(kubectl, COMPARE, worst="Unknown")
    assert cli.run(["plan", f"{EXAMPLE}/mydb"]) == NOT_READY
    assert "server: not yet; wait" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["pge/mydb", "-f", "x"], ["memcached/x"]])
def test_one_of_a_file_and_a_postgresql_is_needed(kubectl: FakeKubectl, arguments: list[str]) -> None:
    kubectl.has("memcacheds.cache.example.com", "x", one={"metadata": {"name": "x", "namespace": "shop"}})
    assert cli.run(["plan", *arguments]) == USAGE


def test_a_file_without_a_postgresql(kubectl: FakeKubectl, capsys: Printed) -> None:
    kubectl.say("apply", stdout=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {}}))
    assert cli.run(["plan", "-f", "x.yaml"]) == USAGE
    assert "`x.yaml` has no Postgresql" in capsys.readouterr().err


def test_a_file_may_come_from_the_input(kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(kubectl)
    with open(REPOSITORY / "samples/memcached.yaml") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert cli.run(["plan", "-f", "-"]) == FINE
    assert "Memcached" in kubectl.given[0] or "kind: Memcached" in "\n".join(kubectl.given)


def test_the_guide_prints_what_is_printed() -> None:
    fields = ["spec.parameters.shared_buffers", "spec.parameters.work_mem"]
    config = CONFIG | {"object": "ConfigMap/shop-config", "fields": fields}
    server = {
        "action": "Configure",
        "object": "server",
        "fields": fields,
        "disruption": "Restart",
        "message": "one restart, about 8 s, which shared_buffers needs",
        "seconds": 8,
    }
    cr = {"metadata": {"name": "shop", "namespace": "shop"}, "spec": {"storage": {"size": "5Gi"}}}
    claim = {"spec": {"resources": {"requests": {"storage": "10Gi"}}}, "metadata": {}}
    seen = Observed(objects={volume.volume_ref(cr): claim}, now=NOW, entropy=b"")
    refused = REFUSED | {"message": volume.larger(cr, seen)}
    type = Type("postgresqls", "database.db.example.com", "v1", "Postgresql")
    planned = Planned(type, "shop", "shop", {"disruption": "Restart", "items": [config, server, refused]})
    blocks = re.findall(r"```text\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (printed,) = [text for text in blocks if text.startswith("postgresql/shop (shop)")]
    assert printed.splitlines() == lines(planned)
