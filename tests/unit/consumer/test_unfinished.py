"""Real processes that end while they handle a message, and what the next one in the same Pod makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pulsar_consumer.unfinished import ENDS, GONE_SECONDS, Unfinished

IMAGE = Path(__file__).resolve().parents[3] / "operator" / "images" / "pulsar-consumer"
ROOT = IMAGE.parents[2]

PROGRAM = """
import os, sys, threading, time
from dataclasses import replace
from pathlib import Path

from pulsar_consumer.failing import Failing
from pulsar_consumer.handler import Handled
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.recent import Recent
from pulsar_consumer.unfinished import Unfinished
from pulsar_consumer.work import Work
from tests.unit.consumer.messages import Message, Record
from tests.unit.consumer.test_work import SETTINGS

folder, end, dead = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
record, running, most = Record(), set(), []
both = threading.Barrier(2)

def handle(message):
    running.add(message.entry)
    most.append(len(running))
    os.write(1, f"called {message.entry}\\n".encode())  # a line at once, of two threads
    if message.entry == 1 and end:
        if not suspects:
            both.wait(5)
        exec(end)
    elif not suspects and end:
        both.wait(5)
        time.sleep(30)
    time.sleep(0.05)
    running.discard(message.entry)
    return Handled()

unfinished = Unfinished(folder / "calls", slots=8, termination_log=folder / "log")
suspects = unfinished.ends("7:1:-1")
work = Work(
    replace(SETTINGS, concurrency=2, dead_letter_topic=dead), handle, record, subscription="s",
    send=record.send, lane_of=lambda message: message.entry, failing=Failing(folder / "marker"),
    unfinished=unfinished, recent=Recent(), metrics=Metrics(),
)
print("poisoned", unfinished.poisoned(), flush=True)
for entry in (0, 1):
    work.take(Message(entry=entry))
end_at = time.monotonic() + 10
while len(record.acknowledged()) < 2 and time.monotonic() < end_at:
    time.sleep(0.01)
work.drain(5)
print("most", max(most, default=0), "ends", unfinished.ends("7:1:-1"), flush=True)
for _, arguments in record.sent(dead):
    properties = arguments["properties"]
    print(*(properties[f"DEAD_LETTER_{name}"] for name in ("REASON", "DELIVERIES", "ERROR")))
"""
SEGFAULT = "import ctypes; ctypes.string_at(0)"
KILL = "import os; os.kill(os.getpid(), 9)"
EXIT = "import os; os._exit(3)"


def run(folder: Path, end: str, *, dead: str = "") -> tuple[int, list[str]]:
    """As a container of the Pod whose folder this is: its exit code, and what it printed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(IMAGE), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), end, dead],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(("end", "code"), [(SEGFAULT, -signal.SIGSEGV), (KILL, -signal.SIGKILL), (EXIT, 3)])
def test_a_message_that_ends_the_process_is_named_and_no_other_is(
    tmp_path: Path, end: str, code: int
) -> None:
    """Beside another one the first time, which nobody blames; alone from then on."""
    log = tmp_path / "log"
    found, said = run(tmp_path, end)
    assert (found, sorted(said)) == (code, ["called 0", "called 1", "poisoned False"])
    assert not log.exists()
    for _ in range(ENDS - 1):
        found, said = run(tmp_path, end)
        assert (found, said[0], said[-1]) == (code, "poisoned False", "called 1")
    words = "PoisonMessage: the process has ended 3 times while it handled message 7:1:-1"
    assert log.read_text() == words
    # A handler that takes it: unready until it is handled, and then nothing is left of it.
    found, said = run(tmp_path, "")
    assert (found, said[0], said[-1]) == (0, "poisoned True", "most 1 ends 0")
    assert log.read_text() == ""
    assert run(tmp_path, "")[1][0] == "poisoned False"


def test_a_process_that_ended_is_a_delivery_that_failed(tmp_path: Path) -> None:
    """Of three at most: then it is a dead letter, and the handler is not called for it."""
    for _ in range(3):
        assert run(tmp_path, KILL, dead="dead")[0] == -signal.SIGKILL
    code, said = run(tmp_path, KILL, dead="dead")
    assert code == 0
    assert "called 1" not in said
    assert said[-2:] == [
        "most 1 ends 0",
        "MaxDeliveries 3 ProcessEnded: the process has ended 3 times while it handled it",
    ]


def made(folder: Path, slots: int = 4) -> Unfinished:
    return Unfinished(folder / "calls", slots=slots, termination_log=folder / "log")


def poisoned(folder: Path, id: str = "5:0:-1") -> Unfinished:
    """What comes after so many processes."""
    for _ in range(ENDS):
        made(folder).begin(id)
    return made(folder)


def test_a_call_that_has_ended_is_not_counted(tmp_path: Path) -> None:
    for _ in range(ENDS):
        unfinished = made(tmp_path)
        unfinished.end("5:0:-1", unfinished.begin("5:0:-1"))
    assert made(tmp_path).ends("5:0:-1") == 0


def test_an_end_for_a_reason_of_its_own_blames_no_message(tmp_path: Path) -> None:
    unfinished = made(tmp_path)
    unfinished.begin("5:0:-1")
    unfinished.clear()
    assert made(tmp_path).ends("5:0:-1") == 0


def test_a_message_that_does_not_come_again_is_not_this_consumers(tmp_path: Path) -> None:
    unfinished = poisoned(tmp_path)
    unfinished.turn(GONE_SECONDS - 1)
    assert unfinished.poisoned()
    unfinished.turn(GONE_SECONDS)
    assert not unfinished.poisoned()
    assert made(tmp_path).ends("5:0:-1") == 0
    unfinished = poisoned(tmp_path)
    unfinished.met("5:0:-1")
    unfinished.turn(10 * GONE_SECONDS)
    assert unfinished.poisoned(), "it has come, and is not handled"
    unfinished.settled("5:0:-1")
    assert not unfinished.poisoned()


def test_one_that_is_made_beside_another_does_not_take_its_file(tmp_path: Path) -> None:
    """A write to a mapped file that was cut off ends the process."""
    first = made(tmp_path)
    second = made(tmp_path)
    first.end("5:0:-1", first.begin("5:0:-1"))
    second.begin("5:1:-1")
    assert made(tmp_path).ends("5:1:-1") == 1


def test_more_calls_than_places_are_handled_all_the_same(tmp_path: Path) -> None:
    unfinished = made(tmp_path, slots=1)
    places = [unfinished.begin(f"5:{entry}:-1") for entry in range(2)]
    assert places == [0, None]
    for entry, place in enumerate(places):
        unfinished.end(f"5:{entry}:-1", place)
    assert unfinished.begin("5:2:-1") == 0


def test_at_once_each_call_has_its_place(tmp_path: Path) -> None:
    unfinished = made(tmp_path, slots=8)

    def calls(number: int) -> None:
        for entry in range(500):
            id = f"{number}:{entry}:-1"
            unfinished.end(id, unfinished.begin(id))

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(unfinished.begin(f"9:{n}:-1") or 0 for n in range(8)) == [n * 128 for n in range(8)]


@pytest.mark.parametrize("rubbish", [b"", b"\xff" * 1000, b"no id" + bytes(123), b"7:" * 500])
def test_a_file_that_is_none_of_its_own_blames_nobody(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "calls").write_bytes(rubbish)
    (tmp_path / "calls.json").write_bytes(rubbish)
    assert not made(tmp_path).poisoned()


def test_without_a_place_for_the_file_messages_are_handled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "calls").mkdir()
    unfinished = made(tmp_path)
    unfinished.end("5:0:-1", unfinished.begin("5:0:-1"))
    assert "will not be recognized" in caplog.text
