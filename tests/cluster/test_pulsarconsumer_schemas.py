"""Payloads read by the schemas that a real broker has: a handler gets what fits, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from tests.cluster.consumers import KIND, Make, edit, log, pods, python, wait_ready
from tests.cluster.stack import Environment, within

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": "string", "default": "none"}
SECOND = {**FIRST, "fields": [*FIRST["fields"], NOTE]}
THIRD = {**SECOND, "fields": [*SECOND["fields"], {"name": "currency", "type": "string", "default": "EUR"}]}
OTHER = {**FIRST, "fields": [{"name": "id", "type": "string"}]}
RUBBISH = "canary-77d0"
PUBLISH = """
import json, os, sys
import pulsar
from pulsar.schema import AvroSchema

topic, first, second, rubbish = sys.argv[1:]
first, second = json.loads(first), json.loads(second)

class Careless(AvroSchema):
    def encode(self, obj):
        return obj

client = pulsar.Client(os.environ["PULSAR_SERVER"])
client.create_producer(topic, schema=AvroSchema(None, first)).send({"id": 1})
newer = client.create_producer(topic, schema=AvroSchema(None, second))
newer.send({"id": 2, "note": "two"})
newer.send({"id": 3, "note": "three"})
client.create_producer(topic, schema=Careless(None, second)).send(b"\\x02\\x0acut")
client.create_producer(topic).send(rubbish.encode())
client.close()
"""
HANDLER = """
from pulsar_consumer.handler import Reject

def handle(message):
    order = message.value()
    if order["id"] == 3 and not message.properties().get("SENT_BACK_FROM"):
        raise Reject("three")
    print("handled", sorted(order.items()), flush=True)
"""
SHOWING = """
def handle(message):
    found = message.properties()
    print(found["DEAD_LETTER_REASON"], "by", found["DEAD_LETTER_ERROR"], message.data(), flush=True)
"""


def run(environment: Environment, name: str, *words: str) -> str:
    """Python in a consumer's own container."""
    [pod, *_] = pods(environment, name)
    return environment.kubectl("exec", pod, "-c", "consumer", "--", "python3", *words)


def handled(environment: Environment, name: str) -> list[str]:
    lines = (
        line.removeprefix("handled ") for line in log(environment, name).splitlines() if "handled" in line
    )
    return sorted(lines)


def test_handler_gets_what_fits_its_schema_and_the_dead_letters_get_the_rest(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    """Also what is sent back, after it was rejected: it has its schema again."""
    code, dead = put(HANDLER), f"dead-{os.urandom(3).hex()}"
    name = make(handler=python(code), schema={"type": "Avro"}, deadLetter={"topic": dead})
    reader = make(topic=dead, handler=python(put(SHOWING)))
    wait_ready(environment, name)
    wait_ready(environment, reader)
    run(environment, name, "-c", PUBLISH, name, json.dumps(FIRST), json.dumps(SECOND), RUBBISH)
    wanted = ["[('id', 1)]", "[('id', 2), ('note', 'two')]"]
    within(60, lambda: handled(environment, name) == wanted)
    letters = [
        "Rejected by Reject: three b'\\x06\\nthree'",
        "SchemaMismatch by SchemaMismatch: field 'note' is cut off b'\\x02\\ncut'",
        f"SchemaMismatch by SchemaMismatch: it was published without a schema b'{RUBBISH}'",
    ]
    within(
        60,
        lambda: sorted(line for line in log(environment, reader).splitlines() if " by " in line) == letters,
    )
    # What the consumer itself logs has no value either.
    assert RUBBISH not in log(environment, name)
    redrive = run(environment, name, "-m", "pulsar_consumer.dead_letters", "redrive", "--reason", "Rejected")
    assert json.loads(redrive.splitlines()[-1]) == {"found": 1, "sent": 1}
    within(60, lambda: handled(environment, name) == [*wanted, "[('id', 3), ('note', 'three')]"])


def test_definition_is_compared_by_the_broker_and_every_version_is_read_as_it(
    environment: Environment, make: Make, put: Callable[[str], str]
) -> None:
    code = put(HANDLER)
    name = make(handler=python(code), schema={"type": "Avro"})
    wait_ready(environment, name)
    run(environment, name, "-c", PUBLISH, name, json.dumps(FIRST), json.dumps(SECOND), RUBBISH)

    def another(number: int, **schema: str) -> str:
        dead = {"topic": f"dead-{os.urandom(3).hex()}"}
        subscription = f"another-{number}"
        return make(
            topic=name, subscriptionName=subscription, handler=python(code), schema=schema, deadLetter=dead
        )

    of_json = another(1, type="JSON")
    refused = another(2, type="Avro", definition=json.dumps(OTHER))
    compatible = another(3, type="Avro", definition=json.dumps(THIRD))
    for each in (of_json, refused):
        wait_ready(environment, each, reason="IncompatibleSchema")
    assert f"the schema of '{name}' is AVRO, not JSON" in ready(environment, of_json)
    assert "does not find it compatible" in ready(environment, refused)
    wait_ready(environment, compatible)
    first, second = (
        f"[('currency', 'EUR'), ('id', {number}), ('note', '{note}')]"
        for number, note in ((1, "none"), (2, "two"))
    )
    within(60, lambda: handled(environment, compatible) == [first, second])
    edit(environment, refused, schema={"type": "Avro", "definition": json.dumps(THIRD)})
    wait_ready(environment, refused)
    within(60, lambda: handled(environment, refused) == [first, second])


def ready(environment: Environment, name: str) -> str:
    """The message of the condition."""
    conditions = environment.get(f"{KIND}/{name}")["status"]["conditions"]
    [message] = [item["message"] for item in conditions if item["type"] == "Ready"]
    return str(message)
