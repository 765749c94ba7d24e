"""Applications go on to another login, and none of them is without a valid one at any moment."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from kindling.engine.store import key_of
from kindling.kinds.base import ExternalResult, Observed
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import logins, rotation
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.logins import LoginsRequest
from kindling.kube.resources import SECRET, Object, Ref

from tests.model.backup_world import EACH_FAULT
from tests.model.faults import Fault
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")
BINDING = Ref(SECRET, "ns", "db-binding")
ROTATION = {"rotation": {"overlap": "1h"}}
IDENTIFIER = "7000000000000000001"


class Server:
    """Roles with their passwords, as far as they may log in, and who is connected."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.roles: dict[str, str] = {}
        self.sessions: dict[str, int] = {}
        self.address = "10.0.0.7"
        self.refuses = ""
        self.asked = 0
        world.answer = self.answer

    def answer(self, request: Any) -> ExternalResult:
        if isinstance(request, LoginsRequest):
            return self._look(request)
        if not isinstance(request, Login):
            return ExternalResult(ok=True)
        if request.user == self.refuses:
            return ExternalResult(ok=False, reason="NameConflict", message="is another's.")
        if not request.check:
            self.roles[request.user] = request.password
        ok = self.roles.get(request.user) == request.password
        facts = {"login": ok, "system_identifier": IDENTIFIER}
        return ExternalResult(
            ok=ok, reason="" if ok else "LoginFailed", message="" if ok else "No.", facts=facts
        )

    def _look(self, request: LoginsRequest) -> ExternalResult:
        self.asked += 1
        for name in request.disable:
            if not self.sessions.get(name):
                self.roles.pop(name, None)
        sessions = [
            {"login": name, "address": self.address, "application": "shop", "count": count}
            for name, count in sorted(self.sessions.items())
            if count and name in request.logins and name != request.login
        ]
        enabled = [name for name in request.logins if name in self.roles]
        return ExternalResult(ok=True, facts={"enabled": enabled, "sessions": sessions})


def bound(world: World) -> tuple[str, str]:
    data = world.api.objects[BINDING]["data"]
    user, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return user, password


def made(**rotation: Any) -> tuple[World, Server]:
    """One that has served before rotations were asked for, as most have."""
    world = World()
    server = Server(world)
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    world.api.edit(CR, {"spec": {"credentials": {"rotation": {"overlap": "1h", **rotation}}}})
    world.settle()
    return world, server


def said(world: World) -> Object:
    found: Object = world.status(KIND, "db").get("credentials", {})
    return found


def rotate(world: World, value: str = "now") -> None:
    world.api.edit(CR, {"metadata": {"annotations": {"kindling.dev/rotate": value}}})
    world.settle()


def passes(world: World, **time: float) -> None:
    world.now += timedelta(**time)
    world.resync()
    for _ in range(4):  # each step of a rotation is looked for by a timer
        world.wait_long()


def turn(world: World, **time: float) -> None:
    """Exactly so much time passes, and the resource has its turn a few times."""
    world.now += timedelta(**time)
    for _ in range(4):
        world.queue.add(key_of(CR))
        world.settle()


def is_ready(world: World) -> bool:
    return find_condition(world.status(KIND, "db"), "Ready").get("status") == "True"


def test_the_default_user_logs_in_until_the_first_rotation() -> None:
    world, server = made()
    assert bound(world) == ("postgres", server.roles["postgres"])
    assert said(world) == {"login": "postgres"}
    assert world.status(KIND, "db")["rotation"]["number"] == 0
    assert world.writes_at_rest() == 0


def test_without_rotation_nothing_is_asked_and_nothing_recorded() -> None:
    world = World()
    server = Server(world)
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    world.wait_long()
    assert server.asked == 0
    assert not {"rotation", "credentials"} & set(world.status(KIND, "db"))


def test_a_rotation_is_a_new_login_while_the_one_before_stays_valid() -> None:
    world, server = made()
    before = bound(world)
    rotate(world)
    after = bound(world)
    assert after[0] == "postgres_a"
    assert after[1] not in (before[1], "")
    assert dict([before, after]) == server.roles, "both are valid"
    assert is_ready(world)
    assert said(world)["login"] == "postgres_a"
    assert said(world)["previous"]["login"] == "postgres"
    ready = find_condition(world.status(KIND, "db"), "Ready")
    assert ready["message"] == "Login postgres_a of the default user can log in through the Service."
    assert world.writes_at_rest() == 0
    data = {
        key: base64.b64decode(value).decode() for key, value in world.api.objects[BINDING]["data"].items()
    }
    assert data["database"] == "postgres"
    assert data["uri"] == f"postgresql://postgres_a:{after[1]}@db.ns.svc:5432/postgres"


def test_the_login_before_is_disabled_after_its_overlap() -> None:
    world, server = made()
    rotate(world)
    assert said(world)["previous"]["validUntil"] == "2026-01-02T01:00:00Z"
    turn(world, minutes=59)
    assert set(server.roles) == {"postgres", "postgres_a"}
    turn(world, minutes=1)
    assert set(server.roles) == {"postgres_a"}
    assert "previous" not in said(world)
    assert world.writes_at_rest() == 0


def test_three_rotations_have_two_logins_and_no_password_twice() -> None:
    world, server = made()
    seen = [bound(world)]
    for count in range(3):
        rotate(world, f"request {count}")
        seen.append(bound(world))
        passes(world, hours=2)
    assert [user for user, _ in seen] == ["postgres", "postgres_a", "postgres_b", "postgres_a"]
    assert len({password for _, password in seen}) == 4
    assert server.roles == dict(seen[-1:])


def test_a_session_keeps_its_login_and_is_named() -> None:
    world, server = made()
    server.sessions["postgres"] = 2
    rotate(world)
    passes(world, hours=2)
    assert set(server.roles) == {"postgres", "postgres_a"}
    previous = said(world)["previous"]
    assert previous["sessions"] == [{"address": "10.0.0.7", "application": "shop", "count": 2}]
    assert "status.podIP=10.0.0.7" in previous["message"]
    server.address = "local"
    passes(world, minutes=2)
    assert "They are in the server's own Pod, db-0." in said(world)["previous"]["message"]
    server.address = "10.0.0.7"
    passes(world, minutes=2)
    assert is_ready(world)
    rotate(world, "another")
    assert bound(world)[0] == "postgres_a", "there are two, and one of them is in use"
    passes(world, minutes=2)
    assert "A rotation is due" in said(world)["previous"]["message"]
    server.sessions.clear()
    passes(world, minutes=2)
    assert bound(world)[0] == "postgres_b"
    passes(world, hours=2)
    assert set(server.roles) == {"postgres_b"}


def test_a_session_of_before_the_overlaps_end_is_not_said_to_keep_the_login() -> None:
    """The server is asked once a minute, and by then whoever it was may use the next login."""
    world, server = made()
    server.sessions["postgres"] = 2
    rotate(world)
    turn(world, minutes=59, seconds=30)
    cr, known = world.api.objects[CR], world.reconciler.dependencies.external_state.results(key_of(CR))
    ends = datetime.fromisoformat(said(world)["previous"]["validUntil"])
    for at, lasts in ((ends - timedelta(seconds=1), False), (ends, True)):
        answer = replace(known[logins.MEMBER], at=at)
        observed = Observed(
            objects=world.api.objects, now=ends, entropy=b"", results={**known, logins.MEMBER: answer}
        )
        previous = rotation.status(cr, observed)["credentials"]["previous"]
        assert [one["count"] for one in previous["sessions"]] == [2]
        assert ("message" in previous) is lasts


def test_applications_keep_what_they_have_until_the_server_lets_the_new_login_in() -> None:
    world, server = made()
    before = bound(world)
    server.refuses = "postgres_a"
    rotate(world)
    assert bound(world) == before
    assert not is_ready(world)
    passes(world, hours=2)
    assert bound(world) == before
    assert server.roles == dict([before]), "nobody has the new one, so the overlap has not begun"
    server.refuses = ""
    passes(world, minutes=1)
    assert bound(world)[0] == "postgres_a"
    assert is_ready(world)
    assert set(server.roles) == {"postgres", "postgres_a"}


def test_a_schedule_rotates_and_begins_when_it_is_there() -> None:
    world, _ = made(schedule="0 3 1 * *", timeZone="Europe/Berlin")
    assert bound(world)[0] == "postgres"
    assert said(world)["nextRotation"] == "2026-02-01T02:00:00Z"
    passes(world, days=29)
    assert bound(world)[0] == "postgres"
    world.now = datetime.fromisoformat("2026-02-01T02:00:01Z")
    passes(world, seconds=1)
    assert bound(world)[0] == "postgres_a"
    assert said(world)["nextRotation"] == "2026-03-01T02:00:00Z"
    assert said(world)["rotatedAt"].startswith("2026-02-01T02:")


def test_an_annotation_that_was_there_first_asks_for_nothing() -> None:
    world = World()
    Server(world)
    cr = resource(KIND, "db", credentials=ROTATION)
    cr["metadata"]["annotations"] = {"kindling.dev/rotate": "at birth"}
    world.api.put(KIND.type, cr)
    world.settle()
    world.wait_long()
    assert bound(world)[0] == "postgres"
    rotate(world, "later")
    assert bound(world)[0] == "postgres_a"


def test_without_a_rotation_so_far_nothing_is_remembered() -> None:
    world, server = made()
    world.api.edit(CR, {"spec": {"credentials": None}})
    world.settle()
    assert not {"rotation", "credentials"} & set(world.status(KIND, "db"))
    assert world.writes_at_rest() == 0
    assert bound(world) == ("postgres", server.roles["postgres"])


def test_without_rotation_the_last_login_stays_and_those_before_go() -> None:
    world, server = made()
    rotate(world)
    world.api.edit(CR, {"spec": {"credentials": None}})
    world.settle()
    passes(world, hours=25)
    assert server.roles == dict([bound(world)])
    assert bound(world)[0] == "postgres_a"


def test_a_given_password_is_the_default_users_and_the_logins_go() -> None:
    world, server = made()
    rotate(world)
    passes(world, hours=2)
    world.api.edit(CR, {"spec": {"credentials": None, "password": "given"}})
    world.settle()
    assert bound(world) == ("postgres", "given")
    passes(world, hours=25)
    assert server.roles == {"postgres": "given"}


def test_logins_that_came_with_the_data_are_disabled() -> None:
    """Of a server whose data is older than its last rotation: a restore, say."""
    world, server = made()
    rotate(world)
    passes(world, hours=2)
    server.roles |= {"postgres": "old", "postgres_b": "older"}
    world.restart()
    world.settle()
    passes(world, minutes=2)
    assert server.roles == dict([bound(world)])


def test_a_stopped_or_paused_database_is_not_rotated() -> None:
    for field in ({"hibernate": True}, {"paused": True}):
        world, _ = made()
        world.api.edit(CR, {"spec": field})
        world.settle()
        rotate(world)
        assert world.status(KIND, "db")["rotation"]["number"] == 0
        world.api.edit(CR, {"spec": dict.fromkeys(field)})
        world.settle()
        passes(world, minutes=1)
        assert bound(world)[0] == "postgres_a"


@pytest.mark.parametrize("spec", [{"paused": True}, {"mode": "Plan"}])
def test_a_paused_database_is_not_looked_at_for_a_decision_that_nobody_stores(spec: Object) -> None:
    """Ready as it is, it would be reconciled five times a second, for as long as it is paused."""
    world = World()
    Server(world)
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    world.api.edit(CR, {"spec": {**spec, "credentials": ROTATION}})
    world.settle()
    assert is_ready(world)
    observed = Observed(objects=world.api.objects, now=world.now, entropy=b"")
    assert rotation.decide(world.api.objects[CR], observed)
    assert rotation.seconds_left(world.api.objects[CR], observed) is None


@EACH_FAULT
@pytest.mark.parametrize("far", range(7))
def test_whatever_fails_there_is_always_a_valid_login(far: int, fault: Fault) -> None:
    world, server = made()
    world.faulty.writes.extend([*[None] * far, fault])
    rotate(world)
    user, password = bound(world)
    assert server.roles[user] == password
    passes(world, minutes=5)
    assert bound(world)[0] == "postgres_a"
    passes(world, hours=2)
    assert server.roles == dict([bound(world)])
    assert world.status(KIND, "db")["rotation"]["number"] == 1
