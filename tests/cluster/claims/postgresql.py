"""What a Postgresql says, compared with what the server and the programs in its Pod answer."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from cronsim import CronSim
from cryptography import x509
from kindling.engine.quantity import quantity
from kindling.kinds.postgresql.credentials import Record

from tests.cluster.certified import asks, client, values
from tests.cluster.claims.contract import COMMON, GUIDES, Claim, Evidence, KindClaims, Reported
from tests.cluster.claims.served import certificate_of
from tests.cluster.stack import Environment

# One login, as an application has it: through the Service, with what the binding says.
_ASK = """select json_build_object(
    'address', host(inet_server_addr()), 'user', current_user, 'database', current_database(),
    'owner', (select pg_get_userbyid(datdba) from pg_database where datname = current_database()))"""

# What there is of roles and databases, by name.
_MADE = """select json_build_object(
    'roles', (select json_object_agg(rolname, json_build_object('login', rolcanlogin, 'limit', rolconnlimit,
        'groups', (select coalesce(json_agg(g.rolname order by g.rolname), '[]') from pg_auth_members m
            join pg_roles g on g.oid = m.roleid where m.member = r.oid))) from pg_roles r),
    'databases', (select json_object_agg(datname, json_build_object('owner', pg_get_userbyid(datdba)))
        from pg_database))"""


_RULES = """select json_build_object(
    'kinds', (select json_agg(type order by line_number) from pg_hba_file_rules),
    'methods', (select json_agg(auth_method order by line_number) from pg_hba_file_rules),
    'read', (pg_stat_file(current_setting('hba_file'))).modification < pg_conf_load_time())"""


def gather(environment: Environment, resource: dict[str, Any]) -> Evidence:
    meta = resource["metadata"]
    try:
        answer = json.loads(environment.psql(meta["name"], _ASK))
    except AssertionError:
        answer = {}
    inside = ("exec", f"{meta['name']}-0", "-n", meta["namespace"], "-c", "postgres", "--")
    said = environment.kubectl(*inside, "postgres", "--version")
    psql = (*inside, "psql", "--no-psqlrc", "-U", "kindling", "-d", "postgres", "-tA", "-c")
    pending = environment.kubectl(*psql, "select name from pg_settings where pending_restart order by 1")
    control = environment.kubectl(*inside, "pg_controldata", "--pgdata=/var/lib/postgresql/data/pgdata")
    serves = bool(answer) and answer["owner"] == answer["user"] == answer["database"]
    waits = bool(pending.split())
    paused = resource["spec"].get("paused", False)
    held = _is_held(environment, resource)
    made = json.loads(environment.kubectl(*psql, _MADE))
    complete = all(
        _is_made(item, what, made, user=answer.get("user"))
        for what in ("roles", "databases")
        for item in resource["spec"].get(what) or []
    )
    return Evidence(
        conditions={
            "Ready": str(serves and not waits and complete and not held),
            "Available": str(serves),
            "Progressing": str(waits and not paused and not held),
            "Degraded": str(not serves or not complete),
        },
        figures=_figures(resource["status"]),
        facts={
            "answer": answer,
            "serves": serves,
            "version": re.fullmatch(r"postgres \(PostgreSQL\) (\d+\.\d+).*", said.strip())[1],  # type: ignore[index]
            "pending": pending.split(),
            "held": held,
            "made": made,
            "rules": json.loads(environment.kubectl(*psql, _RULES)),
            "served": certificate_of(environment, f"{meta['name']}-0", meta["namespace"]),
            "inside": lambda database, query: environment.kubectl(
                *inside, "psql", "--no-psqlrc", "-U", "kindling", "-d", database, "-tA", "-c", query
            ),
            "identifier": re.search(r"^Database system identifier: *(\d+)$", control, re.MULTILINE)[1],  # type: ignore[index]
        },
    )


def _figures(status: dict[str, Any]) -> frozenset[str]:
    """Those of what waits for an approval: how long the last restart took, and names, which may be digits."""
    names = frozenset(item["name"] for item in status.get("approvals", []))
    seconds = [str(status["lastRestartSeconds"])] if names and "lastRestartSeconds" in status else []
    return names.union(seconds)


def _is_held(environment: Environment, resource: dict[str, Any]) -> bool:
    """Whether the Pod is of another template than its StatefulSet has by now, as its controller says."""
    meta = resource["metadata"]
    pod = environment.get("pod", f"{meta['name']}-0", "-n", meta["namespace"])
    workload = environment.get("statefulset", meta["name"], "-n", meta["namespace"])
    made = pod["metadata"]["labels"]["controller-revision-hash"]
    return "approval" in resource["spec"] and bool(made != workload["status"]["updateRevision"])


def _is_made(item: dict[str, Any], what: str, made: dict[str, Any], *, user: str | None) -> bool:
    """Whether the server has it as the spec says, as far as one look from outside shows."""
    wanted: dict[str, Any] = {"owner": item.get("owner", user)}
    if what == "roles":
        groups = sorted(item.get("memberOf", []))
        wanted = {
            "login": item.get("login", False),
            "limit": item.get("connectionLimit", -1),
            "groups": groups,
        }
    return bool(made[what].get(item["name"]) == wanted)


def _items(reported: Reported, what: str) -> dict[str, dict[str, Any]]:
    """Those of the spec, all of them and no others: whoever left it is dropped by then."""
    said = {item["name"]: item for item in reported.status.get(what, [])}
    assert list(said) == [item["name"] for item in reported.resource["spec"].get(what, [])]
    return said


def _item_names(what: str) -> Claim:
    def claim(reported: Reported) -> None:
        _items(reported, what)

    return claim


def _item_ready(what: str) -> Claim:
    def claim(reported: Reported) -> None:
        """Ready is what the server has as the spec says: owner, memberships, login."""
        for item in reported.resource["spec"].get(what, []):
            made = _is_made(item, what, reported.facts["made"], user=reported.facts["answer"]["user"])
            assert _items(reported, what)[item["name"]]["ready"] is made, item["name"]

    return claim


def _item_reason(what: str) -> Claim:
    def claim(reported: Reported) -> None:
        for item in _items(reported, what).values():
            assert (item["reason"] == "Applied") is item["ready"]
            assert f"`{item['reason']}`" in GUIDES, item["reason"]

    return claim


def _item_message(what: str) -> Claim:
    def claim(reported: Reported) -> None:
        for item in _items(reported, what).values():
            assert bool(item.get("message")) is not item["ready"]

    return claim


def _item_policy(what: str) -> Claim:
    def claim(reported: Reported) -> None:
        for item in reported.resource["spec"].get(what, []):
            policy = _items(reported, what)[item["name"]]["reclaimPolicy"]
            assert policy == item.get("reclaimPolicy", "Retain")

    return claim


def _role_binding(reported: Reported) -> None:
    """Each login is one with which an application gets in, through the Service, as the Secret says."""
    meta = reported.resource["metadata"]
    for item in reported.resource["spec"].get("roles", []):
        said = _items(reported, "roles")[item["name"]]
        assert ("binding" in said) is item.get("login", False) or not said["ready"]
        if said["ready"] and item.get("login"):
            secret = reported.environment.get("secret", said["binding"]["name"], "-n", meta["namespace"])
            bound = {key: base64.b64decode(secret["data"][key]).decode() for key in ("username", "database")}
            asked = "select current_user || ' ' || current_database()"
            if _is_certified(item):
                answer = _as_certified(reported, item, asked)
            else:
                answer = reported.environment.psql(meta["name"], asked, secret=said["binding"]["name"])
            assert answer == f"{item['name']} {bound['database']}"


def _is_certified(item: dict[str, Any]) -> bool:
    return bool(item.get("clientCertificate", {}).get("enabled"))


def _as_certified(reported: Reported, item: dict[str, Any], query: str) -> str:
    """What a session says that has shown the certificate of the role's Secret, and a password if it must."""
    name, role = reported.resource["metadata"]["name"], item["name"]
    password = None
    if item["clientCertificate"].get("passwordRequired"):
        password = values(reported.environment, name, role)["password"]
    with client(reported.environment, name, role) as pod:
        return asks(reported.environment, pod, query, user=role, shows=role, password=password)


def _exports(reported: Reported) -> None:
    """Each item of the spec, in its order; ready are those whose import has the copy."""
    wanted = reported.resource["spec"].get("bindingExports", [])
    said = reported.status.get("bindingExports", [])
    keys = ("namespace", "name", "role")
    assert [{key: item[key] for key in keys if key in item} for item in said] == wanted
    imports = reported.environment.get("bindingimports.database.technotuesday.io", "-A")["items"]
    found = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in imports}
    for item in said:
        there = found.get((item["namespace"], item["name"]), {}).get("status", {})
        assert item["ready"] is ("binding" in there) is (item["reason"] == "Imported")
        assert f"`{item['reason']}`" in GUIDES
        assert item["ready"] or item["message"]


def _role_certificate(reported: Reported) -> None:
    """The end of the certificate in the Secret, by which the server says that it has let the role in."""
    for item in reported.resource["spec"].get("roles", []):
        said = _items(reported, "roles")[item["name"]]
        assert ("clientCertificate" in said) is _is_certified(item)
        if not _is_certified(item):
            continue
        found = values(reported.environment, reported.resource["metadata"]["name"], item["name"])
        shown = x509.load_pem_x509_certificate(found["tls.crt"].encode())
        assert datetime.fromisoformat(said["clientCertificate"]["notAfter"]) == shown.not_valid_after_utc
        query = "select client_dn || ' ' || client_serial from pg_stat_ssl where pid = pg_backend_pid()"
        if said["ready"] and "hba" in reported.status:
            expected = f"/CN={item['name']} {shown.serial_number}"
            assert _as_certified(reported, item, query) == expected


def _role_certificate_metric(reported: Reported) -> None:
    """The first end of those in the Secrets."""
    name, roles = reported.resource["metadata"]["name"], reported.resource["spec"].get("roles", [])
    texts = [
        values(reported.environment, name, role["name"])["tls.crt"] for role in roles if _is_certified(role)
    ]
    ends = [x509.load_pem_x509_certificate(text.encode()).not_valid_after_utc.timestamp() for text in texts]
    found = reported.metrics.get("kindling_postgresql_role_certificate_expiration_timestamp_seconds")
    assert found == min(ends, default=None)


def _extensions(reported: Reported) -> None:
    query = "select json_object_agg(extname, extversion) from pg_extension"
    for item in reported.resource["spec"].get("databases", []):
        said = _items(reported, "databases")[item["name"]]
        if said["ready"]:
            has = json.loads(reported.facts["inside"](item["name"], query))
            wanted = [extension["name"] for extension in item.get("extensions", [])]
            versions = {each["name"]: each["version"] for each in said.get("extensions", [])}
            assert versions == {name: has[name] for name in wanted}


def _phase(reported: Reported) -> None:
    assert reported.status["pgPhase"] == ("up" if reported.facts["serves"] else "Failed")


def _active(reported: Reported) -> None:
    """The Pod that answered is the one it names; what it has no use for is not there."""
    active = dict(reported.status["active"])
    pod = reported.environment.get("pod", active["name"], "-n", active["namespace"])
    assert active == {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }
    assert reported.facts["answer"]["address"] == pod["status"]["podIP"]


def _version(reported: Reported) -> None:
    assert reported.status["version"] == reported.facts["version"]


def _image(reported: Reported) -> None:
    """What the Pod was made of, not what its StatefulSet has by now."""
    meta = reported.resource["metadata"]
    where = "jsonpath={.spec.containers[?(@.name=='postgres')].image}"
    pod = reported.environment.kubectl(
        "get", "pod", f"{meta['name']}-0", "-n", meta["namespace"], "-o", where
    )
    assert reported.status["image"] == pod.strip()


def _pending(reported: Reported) -> None:
    assert reported.status.get("pendingRestart", []) == reported.facts["pending"]


def _hba(reported: Reported) -> None:
    """Kind and method of each rule that the server reads, in its order, and that it has read the file."""
    said = reported.status.get("hba")
    spec = reported.resource["spec"]
    certified = any(_is_certified(item) for item in spec.get("roles", []))
    assert (said is not None) is (bool(spec.get("hba")) or certified)
    if said is not None:
        assert [rule.split()[0] for rule in said] == reported.facts["rules"]["kinds"]
        methods = [[word for word in rule.split() if "=" not in word][-1] for rule in said]
        assert methods == reported.facts["rules"]["methods"]
        assert reported.facts["rules"]["read"] is True


def _init_sql(reported: Reported) -> None:
    """When it was run is a setting of the database; one without that was there before."""
    said, answer = reported.status.get("initSQL"), reported.facts["answer"]
    assert (said is not None) is bool(reported.resource["spec"].get("initSQL"))
    if said is not None:
        query = "select coalesce(current_setting('kindling.init_sql', true), '')"
        noted = reported.facts["inside"](answer["database"], query).strip()
        assert (said.get("appliedAt", ""), "message" in said) == (noted, not noted)


def _last_restart(reported: Reported) -> None:
    """No less than the Pod that came of it took to start, as long as that is its first and only start."""
    seconds, active = reported.status.get("lastRestartSeconds"), reported.status["active"]
    pod = reported.environment.get("pod", active["name"], "-n", active["namespace"])
    restarts = sum(item["restartCount"] for item in pod["status"]["containerStatuses"])
    if seconds is not None and not restarts:
        ready = next(item for item in pod["status"]["conditions"] if item["type"] == "Ready")
        moments = pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"]
        made, served = map(datetime.fromisoformat, moments)
        assert seconds >= (served - made).total_seconds() - 1


def _in_place(reported: Reported) -> None:
    """The Restore is there, and the volume has the data from before it; of a server that runs, no more."""
    said = reported.status.get("inPlaceRestore")
    if said is None:
        return
    meta = reported.resource["metadata"]
    place = ("exec", f"{meta['name']}-0", "-n", meta["namespace"], "-c", "postgres", "--")
    found = reported.environment.kubectl(*place, "ls", "/var/lib/postgresql/data").split()
    restore = reported.environment.get("restore", said["name"], "-n", meta["namespace"])
    assert said == {"name": restore["metadata"]["name"], "uid": restore["metadata"]["uid"]}
    assert "pgdata.previous" in found


def _plan(reported: Reported) -> None:
    """It is there while it is asked for, and empty where all is as the spec says."""
    plan = reported.status.get("plan")
    assert (plan is not None) is (reported.resource["spec"].get("mode") == "Plan")
    if plan is not None and reported.evidence.conditions["Ready"] == "True":
        assert plan == {"disruption": "None", "items": []}


def _approvals(reported: Reported) -> None:
    """One restart is named while the Pod lacks something; what is not done is no other's."""
    said = [item["disruption"] for item in reported.status.get("approvals", [])]
    assert said == (["Restart"] if reported.facts["held"] else [])


def _identifier(reported: Reported) -> None:
    """Of ephemeral data, which is meant to go, nothing is recorded."""
    ephemeral = (reported.resource["spec"].get("storage") or {}).get("ephemeral", False)
    assert reported.status.get("systemIdentifier") == (None if ephemeral else reported.facts["identifier"])


def _binding(reported: Reported) -> None:
    """The evidence was had with this Secret, under the name that `Environment.psql` knows."""
    assert reported.status["binding"]["name"] == f"{reported.resource['metadata']['name']}-binding"
    assert reported.facts["answer"]["user"]


def _tls(reported: Reported) -> None:
    """What any client is shown."""
    said: dict[str, Any] = reported.status.get("tls") or {}
    served = reported.facts["served"]
    assert said.get("active", False) is (served is not None)
    if served is None:
        assert "notAfter" not in said
        return
    assert datetime.fromisoformat(said["notAfter"]) == served.not_valid_after_utc
    assert said["issuer"] == served.issuer.rfc4514_string()
    assert "message" not in said


def _end_metric(reported: Reported) -> None:
    served = reported.facts["served"]
    end = served.not_valid_after_utc.timestamp() if served is not None else None
    assert reported.metrics.get("kindling_postgresql_certificate_expiration_timestamp_seconds") == end


def _claim_of_data(reported: Reported) -> dict[str, Any] | None:
    meta, storage = reported.resource["metadata"], reported.resource["spec"].get("storage") or {}
    if storage.get("ephemeral"):
        return None
    return reported.environment.get("pvc", f"{meta['name']}-data", "-n", meta["namespace"])


def _capacity(reported: Reported) -> None:
    found = _claim_of_data(reported)
    has = ((found or {}).get("status") or {}).get("capacity", {}).get("storage")
    assert (reported.status.get("storage") or {}).get("capacity") == has


def _used(reported: Reported) -> None:
    """What `du` finds in the Pod is at least that, but for the step in which it is written; and what is
    foretold follows from the figures beside it.
    """
    said: dict[str, Any] = reported.status.get("storage") or {}
    if "usedBytes" not in said:
        assert said.keys() <= {"capacity"}
        return
    meta = reported.resource["metadata"]
    inside = ("exec", f"{meta['name']}-0", "-n", meta["namespace"], "-c", "postgres", "--")
    measured = reported.environment.kubectl(*inside, "du", "-sb", "/var/lib/postgresql/data/pgdata")
    found, capacity = int(measured.split()[0]), int(quantity(said["capacity"]))
    step = capacity // 100
    assert found * 0.8 - step <= said["usedBytes"] <= found + step
    at, since = (datetime.fromisoformat(said[name]) for name in ("measuredAt", "growthSince"))
    assert since <= at <= datetime.now(at.tzinfo)
    if "fullAt" in said:
        hours = (datetime.fromisoformat(said["fullAt"]) - at).total_seconds() / 3600
        left = max(0, capacity - said["usedBytes"])
        assert abs(hours * said["growthBytesPerHour"] - left) <= said["growthBytesPerHour"] / 3600 + 1


def _credentials(reported: Reported) -> None:
    """The binding's user is who logs in by it; the login before may still, and these are its sessions."""
    said: dict[str, Any] = reported.status.get("credentials") or {}
    record: dict[str, Any] = reported.status.get("rotation") or {}
    assert bool(said) == bool(record) == ("credentials" in reported.resource["spec"])
    if not said:
        return
    environment, meta = reported.environment, reported.resource["metadata"]
    data = environment.get("secret", f"{meta['name']}-binding", "-n", meta["namespace"])["data"]
    assert said["login"] == record["login"] == base64.b64decode(data["username"]).decode()
    assert environment.psql(meta["name"], "select session_user") == said["login"]
    ask = reported.facts["inside"]
    previous = said.get("previous") or {}
    assert previous.get("login") == record.get("previous")
    logins = [reported.facts["answer"]["owner"] + suffix for suffix in ("", "_a", "_b")]
    names = ", ".join(f"'{name}'" for name in logins)
    enabled = ask("postgres", f"select rolname from pg_roles where rolcanlogin and rolname in ({names})")
    assert set(enabled.split()) == {said["login"], *filter(None, [previous.get("login")])}
    query = (
        "select coalesce(host(client_addr), 'local'), application_name, count(*) from pg_stat_activity "
        f"where usename = '{previous.get('login')}' group by 1, 2"
    )
    found = {tuple(line.split("|")) for line in ask("postgres", query).splitlines() if line}
    sessions = previous.get("sessions") or []
    assert {(one["address"], one["application"], str(one["count"])) for one in sessions} == found
    assert ("message" in previous) <= bool(found)
    at, now = datetime.fromisoformat(record["at"]), datetime.now(UTC)
    assert datetime.fromisoformat(meta["creationTimestamp"]) <= at <= now
    assert ("rotatedAt" in said) == (record["number"] > 0)
    assert said.get("rotatedAt", record["at"]) == record["at"]
    wanted = reported.resource["spec"]["credentials"]["rotation"]
    assert ("nextRotation" in said) == ("schedule" in wanted)
    if "nextRotation" in said:
        following = next(CronSim(wanted["schedule"], at))
        assert datetime.fromisoformat(said["nextRotation"]) == following > now
    if "validUntil" in previous:
        hours, _, minutes = wanted["overlap"].rstrip("m").rpartition("h")
        overlap = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        since = datetime.fromisoformat(record["since"])
        assert at <= since <= now
        assert datetime.fromisoformat(previous["validUntil"]) == since + overlap
    asked = (meta.get("annotations") or {}).get("kindling.dev/rotate", "")
    assert record.get("request", "") == asked


def _idle(reported: Reported) -> None:
    """Who has just asked here is somebody: by the next health check nobody is idle, and none is stopped."""
    said: dict[str, Any] = reported.status.get("idle") or {}
    annotations = reported.resource["metadata"].get("annotations") or {}
    assert "hibernateAfter" in reported.resource["spec"] or not said
    assert said.get("wake", "") == annotations.get("kindling.dev/wake", "")
    if "wakingSince" in said:
        assert reported.resource["spec"]["wakeOnConnection"] is True
        assert "stoppedAt" not in said
    if "since" in said:
        assert datetime.now(UTC) - datetime.fromisoformat(said["since"]) >= timedelta(seconds=60)
    assert "stoppedAt" not in said or not reported.facts["serves"]


def _rotation_metrics(reported: Reported) -> None:
    found: dict[str, Any] = reported.status.get("credentials") or {}
    times = {
        "rotated": found.get("rotatedAt"),
        "previous_valid_until": (found.get("previous") or {}).get("validUntil"),
    }
    for name, said in times.items():
        metric = reported.metrics.get(f"kindling_postgresql_credentials_{name}_timestamp_seconds")
        assert metric == (datetime.fromisoformat(said).timestamp() if said else None)


def _volume_metrics(reported: Reported) -> None:
    """The same as the status, which is compared with the server."""
    said: dict[str, Any] = reported.status.get("storage") or {}
    full = datetime.fromisoformat(said["fullAt"]).timestamp() if "fullAt" in said else None
    capacity = float(quantity(said["capacity"])) if "capacity" in said else None
    wanted = {
        "capacity_bytes": capacity,
        "used_bytes": said.get("usedBytes"),
        "full_timestamp_seconds": full,
    }
    for name, value in wanted.items():
        assert reported.metrics.get(f"kindling_postgresql_volume_{name}") == value, name


def _phase_column(reported: Reported) -> None:
    assert reported.cells["PHASE"] == ("up" if reported.facts["serves"] else "Failed")


def _version_column(reported: Reported) -> None:
    assert reported.cells["VERSION"] == reported.facts["version"]


_OF_ITEMS = {
    "name": _item_names,
    "ready": _item_ready,
    "reason": _item_reason,
    "message": _item_message,
    "reclaimPolicy": _item_policy,
}
_OF_A_PLAN = ("action", "object", "fields[]", "disruption", "message", "seconds")
_OF_THE_DATA = ("usedBytes", "measuredAt", "growthBytesPerHour", "growthSince", "fullAt")
_OF_A_VOLUME = ("capacity_bytes", "used_bytes", "full_timestamp_seconds")
_OF_A_LOGIN = ("login", "rotatedAt", "nextRotation")
_OF_SESSIONS = tuple(f"sessions[].{name}" for name in ("address", "application", "count"))
_OF_THE_LOGIN_BEFORE = ("login", "validUntil", "message", *_OF_SESSIONS)
_REFERENCE = ("apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath")

CLAIMS = KindClaims(
    gather=gather,
    metrics={
        "kindling_postgresql_certificate_expiration_timestamp_seconds": _end_metric,
        "kindling_postgresql_role_certificate_expiration_timestamp_seconds": _role_certificate_metric,
        "kindling_postgresql_credentials_rotated_timestamp_seconds": _rotation_metrics,
        "kindling_postgresql_credentials_previous_valid_until_timestamp_seconds": _rotation_metrics,
        **{f"kindling_postgresql_volume_{name}": _volume_metrics for name in _OF_A_VOLUME},
    },
    claims={
        **COMMON,
        "status.pgPhase": _phase,
        **{f"status.active.{name}": _active for name in _REFERENCE},
        "status.version": _version,
        "status.image": _image,
        "status.pendingRestart[]": _pending,
        "status.hba[]": _hba,
        **{f"status.initSQL.{name}": _init_sql for name in ("appliedAt", "message")},
        "status.systemIdentifier": _identifier,
        "status.lastRestartSeconds": _last_restart,
        **{f"status.inPlaceRestore.{name}": _in_place for name in ("name", "uid", "stoppedFor")},
        "status.storage.capacity": _capacity,
        **{f"status.storage.{name}": _used for name in _OF_THE_DATA},
        **{f"status.credentials.{name}": _credentials for name in _OF_A_LOGIN},
        **{f"status.credentials.previous.{name}": _credentials for name in _OF_THE_LOGIN_BEFORE},
        **{f"status.rotation.{name}": _credentials for name in Record._fields},
        **{f"status.idle.{name}": _idle for name in ("since", "stoppedAt", "wake", "wakingSince")},
        **{f"status.approvals[].{field}": _approvals for field in ("name", "disruption", "message")},
        "status.plan.disruption": _plan,
        **{f"status.plan.items[].{field}": _plan for field in _OF_A_PLAN},
        "status.binding.name": _binding,
        **{f"status.tls.{name}": _tls for name in ("active", "notAfter", "issuer", "message")},
        **{
            f"status.{what}[].{field}": claim(what)
            for what in ("roles", "databases")
            for field, claim in _OF_ITEMS.items()
        },
        "status.roles[].binding.name": _role_binding,
        **{
            f"status.bindingExports[].{field}": _exports
            for field in ("namespace", "name", "role", "ready", "reason", "message")
        },
        "status.roles[].clientCertificate.notAfter": _role_certificate,
        "status.databases[].extensions[].name": _extensions,
        "status.databases[].extensions[].version": _extensions,
        "column Phase": _phase_column,
        "column Version": _version_column,
    },
)
