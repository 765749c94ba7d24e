"""A stack's settings: what is taken, and that what is refused is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import paths, release, settings
from infra.components.images import BROKER_PART, OPERATOR_PART, operands
from infra.drivers import debian_lock
from infra.drivers.images import OBJECT_STORE_PART
from infra.errors import KindlingError
from infra.paths import REPOSITORY
from infra.settings import image_settings

GOOD = {
    "cluster": "kind",
    "nodeImage": "auto",
    "workers": "0",
    "apiServerPort": "0",
    "replicas": "2",
    "logLevel": "info",
    "watchNamespaces": "[]",
    "kinds": "[]",
    "samples": "false",
    "broker": "false",
    "objectStore": "false",
    "scope": "cluster",
    "protect": "auto",
    "operatorPod": "{}",
    "ignoreChanges": "{}",
    "images": "{}",
    "baseImage": "docker.io/library/debian:trixie-slim",
    "imagePullSecrets": "[]",
}
EXISTING = {
    **{key: value for key, value in GOOD.items() if key not in ("nodeImage", "workers", "apiServerPort")},
    "cluster": "existing",
    "kubeconfig": "",
    "context": "team/prod",
    "imageSource": "build",
    "registry": "registry.example:5000/kindling",
    "insecureRegistry": "false",
    "platforms": '["linux/amd64"]',
}
PROMOTED = {**EXISTING, "imageSource": "promoted", "registry": ""}
REF = f"registry.example:5000/kindling/kindling-operator@sha256:{'a' * 64}"


def getter(**changed: str | None) -> Callable[[str], str | None]:
    return {**GOOD, **changed}.get


def test_every_value_is_read() -> None:
    found = settings.load(
        getter(
            nodeImage="registry.example:5000/node:v1.34.4",
            workers="3",
            apiServerPort="6443",
            replicas="1",
            logLevel="debug",
            watchNamespaces='["default", "team-b"]',
            kinds='["PulsarConsumer", "Memcached"]',
            scope="namespaces",
            protect="true",
            samples="true",
            broker="true",
            objectStore="true",
        ),
        stack="dev",
    )
    assert found.cluster == settings.ClusterSettings(
        source="kind",
        name="kindling-dev",
        node_image="registry.example:5000/node:v1.34.4",
        workers=3,
        api_server_port=6443,
    )
    assert found.cluster.context == "kind-kindling-dev"
    assert found.operator == settings.OperatorSettings(
        replicas=1,
        log_level="debug",
        watch_namespaces=("default", "team-b"),
        scope="namespaces",
        kinds=("PulsarConsumer", "Memcached"),
    )
    assert found.protect
    assert not found.cluster.is_existing
    assert found.samples.enabled
    assert found.broker.enabled
    assert found.object_store.enabled


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (GOOD, False),
        (EXISTING, True),
        ({**EXISTING, "protect": "false"}, False),
        ({**GOOD, "protect": "true"}, True),
    ],
)
def test_what_is_in_somebody_elses_cluster_is_protected_by_default(given: dict[str, str], kept: bool) -> None:
    assert settings.load(given.get, stack="staging").protect is kept


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("cluster", "k3s", "kind, existing"),
        ("cluster", None, "kind"),
        ("nodeImage", "", "`auto`"),
        ("nodeImage", "kindest/node", "a tag or a digest"),
        ("nodeImage", "kindest/node:latest", "a tag or a digest"),
        ("nodeImage", "kindest/node: v1", "a tag or a digest"),
        ("nodeImage", "kindest/node@sha256:abc", "a tag or a digest"),
        ("workers", "-1", "from 0 to 8"),
        ("workers", "9", "from 0 to 8"),
        ("workers", "1.5", "from 0 to 8"),
        ("apiServerPort", "80", "from 1024 to 65535"),
        ("apiServerPort", "65536", "from 1024 to 65535"),
        ("apiServerPort", "https", "from 1024 to 65535"),
        ("replicas", "0", "from 1 to 5"),
        ("replicas", "two", "from 1 to 5"),
        ("replicas", "", "from 1 to 5"),
        ("logLevel", "verbose", "debug, info, warning, error"),
        ("logLevel", "INFO", "debug, info, warning, error"),
        ("watchNamespaces", "default", "a list of namespace names"),
        ("watchNamespaces", '{"a": 1}', "a list of namespace names"),
        ("watchNamespaces", '["Team"]', "a list of namespace names"),
        ("watchNamespaces", '["a", "a"]', "each named once"),
        ("watchNamespaces", "[7]", "a list of namespace names"),
        (
            "kinds",
            "Memcached",
            "a list of Backup, BindingImport, Memcached, MyCustomResource, Postgresql, PulsarConsumer",
        ),
        ("kinds", '["memcached"]', "none named means all"),
        ("kinds", '["Memcached", "Memcached"]', "each named once"),
        ("kinds", "[7]", "a list of Backup, BindingImport"),
        ("samples", "yes", "true, false"),
        ("broker", "True", "true, false"),
        ("objectStore", "yes", "true, false"),
        ("scope", "namespace", "cluster, namespaces"),
        ("protect", "", "auto, true, false"),
        ("operatorPod", "[]", "an object of labels, annotations"),
        ("operatorPod", '{"hostNetwork": true}', "tolerations"),
        ("operatorPod", '{"nodeSelector": {"pool": 1}}', "nodeSelector"),
        ("operatorPod", '{"tolerations": {}}', "tolerations"),
        ("operatorPod", '{"resources": {"operator": {"limits": {}}}}', "resources"),
        ("operatorPod", '{"resources": {"other": {"requests": {}, "limits": {}}}}', "resources"),
        ("operatorPod", '{"env": {"OTEL_SERVICE_NAME": "x"}}', "env"),
        ("operatorPod", '{"env": [{"name": "KINDLING_KINDS", "value": "x"}]}', "env"),
        ("operatorPod", '{"env": [{"name": "OTEL_SERVICE_NAME", "value": ""}]}', "env"),
        ("operatorPod", '{"env": [{"name": "OTEL_SERVICE_NAME"}]}', "env"),
        ("operatorPod", json.dumps({"env": 2 * [{"name": "OTEL_A", "value": "x"}]}), "env"),
    ],
)
def test_a_wrong_value_is_named(key: str, value: str | None, allowed: str) -> None:
    with pytest.raises(KindlingError) as raised:
        settings.load(getter(**{key: value}), stack="staging")
    message = str(raised.value)
    assert f"kindling:{key}" in message
    assert "`staging`" in message
    assert allowed in message
    assert "Pulumi.staging.yaml" in message
    assert ("is not set" if value is None else f"`{value}`") in message


@pytest.mark.parametrize(
    "reference",
    ["kindest/node:v1.34.4", "localhost/kind-node:v1.34.4-abc_1", f"h:5000/a/b@sha256:{'0' * 64}", "node:1"],
)
def test_a_reference_with_tag_or_digest_is_taken(reference: str) -> None:
    assert settings.load(getter(nodeImage=reference), stack="dev").cluster.node_image == reference


def test_an_existing_cluster_is_named_by_its_context() -> None:
    found = settings.load({**EXISTING, "kubeconfig": "~/prod.yaml"}.get, stack="prod")
    assert found.cluster.is_existing
    assert (found.cluster.context, found.cluster.kubeconfig) == ("team/prod", "~/prod.yaml")
    assert found.images == settings.ImageSettings("build", registry="registry.example:5000/kindling")


def test_a_release_is_what_a_stack_of_promoted_images_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "Pulumi.yaml").write_text((REPOSITORY / "Pulumi.yaml").read_text())
    before = settings.load(PROMOTED.get, stack="prod")
    assert before.images == settings.ImageSettings("promoted")
    written = release.Release("a" * 40, "b" * 64, {"operator": REF}, "staging")
    (tmp_path / "releases").mkdir()
    (tmp_path / "releases" / "prod.json").write_text(release.written(written))
    found = settings.load(PROMOTED.get, stack="prod")
    assert found.images == settings.ImageSettings("promoted", given={"operator": REF}, release=written)
    # Whoever builds has no use for one.
    assert settings.load(EXISTING.get, stack="prod").images.release is None


@pytest.mark.parametrize(
    ("base", "key", "value"),
    [
        (GOOD, "context", "somewhere"),
        (GOOD, "kubeconfig", "~/x"),
        (GOOD, "registry", "localhost:5000/k"),
        (GOOD, "insecureRegistry", "true"),
        (GOOD, "imageSource", "promoted"),
        (GOOD, "platforms", '["linux/arm64"]'),
        (EXISTING, "nodeImage", "kindest/node:v1.34.4"),
        (EXISTING, "workers", "1"),
        (EXISTING, "apiServerPort", "6443"),
        (EXISTING, "objectStore", "true"),
        ({**EXISTING, "context": "in-cluster"}, "kubeconfig", "~/x"),
        (PROMOTED, "objectStore", "true"),
        (PROMOTED, "registry", "localhost:5000/k"),
        (PROMOTED, "insecureRegistry", "true"),
        (PROMOTED, "platforms", '["linux/arm64"]'),
        (PROMOTED, "baseImage", "registry.example/debian:trixie-slim"),
    ],
)
def test_a_setting_that_means_nothing_here_is_named(base: dict[str, str], key: str, value: str) -> None:
    with pytest.raises(KindlingError) as raised:
        settings.load({**base, key: value}.get, stack="eu")
    assert raised.value.what == f"kindling:{key} of stack `eu` means nothing here"
    of = ("cluster", "imageSource", "context")
    assert any(f"kindling:{setting} is" in raised.value.why for setting in of)
    assert "Pulumi.eu.yaml" in raised.value.remedy


@pytest.mark.parametrize(
    ("key", "value", "stands"),
    [
        ("context", "", "is not set"),
        ("context", "--all", "`--all`"),
        ("context", "two words", "`two words`"),
        ("registry", "", "is not set"),
        ("registry", "kindling", "`kindling`"),
        ("registry", "https://registry.example", "`https://registry.example`"),
        ("registry", "registry.example/Kindling", "HOST[:PORT]/PREFIX"),
        ("registry", "registry.example/kindling/", "HOST[:PORT]/PREFIX"),
        ("insecureRegistry", "yes", "true, false"),
        ("imageSource", "pull", "build, promoted"),
        ("kubeconfig", "a\nb", "the path of a file"),
        ("platforms", "[]", "at least one"),
        ("platforms", '["linux/arm64", "linux/arm64"]', "each once"),
        ("platforms", '["linux/s390x"]', "linux/amd64 and linux/arm64"),
        ("baseImage", "debian", "a tag or a digest"),
        ("baseImage", "debian:latest", "a tag or a digest"),
        ("imagePullSecrets", '["registry"]', "[{name: SECRET}]"),
        ("imagePullSecrets", '[{"name": "a"}, {"name": "a"}]', "each once"),
        ("imagePullSecrets", '[{"name": "No"}]', "[{name: SECRET}]"),
        ("ignoreChanges", '["spec.replicas"]', "by KIND/NAME"),
        ("ignoreChanges", '{"kindling-operator": ["spec.replicas"]}', "by KIND/NAME"),
        ("ignoreChanges", '{"Deployment/kindling-operator": []}', "lists of property paths"),
        ("ignoreChanges", '{"Deployment/kindling-operator": ["spec.a[0]"]}', "not to an element"),
        ("ignoreChanges", '{"Deployment/kindling-operator": ["spec..a"]}', "leads to a field"),
        ("images", '{"redis": "redis:8"}', "operator, postgres, postgres-init, postgres-backup"),
        ("images", '{"postgres": "postgres"}', "a tag other than latest"),
    ],
)
def test_a_wrong_value_for_an_existing_cluster_is_named(key: str, value: str, stands: str) -> None:
    with pytest.raises(KindlingError) as raised:
        settings.load({**EXISTING, key: value}.get, stack="eu")
    assert f"kindling:{key} of stack `eu`" in str(raised.value)
    assert stands in str(raised.value)


def test_images_are_for_the_platforms_of_the_nodes_on_a_base_of_ones_own() -> None:
    """Whatever the machine is that builds them; the defaults are a stack's that says nothing."""
    assert settings.load(EXISTING.get, stack="eu").images.platforms == ("linux/amd64",)
    more = {
        "platforms": '["linux/arm64", "linux/amd64"]',
        "baseImage": f"registry.example/mirror/debian@sha256:{'b' * 64}",
        "imagePullSecrets": '[{"name": "registry"}, {"name": "a.b"}]',
        "images": '{"postgres": "registry.example/mirror/postgres:17"}',
    }
    found = settings.load({**EXISTING, **more}.get, stack="eu").images
    assert found.platforms == ("linux/arm64", "linux/amd64")
    assert found.base == more["baseImage"]
    assert found.pull_secrets == ("registry", "a.b")
    assert found.given == {"postgres": "registry.example/mirror/postgres:17"}
    assert tuple(f"linux/{each}" for each in debian_lock.ARCHITECTURES) == image_settings.PLATFORMS
    assert set(image_settings.NAMES) == {OPERATOR_PART, BROKER_PART, OBJECT_STORE_PART, *operands()}


@pytest.mark.parametrize(
    ("changed", "wrong", "why"),
    [
        ({"scope": "namespaces"}, "watchNamespaces", "kindling:scope is `namespaces`"),
        (
            {"watchNamespaces": '["a"]', "samples": "true", "broker": "true"},
            "watchNamespaces",
            "kindling:samples is true",
        ),
        ({"samples": "true"}, "broker", "kindling:samples is true"),
    ],
)
def test_settings_that_contradict_each_other_are_named(changed: dict[str, str], wrong: str, why: str) -> None:
    with pytest.raises(KindlingError) as raised:
        settings.load(getter(**changed), stack="dev")
    assert f"kindling:{wrong} " in raised.value.what
    assert why in raised.value.why


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of settings files alone, with the real defaults."""
    (tmp_path / "Pulumi.yaml").write_text((REPOSITORY / "Pulumi.yaml").read_text())
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path


def test_a_file_lies_over_the_defaults(repository: Path) -> None:
    text = "config:\n  kindling:replicas: 3\n  kindling:watchNamespaces: [default]\n  kindling:broker: true\n"
    (repository / "Pulumi.big.yaml").write_text(text)
    found = settings.read("big")
    assert found.operator == settings.OperatorSettings(
        replicas=3, log_level="info", watch_namespaces=("default",)
    )
    assert found.cluster.name == "kindling-big"
    assert found.broker.enabled


def test_an_empty_file_is_all_defaults(repository: Path) -> None:
    (repository / "Pulumi.plain.yaml").write_text("")
    assert settings.read("plain") == settings.load(getter(), stack="plain")


def test_the_file_and_the_program_get_the_same(repository: Path) -> None:
    """Pulumi hands booleans and lists to the program as JSON; `read` must too."""
    (repository / "Pulumi.a.yaml").write_text(
        "config:\n  kindling:watchNamespaces: [x, default]\n  kindling:broker: true\n"
    )
    reported = getter(watchNamespaces=json.dumps(["x", "default"]), broker="true")
    assert settings.read("a") == settings.load(reported, stack="a")


def test_stacks_are_the_files(repository: Path) -> None:
    for name in ("prod", "dev", "eu.west"):
        (repository / f"Pulumi.{name}.yaml").touch()
    assert settings.stacks() == ["dev", "eu.west", "prod"]


def test_an_unknown_stack_is_refused_with_those_there_are(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").touch()
    with pytest.raises(KindlingError, match=r"no stack `prod`[\s\S]*the stacks are dev"):
        settings.read("prod")


def test_a_misspelt_key_is_refused(repository: Path) -> None:
    (repository / "Pulumi.dev.yaml").write_text("config:\n  kindling:replica: 3\n  aws:region: x\n")
    with pytest.raises(KindlingError, match=r"kindling:replica of stack `dev`[\s\S]*replicas"):
        settings.load(getter(), stack="dev")


@pytest.mark.parametrize("text", ["config: [", "config: 3\n", "- a\n"])
def test_a_broken_file_is_named(repository: Path, text: str) -> None:
    (repository / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(KindlingError, match=r"Pulumi\.dev\.yaml"):
        settings.read("dev")


@pytest.mark.parametrize("stack", settings.stacks())
def test_every_stack_of_the_repository_is_right(stack: str) -> None:
    assert settings.read(stack).stack == stack


def test_a_stack_has_no_object_store_unless_it_says_so_and_an_existing_cluster_never(
    repository: Path,
) -> None:
    (repository / "Pulumi.plain.yaml").write_text("")
    assert not settings.read("plain").object_store.enabled
    assert not settings.load(EXISTING.get, stack="eu").object_store.enabled
    with pytest.raises(KindlingError) as raised:
        settings.load({**EXISTING, "objectStore": "true"}.get, stack="eu")
    assert "runs in a kind cluster alone" in raised.value.why
    assert "any store that speaks S3" in raised.value.why


def test_samples_need_the_broker_for_the_kind_that_uses_it() -> None:
    chosen = settings.load(getter(samples="true", kinds='["Memcached", "Postgresql"]'), stack="dev")
    assert chosen.samples.enabled
    for kinds in ("[]", '["PulsarConsumer"]'):
        with pytest.raises(KindlingError, match="kindling:broker"):
            settings.load(getter(samples="true", kinds=kinds), stack="dev")
