"""spec.auth: who makes the password, and how the next one gets to caches and clients without a gap."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kindling.kinds.base import ExternalResult, RequeueAfter
from kindling.kinds.memcached import auth
from kindling.kinds.memcached.access import AccessRequest
from kindling.kube.resources import DEPLOYMENT, SECRET, Object, Ref

from tests.unit.operator.memcacheds import KIND, memcached, observed
from tests.unit.operator.secured import ON, Cache, answered, moment

NEW, OLD, REFUSED = (
    answered(login=True),
    answered(login=False),
    ExternalResult(ok=False, reason="LoginFailed", message="It refuses."),
)


def made(**spec: object) -> Cache:
    """With a login that all caches have."""
    cache = Cache(auth={**ON, **spec})
    cache.settle()
    cache.say(NEW, NEW)
    cache.settle()
    return cache


def users(cache: Cache) -> list[str]:
    return cache.secret("auth")["users"].splitlines()


def bound(cache: Cache) -> str:
    return cache.secret("binding")["password"]


@pytest.mark.parametrize("spec", [{}, {"auth": None}, {"auth": {"enabled": False}}])
def test_without_it_there_is_nothing_of_it(spec: Object) -> None:
    cr = memcached(**spec)
    assert [child.body for child in KIND.desired(cr, observed())] == [
        child.body for child in KIND.desired(memcached(), observed())
    ]
    assert SECRET not in {child.type for child in KIND.desired(cr, observed())}
    assert not KIND.secrets(cr)
    assert not KIND.watched_objects(cr)


def test_a_made_password_is_in_two_secrets_and_nowhere_else() -> None:
    cache = made()
    password = bound(cache)
    assert auth.FORM.fullmatch(password)
    assert len(password) == 32
    assert cache.secret("binding") == {
        "type": "memcached",
        "provider": "kindling",
        "host": "cache.ns.svc",
        "port": "11211",
        "username": "memcached",
        "password": password,
    }
    assert cache.secret("auth") == {"users": f"memcached:{password}\n", "password": password}
    others = [child.body for child in cache.desired() if child.type != SECRET]
    assert password not in str(others)
    assert password not in str(cache.report().status)
    assert password not in repr([probe.request for probe in KIND.probes(cache.cr, cache.world).values()])


def test_the_pod_gets_the_file_and_what_reads_it_again() -> None:
    cache = made()
    (workload,) = (child for child in cache.desired() if child.type == DEPLOYMENT)
    pod = workload.body["spec"]["template"]["spec"]
    server, reload = pod["containers"]
    assert "--auth-file=/etc/kindling/auth/users" in server["command"]
    assert "--enable-ssl" not in server["command"]
    assert reload["command"] == [
        "memcached-exporter",
        "reload",
        "--memcached=localhost:11211",
        "--users=/etc/kindling/auth/users",
    ]
    assert pod["shareProcessNamespace"] is True
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "cache-auth"
    assert [item["key"] for item in volume["secret"]["items"]] == ["users"]


def test_each_pod_is_asked_with_the_login_and_is_what_ready_waits_for() -> None:
    cache = made()
    request = KIND.probes(cache.cr, cache.world)["access/cache-0"].request
    assert isinstance(request, AccessRequest)
    assert (request.username, request.passwords, request.ca) == ("memcached", (bound(cache),), None)
    assert cache.ready()[:2] == ("True", "ReplicasReady")
    cache.say(NEW, None)
    assert cache.ready()[:2] == ("False", "Reconciling")
    cache.say(NEW, REFUSED)
    assert cache.ready() == ("False", "LoginFailed", "It refuses.")


def test_a_pod_of_before_is_not_asked_for_a_login() -> None:
    cache = made()
    for ref, body in cache.objects.items():
        if ref.name == "cache-1":
            del body["metadata"]["annotations"][auth.ANNOTATION]
    assert set(KIND.probes(cache.cr, cache.world)) == {"access/cache-0"}


def rotated(cache: Cache, request: str = "1") -> None:
    cache.cr["metadata"]["annotations"] = {auth.REQUEST: request}
    cache.settle()


def test_clients_get_a_new_password_once_all_caches_accept_it() -> None:
    cache = made()
    first = bound(cache)
    rotated(cache)
    new, old = users(cache)
    second = new.removeprefix("memcached:")
    assert (old, second != first) == (f"memcached:{first}", True)
    assert bound(cache) == first
    request = KIND.probes(cache.cr, cache.world)["access/cache-0"].request
    assert isinstance(request, AccessRequest)
    assert request.passwords == (second, first)

    for answers in ((NEW, OLD), (NEW, None), (NEW, REFUSED)):
        cache.say(*answers)
        cache.settle()
        assert (bound(cache), users(cache)) == (first, [new, old])
    cache.say(NEW, OLD)
    assert cache.ready()[0] == "True"
    assert "auth" not in cache.report().status

    cache.say(NEW, NEW)
    cache.settle()
    assert (bound(cache), users(cache)) == (second, [new, old])
    until = cache.report().status["auth"]["previousValidUntil"]
    assert moment(until) == cache.now + auth.PREVIOUS_VALID
    result = cache.report().result
    assert isinstance(result, RequeueAfter)
    assert result.seconds <= auth.PREVIOUS_VALID.total_seconds()

    cache.now += auth.PREVIOUS_VALID - timedelta(seconds=1)
    assert cache.step() == []
    cache.now += timedelta(seconds=1)
    cache.settle()
    assert (bound(cache), users(cache)) == (second, [new])
    assert "auth" not in cache.report().status


def test_each_value_of_the_annotation_asks_once() -> None:
    cache = made()
    rotated(cache)
    after = users(cache)
    cache.say(OLD, OLD)
    assert cache.step() == []
    rotated(cache, "1")
    assert users(cache) == after
    rotated(cache, "2")
    assert users(cache)[0] != after[0]
    # What clients have is never the one that is dropped.
    assert users(cache)[1] == f"memcached:{bound(cache)}"


def test_the_annotation_of_a_resource_that_is_made_with_it_asks_for_nothing() -> None:
    cache = Cache(auth=ON)
    cache.cr["metadata"]["annotations"] = {auth.REQUEST: "1"}
    cache.settle()
    assert len(users(cache)) == 1


def test_a_password_of_ones_own_and_a_change_of_it() -> None:
    cache = Cache(auth={**ON, "passwordSecretRef": {"name": "mine", "key": "word"}})
    assert [(watched.name, watched.namespace) for watched in KIND.watched_objects(cache.cr)] == [
        ("mine", "ns")
    ]
    assert "mine" in KIND.secrets(cache.cr)
    cache.put("mine", word="one")
    cache.settle()
    assert (bound(cache), users(cache)) == ("one", ["memcached:one"])
    cache.say(NEW, NEW)
    cache.put("mine", word="two")
    cache.settle()
    assert (bound(cache), users(cache)) == ("one", ["memcached:two", "memcached:one"])
    cache.say(NEW, NEW)
    cache.settle()
    assert (bound(cache), users(cache)) == ("two", ["memcached:two", "memcached:one"])
    cache.put("mine", word="one")  # back, while the one before is valid
    cache.settle()
    assert users(cache) == ["memcached:one", "memcached:two"]
    rotated(cache)
    assert users(cache)[0] == "memcached:one"


@pytest.mark.parametrize("lost", ["auth", "binding"])
def test_a_secret_that_somebody_deletes_comes_back_with_the_same_password(lost: str) -> None:
    cache = made()
    first = bound(cache)
    del cache.objects[Ref(SECRET, "ns", f"cache-{lost}")]
    cache.settle()
    assert (bound(cache), users(cache)) == (first, [f"memcached:{first}"])


def test_a_binding_that_is_lost_or_edited_amid_a_rotation_has_what_caches_accept() -> None:
    cache = made()
    first = bound(cache)
    rotated(cache)
    for edit in ("lost", "edited"):
        ref = Ref(SECRET, "ns", "cache-binding")
        if edit == "lost":
            del cache.objects[ref]
        else:
            cache.put("cache-binding", password="forged")
        cache.results = {}
        cache.settle()
        assert bound(cache) == first


def test_off_again_leaves_the_secrets_as_they_are() -> None:
    """The operator deletes no Secret of a server."""
    cache = made()
    cache.cr["spec"]["auth"] = {"enabled": False}
    made_now = {child.ref.name: child for child in cache.desired() if child.type == SECRET}
    assert set(made_now) == {"cache-auth", "cache-binding"}
    assert all(child.create_only and "data" not in child.body for child in made_now.values())
    assert "binding" not in cache.report().status


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (None, "SecretNotFound", "no such Secret exists"),
        ("", "InvalidPassword", "not one line"),
        ("a b", "InvalidPassword", "without a space"),
        ("ä", "InvalidPassword", "of ASCII"),
        ("x" * 129, "InvalidPassword", "1 to 128"),
        ("a\nb", "InvalidPassword", "not one line"),
    ],
)
def test_what_is_no_password_is_named_and_not_shown(value: str | None, reason: str, words: str) -> None:
    cache = Cache(auth={**ON, "passwordSecretRef": {"name": "mine"}})
    if value is not None:
        cache.put("mine", password=value)
    found = KIND.validate(cache.cr, cache.world)
    assert found is not None
    assert (found.reason, words in found.message) == (reason, True)
    assert "spec.auth.passwordSecretRef 'mine'" in found.message
    assert not value or len(value) < 2 or value not in found.message


@pytest.mark.parametrize("value", ["x", "x" * 128, "a:b", "!\"'\\~"])
def test_what_is_a_password_is_taken(value: str) -> None:
    cache = Cache(auth={**ON, "passwordSecretRef": {"name": "mine"}})
    cache.put("mine", password=value)
    assert KIND.validate(cache.cr, cache.world) is None
    cache.settle()
    assert (bound(cache), auth.stored(cache.cr, cache.world)) == (value, [value])


@pytest.mark.parametrize("suffix", ["auth", "binding", "server-tls", "server-ca"])
def test_a_secret_of_its_own_is_refused(suffix: str) -> None:
    cache = Cache(auth={**ON, "passwordSecretRef": {"name": f"cache-{suffix}"}})
    found = KIND.validate(cache.cr, cache.world)
    assert found is not None
    assert (found.reason, f"'cache-{suffix}'" in found.message) == ("InvalidSpec", True)
