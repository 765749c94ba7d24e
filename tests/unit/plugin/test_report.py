"""`kubectl kindling report`: what a ticket needs, from wherever it is, and nothing secret."""

from __future__ import annotations

import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from kubectl_kindling import cli
from kubectl_kindling.commands import report
from kubectl_kindling.errors import FAILED, FINE

from tests.unit.plugin.fake_kubectl import FakeKubectl
from tests.unit.plugin.recordings import FORBIDDEN, PASSWORD, items, mydb
from tests.unit.plugin.test_commands import EXAMPLE, Printed, error, serve, serve_operator


@contextmanager
def deciding(kubectl: FakeKubectl, decisions: str) -> Iterator[list[str]]:
    """Two Pods of the operator behind `kubectl port-forward`, of which one has decided something."""
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404 if self.server is standby else 200)
            self.end_headers()
            self.wfile.write(decisions.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as standby, HTTPServer(("127.0.0.1", 0), Page) as leader:
        for name, server in (("standby", standby), ("leader", leader)):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            said = f"Forwarding from 127.0.0.1:{server.server_port} -> 8080\n"
            kubectl.say("port-forward", f"pod/{name}", ":8080", stdout=said)
        yield asked
        standby.shutdown()
        leader.shutdown()


KEY = "postgresql.database.db.example.com/shop/mydb"
LOG = "\n".join(
    json.dumps({"level": "INFO", "key": key, "message": message})
    for key, message in ((KEY, "reconciled"), (f"{KEY}2", "another"), (KEY, "password=canary-of-the-log"))
)


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file, "r:gz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        assert len({name.partition("/")[0] for name in members}) == 1
        return {name.partition("/")[2]: found.read().decode() for name, found in members.items() if found}


def test_a_report_has_what_a_ticket_needs_and_no_secret(
    kubectl: FakeKubectl, tmp_path: Path, capsys: Printed
) -> None:
    serve(kubectl, mydb())
    serve_operator(kubectl, log=LOG)
    sizes = "mydb-binding servicebinding.io/postgresql -\nmydb-binding password 14\n"
    kubectl.say("get", "secrets", stdout=sizes)
    with deciding(kubectl, '{"format": 1}') as asked:
        assert cli.run(["report", "pge/mydb"]) == FINE
    assert asked == [f"/debug/decisions?key={quote(KEY, safe='')}"] * 2
    (file,) = tmp_path.glob("kindling-postgresql-shop-mydb-*.tar.gz")
    assert file.name in capsys.readouterr().out
    assert file.stat().st_mode & 0o777 == 0o600
    found = unpacked(file)
    assert found.keys() == {
        "status.txt", "status.json", "resource.json", "versions.json", "events.json", "secrets.txt",
        "operator.log", "decisions.json", "backups/nightly.json",
        *(f"children/{each['kind']}-{each['metadata']['name']}.json" for each in items("children")),
    }  # fmt: skip
    everything = "\n".join(found.values())
    assert PASSWORD not in everything
    assert "canary-of-the-log" not in everything
    assert [json.loads(line)["message"] for line in found["operator.log"].splitlines()] == [
        "reconciled",
        "password=REDACTED",
    ]
    assert "mydb-binding password 14" in found["secrets.txt"]
    assert json.loads(found["versions.json"])["operator"]["images"].keys() == {"operator", "prober"}
    (template,) = {word for words in kubectl.asked for word in words if word.startswith("go-template=")}
    assert template == f"go-template={report.SECRETS_TEMPLATE}"
    for words in kubectl.asked:
        assert "secrets" not in words or "json" not in words, "their content is never asked for"


def test_a_report_of_a_user_of_few_rights_names_what_it_lacks(
    kubectl: FakeKubectl, tmp_path: Path, capsys: Printed
) -> None:
    kubectl.has(EXAMPLE, "mydb", one=mydb())
    kubectl.say("get", stderr=FORBIDDEN, status=1)
    kubectl.say("logs", stderr=FORBIDDEN.splitlines()[-1], status=1)
    kubectl.say("version", stdout="{}")
    assert cli.run(["report", "pge/mydb", "--file", "few.tar.gz"]) == FINE
    found = unpacked(tmp_path / "few.tar.gz")
    assert "you lack the right `list` in namespace `shop` on `statefulsets.apps`" in found["not-read.txt"]
    assert "resource.json" in found
    assert "Not all could be read:" in capsys.readouterr().out


def test_a_report_of_who_may_not_reach_the_operators_pods_names_the_right(
    kubectl: FakeKubectl, tmp_path: Path
) -> None:
    serve(kubectl, mydb())
    serve_operator(kubectl)
    kubectl.say("get", "secrets")
    kubectl.say(
        "port-forward",
        stderr='Error from server (Forbidden): pods "leader" is forbidden: User "tenant" cannot create '
        'resource "pods/portforward" in API group "" in the namespace "kindling-system"\n',
        status=1,
    )
    assert cli.run(["report", "pge/mydb", "--file", "few.tar.gz"]) == FINE
    found = unpacked(tmp_path / "few.tar.gz")
    assert "decisions.json" not in found
    right = "you lack the right `create` in namespace `kindling-system` on `pods/portforward`"
    assert right in found["not-read.txt"]


def test_a_report_does_not_replace_a_file(kubectl: FakeKubectl, tmp_path: Path, capsys: Printed) -> None:
    serve(kubectl, mydb())
    (tmp_path / "there").write_text("x")
    assert cli.run(["report", "pge/mydb", "--file", "there"]) == FAILED
    assert "`there` is there already" in error(capsys)
    assert (tmp_path / "there").read_text() == "x"


@pytest.mark.parametrize(
    ("line", "about"),
    [
        (json.dumps({"key": KEY, "message": "x"}), True),
        (json.dumps({"key": f"{KEY}-2", "message": KEY}), False),
        (json.dumps([KEY]), False),
        (f"10:00:00 INFO    {KEY} reconciled", True),
        (f"10:00:00 INFO    {KEY}2 reconciled", False),
        ("Traceback", False),
    ],
)
def test_a_line_of_the_operators_log_is_about_its_key(line: str, about: bool) -> None:
    assert report.is_about(line, KEY) is about
