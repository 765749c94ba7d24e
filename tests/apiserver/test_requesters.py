"""Who may write a resource gets nothing by it that he may not have: the policies, on the real API server.

Each request is made by a user who may write our kinds in a namespace and has, beside that, the right that
it needs or not. What is refused names the field, its value and the remedy, and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.admission import COMMAND_PARAMETERS, SECRETS
from tests.apiserver.support.accounts import PolicyRule
from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import (
    BACKUP,
    KINDS,
    MEMCACHED,
    MY_CUSTOM_RESOURCE,
    POSTGRESQL,
    POSTGRESQL_EXAMPLE,
    PULSAR_CONSUMER,
    RESTORE,
    SAMPLES,
    Kind,
    kind_of,
)
from tests.apiserver.support.policed import CREATE_PODS, CREATE_SERVICES, User, Users, may_get, policed

PODS_REMEDY = "ask for the right to create pods"
SERVICES_REMEDY = "ask for the right to create services"
CERTIFICATES_REMEDY = "ask for the right to create certificates"
CREATE_CERTIFICATES: PolicyRule = {
    "apiGroups": ["cert-manager.io"],
    "resources": ["certificates"],
    "verbs": ["create"],
}
SECRET_REMEDY = "ask for the right to get secrets of that name"
REFUSED_BY_CRD = (
    "archive_cleanup_command",
    "archive_command",
    "archive_library",
    "recovery_end_command",
    "restore_command",
    "ssl_passphrase_command",
)


@pytest.fixture(scope="module")
def users(plane: ControlPlane, api: Api) -> Iterator[Users]:
    with policed(plane, api, prefix="requester") as made:
        yield made


@pytest.fixture(scope="module")
def nobody(users: Users) -> User:
    """One who may write our kinds, and no more."""
    return users.new()


def password(name: str = "stripe", key: str = "api-key") -> Json:
    return {"passwordSecretRef": {"name": name, "key": key}}


def role(name: str = "stripe", role: str = "app", **changes: object) -> Json:
    reference = {"name": name, "key": "api-key"}
    return {"roles": [{"name": role, "login": True, "passwordSecretRef": reference, **changes}]}


def token(name: str = "stripe") -> Json:
    return {"auth": {"tokenSecretRef": {"name": name}}}


def issuer(url: str) -> Json:
    return {"auth": {"oauth2": {"issuerURL": url, "credentialsSecretRef": {"name": "stripe"}}}}


def variables(*names: str) -> Json:
    """An env with one variable for each Secret."""
    refs = [{"secretKeyRef": {"name": name, "key": "key"}} for name in names]
    return {"env": [{"name": f"V{number}", "valueFrom": ref} for number, ref in enumerate(refs)]}


def refused(answer: Response, *words: str) -> None:
    assert answer.status == 403, f"{answer.status}: {answer.message}"
    assert "kindling-" in answer.message, "not by RBAC, by the policy"
    for word in words:
        assert word in answer.message


EACH_SECRET = [
    pytest.param(POSTGRESQL, password(), "spec.passwordSecretRef.name", (), id="technotuesday"),
    pytest.param(POSTGRESQL_EXAMPLE, password(), "spec.passwordSecretRef.name", (), id="example"),
    *(
        pytest.param(kind, {"tls": {"secretName": "stripe"}}, "spec.tls.secretName", (), id=f"tls-{kind.id}")
        for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE)
    ),
    *(
        pytest.param(kind, role(), "spec.roles[app].passwordSecretRef.name", (), id=f"role-{kind.id}")
        for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE)
    ),
    pytest.param(PULSAR_CONSUMER, token(), "spec.auth.tokenSecretRef.name", (), id="token"),
    pytest.param(
        PULSAR_CONSUMER,
        {"auth": {"basicSecretRef": {"name": "stripe"}}},
        "spec.auth.basicSecretRef.name",
        (),
        id="basic",
    ),
    pytest.param(
        PULSAR_CONSUMER, issuer("https://a"), "spec.auth.oauth2.credentialsSecretRef.name", (), id="oauth2"
    ),
    *(
        pytest.param(
            PULSAR_CONSUMER,
            {"serverAddress": "pulsar+ssl://a", "tls": {field: {"name": "stripe"}}},
            f"spec.tls.{field}.name",
            (),
            id=field,
        )
        for field in ("caSecretRef", "clientCertificateSecretRef")
    ),
    pytest.param(
        PULSAR_CONSUMER,
        variables("stripe"),
        "spec.env[V0].valueFrom.secretKeyRef.name",
        (CREATE_PODS,),
        id="variable",
    ),
    *(
        pytest.param(
            kind,
            {"imagePullSecrets": [{"name": "stripe"}]},
            "spec.imagePullSecrets[stripe].name",
            (),
            id=f"pull-{kind.id}",
        )
        for kind in KINDS.values()
        if "imagePullSecrets" in kind.schema["properties"]["spec"]["properties"]
    ),
]


@pytest.mark.parametrize(("kind", "spec", "field", "beside"), EACH_SECRET)
def test_a_secret_is_named_by_those_who_may_get_it(
    users: Users, kind: Kind, spec: Json, field: str, beside: tuple[PolicyRule, ...]
) -> None:
    user = users.new(may_get("secrets", "another"), *beside)
    refused(user.creates(kind, spec), f"{field} 'stripe'", f"namespace '{user.namespace}'", SECRET_REMEDY)
    assert user.admin.get(user.path(kind, "one")).status == 404
    users.new(may_get("secrets", "stripe"), *beside).creates(kind, spec).accepted()
    users.new(may_get("secrets"), *beside).creates(kind, spec).accepted()


@pytest.mark.parametrize(("kind", "spec", "field", "beside"), EACH_SECRET)
def test_an_edit_is_asked_for_as_a_creation_is(
    users: Users, kind: Kind, spec: Json, field: str, beside: tuple[PolicyRule, ...]
) -> None:
    user = users.new(*beside)
    user.creates(kind, {}).accepted()
    refused(user.edits(kind, {"spec": spec}), f"{field} 'stripe'")
    able = users.new(may_get("secrets", "stripe"), *beside)
    able.creates(kind, {}).accepted()
    able.edits(kind, {"spec": spec}).accepted()


def test_whether_the_secret_exists_makes_no_difference(users: Users) -> None:
    user = users.new()
    secret = {"metadata": {"name": "stripe"}, "stringData": {"api-key": "canary-value"}}
    missing = user.creates(POSTGRESQL, password(), dry_run=True)
    user.admin.create(f"/api/v1/namespaces/{user.namespace}/secrets", secret).accepted()
    there = user.creates(POSTGRESQL, password(), dry_run=True)
    refused(there)
    assert (there.status, there.message) == (missing.status, missing.message)


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (POSTGRESQL, {"image": "evil:1"}, "spec.image 'evil:1'"),
        (POSTGRESQL_EXAMPLE, {"image": "evil:1"}, "spec.image 'evil:1'"),
        (PULSAR_CONSUMER, {"image": "evil:1"}, "spec.image 'evil:1'"),
        (
            PULSAR_CONSUMER,
            {"handler": {"python": {"configMapRef": {"name": "evil"}, "handler": "a:b"}}},
            "spec.handler.python.configMapRef.name 'evil'",
        ),
        (
            PULSAR_CONSUMER,
            {"handler": {"http": {"url": "http://evil"}}},
            "spec.handler.http.url 'http://evil'",
        ),
        (
            PULSAR_CONSUMER,
            {"handler": {"http": {"serviceRef": {"name": "evil", "port": 80}}}},
            "spec.handler.http.serviceRef.name 'evil'",
        ),
        (
            PULSAR_CONSUMER,
            {"handler": {"container": {"image": "evil:1"}}},
            "spec.handler.container.image 'evil:1'",
        ),
        (PULSAR_CONSUMER, {"env": [{"name": "LD_PRELOAD", "value": "canary.so"}]}, "spec.env[LD_PRELOAD]"),
        *(
            (kind, {"podTemplate": {part: field}}, "spec.podTemplate decides about the Pods")
            for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE, MEMCACHED, PULSAR_CONSUMER)
            for part, field in (
                ("metadata", {"labels": {"app": "canary"}}),
                ("spec", {"tolerations": [{"operator": "Exists"}]}),
                ("spec", {"serviceAccountName": "canary"}),
            )
        ),
        *(
            (POSTGRESQL, {"parameters": {name: "canary"}}, f"spec.parameters.{name}")
            for name in COMMAND_PARAMETERS
            if name not in REFUSED_BY_CRD
        ),
    ],
)
def test_what_runs_in_pods_is_chosen_by_those_who_may_create_pods(
    users: Users, nobody: User, kind: Kind, spec: Json, message: str
) -> None:
    answer = nobody.creates(kind, spec, dry_run=True)
    refused(answer, message, f"namespace {nobody.namespace}", PODS_REMEDY)
    assert "canary" not in answer.message, "values may be secrets, and are written to audit logs"
    able = users.new(CREATE_PODS)
    able.creates(kind, spec).accepted()
    # The same edit, by one who may not; then another value.
    able.creates(kind, {}, name="plain").accepted()
    nobody.finds(kind, {}, name=(name := able.namespace))
    refused(nobody.edits(kind, {"spec": spec}, name=name), message)


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        *(
            (
                kind,
                {"metadata": {"annotations": {"external-dns.alpha.kubernetes.io/hostname": "canary.test"}}},
            )
            for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE, MEMCACHED)
        ),
        *(
            (kind, {"spec": {"type": type}})
            for kind in (POSTGRESQL, POSTGRESQL_EXAMPLE)
            for type in ("NodePort", "LoadBalancer")
        ),
    ],
)
def test_how_a_service_is_reached_is_chosen_by_those_who_may_create_services(
    users: Users, nobody: User, kind: Kind, template: Json
) -> None:
    spec: Json = {"serviceTemplate": template}
    said = (
        "spec.serviceTemplate decides about the Service",
        f"namespace {nobody.namespace}",
        SERVICES_REMEDY,
    )
    answer = nobody.creates(kind, spec, dry_run=True)
    refused(answer, *said)
    assert "canary" not in answer.message
    refused(users.new(CREATE_PODS).creates(kind, spec), "serviceTemplate", SERVICES_REMEDY)
    able = users.new(CREATE_SERVICES)
    able.creates(kind, spec).accepted()
    # The same edit, by one who may not; then one that leaves it as it is, and one that takes it out.
    nobody.finds(kind, {}, name=(name := able.namespace))
    refused(nobody.edits(kind, {"spec": spec}, name=name), *said)
    nobody.finds(kind, spec, name=(name := f"{able.namespace}-set"))
    nobody.edits(kind, {"spec": {"progressDeadlineSeconds": 60}}, name=name).accepted()
    refused(
        nobody.edits(kind, {"spec": {"serviceTemplate": {"metadata": {"labels": {"a": "b"}}}}}, name=name),
        *said,
    )
    nobody.edits(kind, {"spec": {"serviceTemplate": None}}, name=name).accepted()


@pytest.mark.parametrize("kind", [POSTGRESQL, POSTGRESQL_EXAMPLE], ids=lambda kind: kind.id)
def test_a_certificate_is_asked_for_by_those_who_may_create_certificates(
    users: Users, nobody: User, kind: Kind
) -> None:
    spec: Json = {"tls": {"issuerRef": {"name": "private-ca"}}}
    said = ("spec.tls.issuerRef.name 'private-ca'", f"namespace '{nobody.namespace}'", CERTIFICATES_REMEDY)
    refused(nobody.creates(kind, spec, dry_run=True), *said)
    refused(users.new(CREATE_PODS).creates(kind, spec), CERTIFICATES_REMEDY)
    able = users.new(CREATE_CERTIFICATES)
    able.creates(kind, spec).accepted()
    # The same edit, by one who may not; then one that leaves it as it is, and one that takes it out.
    nobody.finds(kind, {}, name=(name := able.namespace))
    refused(nobody.edits(kind, {"spec": spec}, name=name), *said)
    nobody.finds(kind, spec, name=(name := f"{able.namespace}-set"))
    nobody.edits(kind, {"spec": {"progressDeadlineSeconds": 60}}, name=name).accepted()
    other: Json = {"tls": {"issuerRef": {"kind": "ClusterIssuer"}}}
    refused(nobody.edits(kind, {"spec": other}, name=name), *said)
    nobody.edits(kind, {"spec": {"tls": None}}, name=name).accepted()


@pytest.mark.parametrize("kind", [POSTGRESQL, POSTGRESQL_EXAMPLE], ids=lambda kind: kind.id)
@pytest.mark.parametrize(("role", "secret"), [("", "one-binding"), ("shop_app", "one-role-shop-app")])
def test_a_binding_is_given_by_those_who_may_read_it(
    users: Users, nobody: User, kind: Kind, role: str, secret: str
) -> None:
    """Else the right to edit a database would be that to read its password, in a namespace of one's own."""
    item = {"namespace": "mine", "name": "import", **({"role": role} if role else {})}
    spec: Json = {"bindingExports": [item]}
    said = (f"spec.bindingExports[mine/import] '{secret}'", f"namespace '{nobody.namespace}'", SECRET_REMEDY)
    refused(nobody.creates(kind, spec, dry_run=True), *said)
    refused(users.new(may_get("secrets", "another"), CREATE_PODS).creates(kind, spec), f"'{secret}'")
    users.new(may_get("secrets")).creates(kind, spec).accepted()
    able = users.new(may_get("secrets", secret))
    able.creates(kind, spec).accepted()
    # An edit of it, by one who may not; then one that leaves it as it is, and one that takes it out.
    user = users.new()
    user.finds(kind, {})
    refused(user.edits(kind, {"spec": spec}), f"'{secret}'", SECRET_REMEDY)
    user = users.new()
    user.finds(kind, spec)
    user.edits(kind, {"spec": {"progressDeadlineSeconds": 60}}).accepted()
    more = {"bindingExports": [item, {**item, "namespace": "another"}]}
    refused(user.edits(kind, {"spec": more}), f"spec.bindingExports[another/import] '{secret}'")
    other = {"bindingExports": [{"namespace": "mine", "name": "import", "role": "another"}]}
    refused(user.edits(kind, {"spec": other}), "'one-role-another'")
    user.edits(kind, {"spec": {"bindingExports": None}}).accepted()


@pytest.mark.parametrize("name", REFUSED_BY_CRD)
def test_some_parameters_nobody_may_set(users: Users, name: str) -> None:
    answer = users.new(CREATE_PODS).creates(POSTGRESQL, {"parameters": {name: "true"}})
    assert answer.status == 422
    assert name in answer.message


def test_the_rest_needs_no_other_right(nobody: User) -> None:
    plain: list[tuple[Kind, Json]] = [
        (POSTGRESQL, {}),
        (POSTGRESQL_EXAMPLE, {"password": "canary", "version": "17", "storage": {"size": "2Gi"}}),
        (POSTGRESQL, {"parameters": {"work_mem": "8MB", "auto_explain.log_min_duration": 5}}),
        (MEMCACHED, {"size": 3, "memoryMB": 128}),
        (PULSAR_CONSUMER, {"replicas": 3}),
    ]
    for number, (kind, spec) in enumerate(plain):
        nobody.creates(kind, spec, name=f"plain-{number}").accepted()


def test_an_edit_is_allowed_that_does_not_change_the_restricted_fields(users: Users) -> None:
    user = users.new()
    placed = {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    user.finds(
        POSTGRESQL, {**password(), **placed, "image": "mine:1", "parameters": {"jit_provider": "mine"}}
    )
    user.edits(POSTGRESQL, {"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}}).accepted()
    user.edits(POSTGRESQL, {"spec": {"parameters": {"work_mem": "8MB"}, "paused": True}}).accepted()
    refused(user.edits(POSTGRESQL, {"spec": password(key="another")}), "'stripe'")
    refused(user.edits(POSTGRESQL, {"spec": {"parameters": {"jit_provider": "other"}}}), "jit_provider")
    user.edits(POSTGRESQL, {"spec": {"image": None, "parameters": {"jit_provider": None}}}).accepted()
    refused(
        user.edits(POSTGRESQL, {"spec": {"podTemplate": {"spec": {"nodeSelector": None}}}}), "podTemplate"
    )
    user.edits(POSTGRESQL, {"spec": {"podTemplate": None}}).accepted()
    user.edits(POSTGRESQL, {"spec": {"passwordSecretRef": None}}).accepted()
    refused(user.edits(POSTGRESQL, {"spec": password()}), "'stripe'")

    env = [*variables("stripe")["env"], {"name": "PLAIN", "value": "x"}]
    user.finds(PULSAR_CONSUMER, {**token(), "env": env})
    user.edits(PULSAR_CONSUMER, {"spec": {"replicas": 2, "env": [*reversed(env)]}}).accepted()
    user.edits(PULSAR_CONSUMER, {"spec": {"env": env[:1]}}).accepted()
    refused(user.edits(PULSAR_CONSUMER, {"spec": {"env": env}}), "spec.env[PLAIN]")


@pytest.mark.parametrize(
    "address", [{"serverAddress": "pulsar://mine:6650"}, {"adminURL": "http://mine:8080"}], ids=str
)
def test_a_secret_that_stands_is_not_sent_elsewhere_by_others(users: Users, address: Json) -> None:
    user = users.new()
    user.finds(PULSAR_CONSUMER, token())
    elsewhere = {"spec": address}
    refused(user.edits(PULSAR_CONSUMER, elsewhere), "spec.auth.tokenSecretRef.name 'stripe'", SECRET_REMEDY)
    able = users.new(may_get("secrets", "stripe"))
    able.finds(PULSAR_CONSUMER, token())
    able.edits(PULSAR_CONSUMER, elsewhere).accepted()


def test_a_clients_secret_that_stands_is_not_sent_to_another_issuer_by_others(users: Users) -> None:
    user, elsewhere = users.new(), {"spec": issuer("https://mine")}
    user.finds(PULSAR_CONSUMER, issuer("https://theirs"))
    words = "spec.auth.oauth2.credentialsSecretRef.name 'stripe'"
    refused(user.edits(PULSAR_CONSUMER, elsewhere), words, SECRET_REMEDY)
    able = users.new(may_get("secrets", "stripe"))
    able.finds(PULSAR_CONSUMER, issuer("https://theirs"))
    able.edits(PULSAR_CONSUMER, elsewhere).accepted()


@pytest.mark.parametrize("elsewhere", [{"targetURL": "s3://mine"}, {"endpointURL": "https://mine"}])
def test_a_stores_keys_that_stand_are_not_used_elsewhere_by_others(users: Users, elsewhere: Json) -> None:
    user = users.new()
    user.finds(BACKUP, {})
    user.edits(BACKUP, {"spec": {"suspend": True}}).accepted()
    refused(user.edits(BACKUP, {"spec": elsewhere}), "spec.credentialsSecretRef.name 'store'", SECRET_REMEDY)
    able = users.new(may_get("secrets", "store"))
    able.finds(BACKUP, {})
    able.edits(BACKUP, {"spec": elsewhere}).accepted()


QUERIES = [{"database": "a", "sql": "SELECT 1", "expect": "1"}]
PROOF: Json = {"into": "Verify", "verify": {"storage": {"size": "1Gi"}, "queries": QUERIES}}


@pytest.mark.parametrize("into", [{}, PROOF], ids=["new", "verify"])
@pytest.mark.parametrize("field", ["credentialsSecretRef", "caSecretRef", "encryption.passphraseSecretRef"])
def test_a_store_is_read_by_those_who_may_get_what_opens_it(users: Users, field: str, into: Json) -> None:
    """Whoever may get all of it may read the data, and so ask for anything of it."""
    named: Json = {"name": "stripe"}
    for part in reversed(field.split(".")):
        named = {part: named}
    source = {
        "backupRef": None,
        "targetURL": "s3://bucket/shop/db/7300000000000000001",
        "credentialsSecretRef": {"name": "store"},
        **named,
    }
    user = users.new(may_get("secrets", "store"))
    spec = {"source": source, **into}
    refused(user.creates(RESTORE, spec), f"spec.source.{field}.name 'stripe'", SECRET_REMEDY)
    able = users.new(may_get("secrets", "store"), may_get("secrets", "stripe"))
    able.creates(RESTORE, spec).accepted()


@pytest.mark.parametrize(
    ("kind", "into"), [(BACKUP, {}), (RESTORE, {}), (RESTORE, PROOF)], ids=["backup", "restore", "verify"]
)
def test_a_claim_is_named_by_those_who_may_create_pods(users: Users, kind: Kind, into: Json) -> None:
    """Whoever may create Pods may mount any claim of the namespace."""
    url, field = "pvc://shelf/x", "spec.targetURL"
    spec: Json = {"targetURL": url, "credentialsSecretRef": None}
    if kind == RESTORE:
        url, field = "pvc://shelf/x/ns/db/7300000000000000001", "spec.source.targetURL"
        spec = {"source": {"backupRef": None, "targetURL": url}, **into}
    nobody, able = users.new(), users.new(CREATE_PODS)
    refused(nobody.creates(kind, spec), f"{field} '{url}'", f"namespace '{nobody.namespace}'", PODS_REMEDY)
    able.creates(kind, spec).accepted()
    if kind == BACKUP:
        nobody.finds(BACKUP, spec)
        nobody.edits(BACKUP, {"spec": {"suspend": True}}).accepted()
        refused(
            nobody.edits(BACKUP, {"spec": {"targetURL": "pvc://other/x"}}), "'pvc://other/x'", PODS_REMEDY
        )


def test_another_image_is_not_given_a_secret_by_one_who_may_only_create_pods(users: Users) -> None:
    user = users.new(CREATE_PODS)
    user.finds(PULSAR_CONSUMER, {**token(), **variables("another")})
    refused(user.edits(PULSAR_CONSUMER, {"spec": {"image": "mine:1"}}), "'stripe'")
    user.admin.merge(user.path(PULSAR_CONSUMER, "one"), {"spec": {"auth": None}}).accepted()
    refused(user.edits(PULSAR_CONSUMER, {"spec": {"image": "mine:1"}}), "'another'")


def test_other_code_is_not_given_a_secret_by_one_who_may_only_create_pods(users: Users) -> None:
    user = users.new(CREATE_PODS)
    user.finds(PULSAR_CONSUMER, {**token(), **variables("another")})
    python = {"python": {"configMapRef": {"name": "mine"}, "handler": "a:b"}}
    refused(user.edits(PULSAR_CONSUMER, {"spec": {"handler": python}}), "'stripe'")


@pytest.mark.parametrize("words", [{"command": ["/orders", "--canary"]}, {"args": ["--canary"]}])
def test_the_program_of_anothers_image_is_not_changed_by_one_who_may_not_create_pods(
    users: Users, words: Json
) -> None:
    user = users.new()
    user.finds(PULSAR_CONSUMER, {"handler": {"container": {"image": "theirs:1"}}})
    answer = user.edits(PULSAR_CONSUMER, {"spec": {"handler": {"container": words}}})
    refused(answer, f"spec.handler.container.{next(iter(words))}", PODS_REMEDY)
    assert "canary" not in answer.message
    able = {"spec": {"handler": {"container": {"concurrency": 4}}}}
    user.edits(PULSAR_CONSUMER, able).accepted()


def test_many_secrets_are_asked_for_one_by_one(users: Users) -> None:
    names = [f"secret-{number}" for number in range(SECRETS + 1)]
    user = users.new(may_get("secrets", *names), CREATE_PODS)
    user.creates(PULSAR_CONSUMER, variables(*names[:SECRETS])).accepted()
    missing = users.new(may_get("secrets", *names[:-2]), CREATE_PODS)
    refused(missing.creates(PULSAR_CONSUMER, variables(*names[:-1])), f"'{names[-2]}'")
    # Several keys of one Secret are one question.
    user.creates(PULSAR_CONSUMER, variables(*names[:2] * 32), name="keys").accepted()
    refused(user.creates(PULSAR_CONSUMER, variables(*names), name="more"), f"more than {SECRETS} Secrets")
    everything = users.new(may_get("secrets"), CREATE_PODS)
    everything.creates(PULSAR_CONSUMER, variables(*(f"s{number}" for number in range(64)))).accepted()


def test_each_role_of_a_list_is_asked_for_by_itself(users: Users) -> None:
    """Whoever may not get the Secret of one may edit the others, and take that one out."""
    user = users.new(may_get("secrets", "another"))
    (theirs,), (ours,) = role()["roles"], role("another", "other")["roles"]
    user.finds(POSTGRESQL, {"roles": [theirs]})
    user.edits(POSTGRESQL, {"spec": {"roles": [ours, theirs, {"name": "plain"}]}}).accepted()
    refused(
        user.edits(POSTGRESQL, {"spec": {"roles": [ours, role(role="third")["roles"][0], theirs]}}),
        "spec.roles[third].passwordSecretRef.name 'stripe'",
        SECRET_REMEDY,
    )
    moved = {**theirs, "memberOf": ["another_role"]}
    refused(user.edits(POSTGRESQL, {"spec": {"roles": [moved, ours]}}), "spec.roles[app]", "'stripe'")
    user.edits(POSTGRESQL, {"spec": {"roles": [ours]}}).accepted()
    refused(user.edits(POSTGRESQL, {"spec": {"roles": [ours, theirs]}}), "'stripe'")


def test_two_hundred_roles_are_asked_for_within_the_cost_of_a_policy(users: Users) -> None:
    every = [role(f"secret-{number}", f"role_{number}")["roles"][0] for number in range(200)]
    able = users.new(may_get("secrets"))
    able.creates(POSTGRESQL, {"roles": every}).accepted()
    user = users.new(may_get("secrets", "secret-7"))
    user.finds(POSTGRESQL, {"roles": every})
    changed = [*reversed(every)]
    changed[-8] = {**changed[-8], "connectionLimit": 3}
    user.edits(POSTGRESQL, {"spec": {"roles": changed}}).accepted()
    changed[0] = {**changed[0], "connectionLimit": 3}
    refused(user.edits(POSTGRESQL, {"spec": {"roles": changed}}), "spec.roles[role_199]", "'secret-199'")


def test_a_friend_is_looked_for_by_those_who_may_get_it_everywhere(users: Users) -> None:
    here = users.new(may_get("pods"))
    refused(
        here.creates(MY_CUSTOM_RESOURCE, {"name": "other-tenants"}),
        "spec.name 'other-tenants'",
        "ask for the right to get pods of that name in all namespaces",
    )
    named = users.new(wide=[may_get("pods", "mine")])
    named.creates(MY_CUSTOM_RESOURCE, {"name": "mine"}).accepted()
    refused(named.edits(MY_CUSTOM_RESOURCE, {"spec": {"name": "other-tenants"}}), "'other-tenants'")
    named.edits(MY_CUSTOM_RESOURCE, {"metadata": {"labels": {"a": "b"}}}).accepted()
    users.new(wide=[may_get("pods")]).creates(MY_CUSTOM_RESOURCE, {"name": "other-tenants"}).accepted()


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_an_administrator_applies_the_samples_as_they_are(users: Users, name: str) -> None:
    user, sample = users.new(), SAMPLES[name]
    user.admin.create(user.path(kind_of(sample)), sample).accepted()


def test_the_operator_needs_none_of_these_rights_for_a_status(users: Users) -> None:
    """Nor does who writes metadata alone, whatever the spec names."""
    group, plural = POSTGRESQL.manifest["spec"]["group"], POSTGRESQL.manifest["spec"]["names"]["plural"]
    user = users.new({"apiGroups": [group], "resources": [f"{plural}/status"], "verbs": ["patch"]})
    user.finds(POSTGRESQL, {**password(), "image": "mine:1"})
    status = {"status": {"pgPhase": "pending"}}
    user.api.merge(f"{user.path(POSTGRESQL, 'one')}/status", status).accepted()


DATABASES = "postgresqls"
RESTORES: PolicyRule = {
    "apiGroups": ["database.technotuesday.io"],
    "resources": ["restores"],
    "verbs": ["get", "create", "update", "patch"],
}


@pytest.mark.parametrize(
    ("into", "verb", "what"),
    [
        ("New", "create", "makes a Postgresql"),
        ("InPlace", "update", "replaces or adds data of that Postgresql"),
        ("Databases", "update", "replaces or adds data of that Postgresql"),
    ],
)
@pytest.mark.parametrize("group", ["database.technotuesday.io", "database.db.example.com"])
def test_a_restore_is_for_those_who_may_do_it_to_the_database(
    users: Users, group: str, into: str, verb: str, what: str
) -> None:
    spec = {
        "source": {"backupRef": {"name": "nightly"}},
        "databaseRef": {"name": "db", "group": group},
        "into": into,
        **({"databases": [{"name": "shop"}]} if into == "Databases" else {}),
    }
    right: PolicyRule = {"apiGroups": [group], "resources": [DATABASES], "verbs": [verb]}
    if verb == "update":
        right = {**right, "resourceNames": ["db"]}
    body = RESTORE.resource("one", spec)
    nobody = users.new(writes=[RESTORES])
    refused(nobody.api.create(nobody.path(RESTORE), body), what, "'db'", f"ask for the right to {verb}")
    other: PolicyRule = {**right, "verbs": ["create" if verb == "update" else "update"], "resourceNames": []}
    user = users.new(other, writes=[RESTORES])
    refused(user.api.create(user.path(RESTORE), body), what)
    user = users.new(right, writes=[RESTORES])
    user.api.create(user.path(RESTORE), body).accepted()


def test_a_copy_is_checked_for_whoever_may_create_a_restore_and_queried_by_those_who_may_edit_the_backup(
    users: Users,
) -> None:
    """It touches no database; a query of one's own says something of the data."""
    spec = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "db"}, "into": "Verify"}
    query = {"database": "a", "sql": "SELECT 1", "expect": "1"}
    asks = {**spec, "verify": {"queries": [query]}}
    nobody = users.new(writes=[RESTORES])
    nobody.api.create(nobody.path(RESTORE), RESTORE.resource("one", spec)).accepted()
    fewer = {**spec, "verify": {"amcheck": "Off", "queries": []}}
    nobody.api.create(nobody.path(RESTORE), RESTORE.resource("two", fewer)).accepted()
    right: PolicyRule = {
        "apiGroups": ["database.technotuesday.io"],
        "resources": ["backups"],
        "verbs": ["update"],
    }
    for user in (nobody, users.new({**right, "resourceNames": ["other"]}, writes=[RESTORES])):
        refused(
            user.api.create(user.path(RESTORE), RESTORE.resource("three", asks)),
            "spec.verify.queries: these read what Backup 'nightly' has stored",
            "ask for the right to update backups there",
        )
    user = users.new({**right, "resourceNames": ["nightly"]}, writes=[RESTORES])
    user.api.create(user.path(RESTORE), RESTORE.resource("three", asks)).accepted()
