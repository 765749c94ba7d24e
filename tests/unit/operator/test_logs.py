"""One line for each record, in both formats, with the key; kopf's warnings among them, its bodies not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from kindling import logs

KEY = "postgresql.database.db.example.com/ns/mydb"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, names = logging.getLogger(), ("kopf", "asyncio", "aiohttp.access")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in names:
        logging.getLogger(name).setLevel(levels[name])


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(logging.INFO)
    logging.getLogger("kindling.x").warning("tried\nagain", extra={"key": KEY})
    written = capsys.readouterr().err
    line = json.loads(written)
    assert written.count("\n") == 1
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "WARNING", "logger": "kindling.x", "key": KEY, "message": "tried\nagain"}


def test_a_traceback_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(logging.INFO)
    try:
        raise KeyError("a bug")
    except KeyError:
        logging.getLogger("kindling").exception("given up")
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert "KeyError: 'a bug'" in json.loads(written)["error"]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(logging.INFO, format="text")
    logging.getLogger("kindling.x").info("create Service mydb", extra={"key": KEY})
    logging.getLogger("kindling.x").info("working")
    first, second = capsys.readouterr().err.splitlines()
    assert first[8:] == f" INFO    {KEY} create Service mydb"
    assert second[8:] == " INFO    working"


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_kopf_logs_from_warnings_on_with_the_object_of_the_message(
    capsys: pytest.CaptureFixture[str], level: int
) -> None:
    logs.set_up(level)
    ref = {
        "apiVersion": "database.db.example.com/v1",
        "kind": "Postgresql",
        "name": "mydb",
        "namespace": "ns",
    }
    kopf = logging.getLogger("kopf.objects")
    kopf.debug("patching with {'spec': {'password': 'canary'}}")
    kopf.info("more")
    kopf.warning("a handler failed", extra={"k8s_ref": ref})
    written = capsys.readouterr().err
    assert "canary" not in written
    line = json.loads(written)
    assert (line["key"], line["message"]) == (KEY, "a handler failed")


def test_kopf_says_no_more_than_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(logging.ERROR)
    logging.getLogger("kopf.objects").warning("a handler failed")
    assert capsys.readouterr().err == ""
