"""Hundreds of specs at random, drawn from the schemas themselves, for the cases nobody thinks of.

What the schema of a field admits is refused by a CEL rule in its own words, and stored unchanged (beside
the defaults) once what is refused is left out. No rule ever breaks on it; no value is dropped or respelt.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.support.admitted import admitted
from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import KINDS, POSTGRESQL, Kind
from tests.unit.schema.drawing import drawn_from

EXAMPLES = settings(max_examples=25, database=None)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@EXAMPLES
@given(data=st.data())
def test_what_a_schema_admits_is_kept_or_refused_in_words(api: Api, kind: Kind, data: st.DataObject) -> None:
    _is_kept_or_refused(api, kind, data)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@settings(max_examples=1000, database=None)
@given(data=st.data())
def test_more_of_what_a_schema_admits(api: Api, kind: Kind, data: st.DataObject) -> None:
    _is_kept_or_refused(api, kind, data)


def _is_kept_or_refused(api: Api, kind: Kind, data: st.DataObject) -> None:
    schema = kind.schema["properties"]["spec"]
    found = admitted(api, kind, data.draw(drawn_from(schema)))
    assert found.stored == _with_defaults(schema, found.spec)
    if found.refused:
        # Only the others have rules that look beyond one field's schema.
        assert kind.manifest["spec"]["names"]["kind"] != "MyCustomResource", found.refused
        said = (
            "two spellings", "is reserved", "exceeds its limit", "not greater than 0", "is too little",
            "exactly one of them", "does not start with PULSAR_", "use 1 to 65535",
            "is the consumer's own in the same Pod", "is the exporter's own in the same Pod",
            "than an Exclusive subscription takes",
            "both give the password", "made from this resource", "which takes no volume",
            "cannot be a parameter's", "lock it out", "has a line break",
            "needs a namespaceSelector", "cannot be a label's", "needs values", "takes no values",
            "is of no use to a role that cannot log in", "whose data goes with the Pod",
            "set exactly one of spec.topic, spec.topics", "is no pattern of topics",
            "use spec.topics, or leave", "is one of spec.topics", "matches spec.topicsPattern",
            "replaces that: leave out one of the two", "has no effect without a handler",
            "needs a topic for what is given up", "keeps all messages in order",
            "from which it would come back", "exceeds maxSeconds", "has several moments",
            "is for type incremental alone", "needs exactly one of full and window", "would never run",
            "both give the certificate", "is none of cert-manager.io",
            "has nothing to wake", "by address, because",
            "is the default user, made by spec.defaultUser", "made with the server and kept with it",
            "is the role itself", "more than this resource may give", "is of a store that is not supported",
            "is for a store that speaks S3 alone", "is for a store with an address",
            "is for a store that asks for it", "is on the volume of the database itself",
            "would get the service account's tokens in clear",
            "must have either backupRef or targetURL", "does not end with a system identifier",
            "has all that opens the store", "is needed with targetURL", "is known from the Backup",
            "use a label of another name", "cannot be an annotation's", "or weakens the Pods' security",
            "which tolerates every taint", "beside operator Exists", "without effect NoExecute",
            "without whenUnsatisfiable DoNotSchedule", "selects by already",
            "is set by the operator or by kubectl", "has no meaning within the cluster",
            "is for load balancers alone", "is no block of addresses", "beside a selector",
            "would be one address for several caches", "takes spec.mode 'Plan'",
            "cannot be used with spec.tls.secretName", "cannot be used with spec.auth.passwordSecretRef",
            "is less than spec.storage.size", "would get the credentials of spec.auth in clear",
            "has no effect with spec.serverAddress", "is done by the broker's admin API",
            "more than one of tokenSecretRef",
            "leads to the operator's own Pod", "which deletes the subscription",
            "is for a restore in place", "needs a Backup of the Postgresql",
            "is for a Postgresql that is made", "follows what the broker's admin API says",
            "is more than spec.autoscaling.max", "rotation.timeZone is for a schedule",
            "spec.credentials.rotation makes passwords", "too long for the logins of",
            "which spec.credentials.rotation makes", "which is also in spec.roles or spec.defaultUser",
            "makes roles whose names have", "must begin with host, hostssl or hostnossl",
            "must end with scram-sha-256 or reject", "must have databases, users, an address and a method",
            "must have all, samehost, samenet or a block", "both or none of configMapRef and secretRef",
            "is created with the server", "says where the log goes",
            "which needs TLS, and spec.tls.enabled", "is signed by an authority of the resource's own",
            "has no effect while clientCertificate.enabled",
            "is for spec.into Databases", "spec.into Databases needs", "several that become the same",
            "is for spec.into Verify", "is needed with spec.into Verify",
            "is PostgreSQL's own", "in whose database the exporter's sessions are",
            "needs spec.workload 'StatefulSet'", "cannot be kept with spec.size",
            "spec.hba has a line",  # what is said of one with a line break, which no message may have
        )  # fmt: skip
        messages = [cause["message"] for cause in found.refused]
        assert not [each for each in messages if "evaluating rule" in each]
        assert [each for each in messages if not any(words in each for words in said)] == []


def _with_defaults(schema: Json, value: Any) -> Any:
    """What the API server stores: defaults at any depth of what is there."""
    if isinstance(value, list):
        return [_with_defaults(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    known = schema["properties"]
    given = {name: field["default"] for name, field in known.items() if "default" in field} | value
    return {name: _with_defaults(known.get(name, {}), inner) for name, inner in given.items()}


UNITS = ("", "k", "M", "G", "Ki", "Mi", "Gi")
SIZES = st.tuples(st.integers(1, 2000), st.sampled_from(UNITS))


@EXAMPLES
@given(before=SIZES, after=SIZES)
def test_a_size_may_fall_as_it_may_grow(api: Api, before: tuple[int, str], after: tuple[int, str]) -> None:
    """What becomes of a volume that is larger says the operator, who knows what it has."""
    path = f"{POSTGRESQL.collection}/sized"
    sizes = [f"{number}{unit}" for number, unit in (before, after)]
    api.create(
        POSTGRESQL.collection, POSTGRESQL.resource("sized", {"storage": {"size": sizes[0]}})
    ).accepted()
    try:
        found = api.merge(path, {"spec": {"storage": {"size": sizes[1]}}}).accepted()
        assert found["spec"]["storage"]["size"] == sizes[1]
    finally:
        api.delete(path)
