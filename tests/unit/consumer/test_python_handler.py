"""Users' Python: how it is found, called, timed, and what is reported where it is not available."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar_consumer.decoded import Decoded
from pulsar_consumer.function_context import FunctionContext
from pulsar_consumer.handler import Delayed, Failed, Handled, HandlerUnavailable, Rejected, one_line
from pulsar_consumer.metrics import Metrics
from pulsar_consumer.python_handler import PythonHandler, digest, stage
from pulsar_consumer.settings import Python

from tests.unit.consumer.messages import Message, Record

Make = Callable[..., PythonHandler]


@pytest.fixture(autouse=True)
def imports() -> Iterator[None]:
    """Modules of other tests are not found again."""
    known, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]
    sys.path[:] = path


def settings(folder: Path, code: str, *, name: str = "orders:handle", **others: str) -> Python:
    files = folder / "files"
    files.mkdir(exist_ok=True)
    contents = {"orders.py": textwrap.dedent(code).encode(), **{k: v.encode() for k, v in others.items()}}
    for file, content in contents.items():
        (files / file).write_bytes(content)
    return Python(
        name=name, hash=digest(contents), files=files, copies=folder / "copies", timeout_seconds=0.2
    )


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def make(tmp_path: Path, record: Record) -> Make:
    def make(code: str, *, name: str = "orders:handle", **others: str) -> PythonHandler:
        found = settings(tmp_path, code, name=name, **others)
        return PythonHandler(
            found, topics=["t"], output_topic="out", publish=record.send, record=record.record
        )

    return make


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("return None", Handled(None)),
        ("return message.data().upper()", Handled(b"HELLO")),
        ("return 'grüß'", Handled("grüß".encode())),
        ("return 7", Failed("TypeError: a handler returns None, bytes or str, not int")),
        ("raise ValueError('two\\nlines')", Failed("ValueError: two lines")),
        ("raise SystemExit(3)", Failed("SystemExit: 3")),
        ("raise Retry(30, 'full')", Delayed(30.0, "full")),
        ("raise Retry(-1)", Delayed(0.0, "the handler asks for -1 s")),
        ("raise Reject('no such order')", Rejected("Reject: no such order")),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_function_sync_or_async(make: Make, kind: str, body: str, verdict: object) -> None:
    handler = make(
        f"from pulsar_consumer.handler import Reject, Retry\n{kind} handle(message):\n    {body}\n"
    )
    assert handler(Message()) == verdict


def test_async_function_is_cancelled_at_its_time_out(make: Make) -> None:
    handler = make(
        """
        import asyncio
        ended = []
        async def handle(message):
            try:
                await asyncio.sleep(30)
            finally:
                ended.append(message)
        """
    )
    assert handler(Message()) == Failed("TimeoutError: it did not end within 0.2 s")
    assert sys.modules["orders"].ended == [Message()]


def test_time_out_of_the_codes_own_keeps_its_words(make: Make) -> None:
    handler = make("async def handle(message): raise TimeoutError('the database')")
    assert handler(Message()) == Failed("TimeoutError: the database")


def test_module_imports_the_other_files_and_hides_no_module_of_python(make: Make) -> None:
    handler = make(
        "import json, shouting\ndef handle(message): return shouting.shout(json.dumps('a'))",
        **{"shouting.py": "def shout(text): return text + '!'", "json.py": "raise ValueError"},
    )
    assert handler(Message()) == Handled(b'"a"!')


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("def handle(:", "orders:handle", "orders.py cannot be imported: SyntaxError: invalid syntax"),
        (
            "import nowhere_at_all",
            "orders:handle",
            "orders.py cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("raise SystemExit", "orders:handle", "orders.py cannot be imported: SystemExit"),
        ("x = 1", "orders:handle", "orders.py has no 'handle'"),
        ("handle = 1", "orders:handle", "'handle' in orders.py is neither a function nor a class"),
        ("", "others:handle", "there is no others.py among its files"),
        ("", "pulsar:handle", "pulsar.py has the name of a module that exists: rename it"),
        ("", "calendar:handle", "calendar.py has the name of a module that exists"),
        ("class handle: pass", "orders:handle", "class 'handle' has no method process(input, context)"),
        (
            "class handle:\n    def __init__(self): raise OSError('down')\n    def process(self, i, c): ...",
            "orders:handle",
            "class 'handle' cannot be made: OSError: down",
        ),
    ],
)
def test_handler_that_is_not_available_is_reported_in_a_line(
    make: Make, code: str, name: str, said: str
) -> None:
    with pytest.raises(HandlerUnavailable) as raised:
        make(code, name=name)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_values_of_users_variables_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "canary-93b1")
    assert one_line(ValueError("bad canary-93b1")) == "ValueError: bad $PASSWORD"
    assert len(one_line("x" * 5000)) == 500


def test_files_that_are_changed_later_are_not_seen_by_this_pod(tmp_path: Path) -> None:
    """By a container of it that starts again: it has the code that the Pod was made for."""
    first = settings(tmp_path, "def handle(message): return 'first'")
    copy = stage(first, wait_seconds=0)
    second = settings(tmp_path, "def handle(")
    assert second.hash != first.hash
    assert stage(first, wait_seconds=0) == copy
    assert "first" in (copy / "orders.py").read_text()
    assert "first" not in (stage(second, wait_seconds=0) / "orders.py").read_text()


def test_files_of_another_version_are_not_run(tmp_path: Path) -> None:
    first = settings(tmp_path, "def handle(message): return 'first'")
    settings(tmp_path, "def handle(message): return 'second'")
    with pytest.raises(HandlerUnavailable, match="other content than this Pod was made for"):
        stage(first, wait_seconds=0)


FUNCTION = """
from pulsar import Function

class handle(Function):
    def process(self, input, context):
        {body}
"""


@pytest.mark.parametrize(
    ("payload", "body", "verdict"),
    [
        (b"hello", "return input + '!'", Handled(b"hello!")),
        (b"41", "return input + 1", Handled(b"42")),
        (b"\xff", "return input", Handled(b"\xff")),
        (b"x", "return None", Handled(None)),
        (b"x", "return context.get_message_key()", Handled(b"k")),
        (b"x", "return context.get_message_properties()['a']", Handled(b"b")),
        (b"x", "return context.get_user_config_value('GREETING')", Handled(b"good day")),
        (b"x", "return context.get_secret('GREETING')", Handled(b"good day")),
        (b"x", "return context.get_output_topic()", Handled(b"out")),
        (b"x", "return str(context.get_message_id())", Handled(b"(7,0,-1,-1)")),
        (
            b"x",
            "context.incr_counter('n', 1)",
            Failed(
                "NotImplementedError: a PulsarConsumer has no incr_counter() of Pulsar's Functions: "
                "keep state outside of the consumer"
            ),
        ),
    ],
)
def test_class_of_pulsars_own(
    make: Make, monkeypatch: pytest.MonkeyPatch, payload: bytes, body: str, verdict: object
) -> None:
    monkeypatch.setenv("GREETING", "good day")
    handler = make(FUNCTION.format(body=body))
    assert handler(Message(payload, key="k", sent={"a": "b"})) == verdict


READ = Decoded(Message(b"7"), {"id": 7}, version=0, is_json=True)


def test_with_a_schema_a_function_gets_what_was_read(make: Make) -> None:
    assert make(FUNCTION.format(body="return str(input['id'])"))(READ) == Handled(b"7")


def test_with_a_schema_a_message_has_what_was_read_and_all_that_it_had(make: Make) -> None:
    code = "def handle(message): return f'{message.value()} {message.data()} {message.topic_name()}'"
    assert make(code)(READ) == Handled(b"{'id': 7} b'7' persistent://public/default/t")


def test_function_publishes_before_it_returns(make: Make, record: Record) -> None:
    handler = make(
        """
        class handle:
            def process(self, input, context):
                context.publish("other", input, properties={"a": "b"}, message_conf={"partition_key": "k"})
        """
    )
    assert handler(Message(b"hello")) == Handled(None)
    assert record.sent("other") == [(b"hello", {"properties": {"a": "b"}, "partition_key": "k"})]
    record.failure = pulsar.ConnectError()
    assert isinstance(handler(Message()), Failed)


def test_function_records_what_prometheus_reads(make: Make, record: Record) -> None:
    handler = make(
        """
        class handle:
            def process(self, input, context):
                context.record_metric("amount", int(input))
        """
    )
    assert handler(Message(b"7")) == Handled(None)
    assert record.events == [("record", "amount", 7.0)]


def test_every_method_of_the_context_is_kept_or_refused_by_name() -> None:
    """None of Pulsar's own, which return nothing, is left."""
    nobody = Metrics().recorded
    context = FunctionContext(Message(), topics=["t"], output_topic="", publish=Record().send, record=nobody)
    for name in dir(pulsar.functions.context.Context):
        if name.startswith("_"):
            continue
        assert name in vars(FunctionContext), name
    arguments: dict[str, tuple[Any, ...]] = {
        "record_metric": ("m", 1),
        "ack": (1, "t"),
        "incr_counter": ("k", 1),
        "get_counter": ("k",),
        "del_counter": ("k",),
        "put_state": ("k", b""),
        "get_state": ("k",),
    }
    for name, given in arguments.items():
        with pytest.raises(NotImplementedError, match=name):
            getattr(context, name)(*given)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"serde_class_name": "mine.SerDe"}, "mine.SerDe"),
        ({"compression_type": 1}, "compression_type"),
        ({"message_conf": {"deliver_at": 1}}, "deliver_at"),
    ],
)
def test_what_publish_cannot_do_is_refused(arguments: dict[str, Any], said: str) -> None:
    record = Record()
    context = FunctionContext(
        Message(), topics=["t"], output_topic="", publish=record.send, record=record.record
    )
    with pytest.raises((NotImplementedError, ValueError), match=said):
        context.publish("other", b"x", **arguments)
    assert record.events == []
