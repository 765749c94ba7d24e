"""The process as the kubelet has it, with the real client and no broker anywhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pulsar_consumer.python_handler import digest
from pulsar_consumer.unfinished import Unfinished

from tests.ports import free_port

IMAGE = Path(__file__).resolve().parents[3] / "operator" / "images" / "pulsar-consumer"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(IMAGE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PULSAR_SERVER": f"pulsar://127.0.0.1:{free_port()}",
        "PULSAR_TOPIC": "my-topic",
        "PULSAR_SUBSCRIPTION_NAME": "first-subscription",
        "PULSAR_HEALTH_PORT": str(free_port()),
        "PULSAR_TERMINATION_LOG": str(tmp_path / "termination-log"),
        "PULSAR_REPORTED_MARKER": str(tmp_path / "reported"),
        "PULSAR_HANDLER_CALLS": str(tmp_path / "calls"),
    }


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a module of the image with these variables set; killed at the end."""
    made = []

    def start(module: str = "pulsar_consumer", **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            env={**environment, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        made.append(process)
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


def ask(environment: dict[str, str], path: str) -> int | None:
    """The status of an answer, None where nobody answers."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{environment['PULSAR_HEALTH_PORT']}{path}", timeout=5
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_without_a_broker_it_runs_unready_and_stops_on_sigterm(
    environment: dict[str, str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start()
    deadline = time.monotonic() + 20
    while ask(environment, "/healthz") is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # Longer than one attempt to connect takes.
    for _ in range(24):
        assert process.poll() is None
        assert (ask(environment, "/healthz"), ask(environment, "/readyz")) == (200, 503)
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0, error
    assert out == ""
    assert "trying again" in error


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {"PULSAR_SUBSCRIPTION_TYPE": "shared"},
            "InvalidSetting: PULSAR_SUBSCRIPTION_TYPE='shared': "
            "set it to one of Shared, Exclusive, Failover, Key_Shared",
        ),
        ({"PULSAR_TOPIC": "a/b"}, "InvalidTopic: this is no name of a topic"),
        ({"PULSAR_SERVER": "pulsar://[::1]:6650"}, "InvalidAddress: invalid hostname: [::1]:6650"),
    ],
)
def test_an_error_that_no_retry_fixes_is_one_line(
    environment: dict[str, str], start: Callable[..., subprocess.Popen[str]], env: dict[str, str], line: str
) -> None:
    process = start(**env)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert Path(environment["PULSAR_TERMINATION_LOG"]).read_text() == line
    assert line in error
    assert out == ""


def test_what_was_reported_is_retried_without_another_end(
    environment: dict[str, str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """As the kubelet has it: the container ends, another starts in the same Pod, and what it says is news."""
    first = start(PULSAR_TOPIC="a/b")
    first.communicate(timeout=30)
    assert first.returncode == 1
    second = start(PULSAR_TOPIC="a/b")
    deadline = time.monotonic() + 30
    while ask(environment, "/healthz") is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        assert second.poll() is None
        time.sleep(0.5)
    assert (ask(environment, "/healthz"), ask(environment, "/readyz")) == (200, 503)
    second.send_signal(signal.SIGTERM)
    _, error = second.communicate(timeout=20)
    assert second.returncode == 0
    assert error.count("not connected, trying again: InvalidTopic") in (2, 3), "every ten seconds"
    third = start(PULSAR_SERVER="pulsar://[::1]:6650")
    third.communicate(timeout=30)
    assert third.returncode == 1
    assert "InvalidAddress" in Path(environment["PULSAR_TERMINATION_LOG"]).read_text()


def test_a_service_that_comes_late_is_found_at_once_by_a_container_that_need_not_report_it(
    environment: dict[str, str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    port = free_port()
    url = {"PULSAR_HANDLER_URL": f"http://127.0.0.1:{port}/"}
    first = start(**url)
    first.communicate(timeout=30)
    assert first.returncode == 1
    assert "HandlerUnavailable" in Path(environment["PULSAR_TERMINATION_LOG"]).read_text()
    second = start(**url)
    time.sleep(13)  # the first one had ten seconds
    assert second.poll() is None
    with socket.create_server(("127.0.0.1", port)) as service:
        service.settimeout(15)
        service.accept()[0].close()
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=20)
    assert second.returncode == 0


def coded(folder: Path, code: str) -> dict[str, str]:
    """The variables of a handler in Python, as it was mounted for a new Pod."""
    files = folder / "files"
    files.mkdir(exist_ok=True)
    (files / "orders.py").write_text(code)
    return {
        "PULSAR_HANDLER_PYTHON": "orders:handle",
        "PULSAR_HANDLER_HASH": digest({"orders.py": code.encode()}),
        "PULSAR_HANDLER_FILES": str(files),
        "PULSAR_HANDLER_COPIES": str(folder / "copies"),
    }


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            "import nowhere_at_all",
            "HandlerUnavailable: orders.py cannot be imported: "
            "ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("def other(message): ...", "HandlerUnavailable: orders.py has no 'handle'"),
        (
            "import os; raise ValueError(os.environ['PASSWORD'])",
            "HandlerUnavailable: orders.py cannot be imported: ValueError: $PASSWORD",
        ),
    ],
)
def test_handler_that_is_not_available_is_left_as_one_line_and_nothing_is_consumed(
    environment: dict[str, str],
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    code: str,
    line: str,
) -> None:
    process = start(**coded(tmp_path, code), PASSWORD="canary-93b1")
    _, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert Path(environment["PULSAR_TERMINATION_LOG"]).read_text() == line
    assert line in error


def test_handler_is_loaded_while_there_is_no_broker(
    environment: dict[str, str], start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    loaded = tmp_path / "loaded"
    process = start(
        **coded(tmp_path, f"open({str(loaded)!r}, 'w').close()\nasync def handle(message): ..."),
        PULSAR_DEAD_LETTER_TOPIC="dead",
    )
    deadline = time.monotonic() + 20
    while not loaded.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ask(environment, "/readyz") == 503
    assert process.poll() is None


def test_producer_says_what_failed(start: Callable[..., subprocess.Popen[str]]) -> None:
    for env, said in (
        ({}, "PULSAR_MESSAGE"),
        ({"PULSAR_MESSAGE": "m", "PULSAR_TOPIC": "a/b"}, "InvalidTopic"),
    ):
        process = start("pulsar_consumer.producer", **env)
        out, error = process.communicate(timeout=30)
        assert process.returncode == 1
        assert said in error
        assert "Traceback" not in error
        assert out == ""


ENDING = """
import sys
import pulsar_consumer.__main__ as program
from pulsar_consumer.failing import HandlerFailing, PoisonMessage

def consume(*given, handling, **named):
    handling._unfinished.begin("5:0:-1")
    raise {error}

program.consume = consume
sys.exit(program.main())
"""


@pytest.mark.parametrize("error", ['HandlerFailing("a")', 'PoisonMessage("a")', 'OSError("a")'])
def test_an_end_for_a_reason_of_its_own_blames_no_message(
    environment: dict[str, str], tmp_path: Path, error: str
) -> None:
    """Of whatever it has under way."""
    code = b"def handle(message): ..."
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "orders.py").write_bytes(code)
    own = {
        "PULSAR_HANDLER_PYTHON": "orders:handle",
        "PULSAR_HANDLER_HASH": digest({"orders.py": code}),
        "PULSAR_HANDLER_FILES": str(tmp_path / "files"),
        "PULSAR_HANDLER_COPIES": str(tmp_path / "copies"),
        "PULSAR_HANDLER_CALLS": str(tmp_path / "calls"),
        "PULSAR_HANDLER_MARKER": str(tmp_path / "marker"),
    }
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(error=error)],
        env={**environment, **own},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    if not error.startswith("OSError"):
        said = Path(environment["PULSAR_TERMINATION_LOG"]).read_text()
        assert said == f"{error.partition('(')[0]}: a"
    unfinished = Unfinished(tmp_path / "calls", slots=4, termination_log=tmp_path / "log")
    assert unfinished.ends("5:0:-1") == 0
