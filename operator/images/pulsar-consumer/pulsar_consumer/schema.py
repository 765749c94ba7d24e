"""By which schemas payloads are read: `spec.schema`, as the consumer's environment has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_consumer.errors import BadSetting

TYPES = ("Avro", "JSON")


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The `type` of the topics' schemas. `definition` None: payloads are read as they were published."""

    type: str
    definition: Any = None

    @staticmethod
    def load(env: Mapping[str, str]) -> Schema | None:
        """None where payloads are handed over as they are.

        :raises BadSetting: for the first variable that is wrong.
        """
        type, text = env.get("PULSAR_SCHEMA_TYPE", ""), env.get("PULSAR_SCHEMA_DEFINITION", "")
        if not type:
            return None
        if type not in TYPES:
            raise BadSetting(f"PULSAR_SCHEMA_TYPE={type!r}: set it to one of {', '.join(TYPES)}")
        if not text:
            return Schema(type=type)
        try:
            definition = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadSetting(f"spec.schema.definition: it is not JSON: {error}") from None
        if definition is None:
            raise BadSetting("spec.schema.definition: it is null: leave it out to have none")
        return Schema(type=type, definition=definition)
