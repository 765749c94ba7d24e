"""What a container engine gets beside its arguments: limits of Podman's containers, names on its networks."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from pathlib import Path

import pytest

from infra.bootstrap import apt
from infra.drivers import engine as engines
from infra.drivers import podman_config
from infra.drivers.engine import ContainerEngine
from infra.drivers.kind import KindCli
from infra.errors import KindlingError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only engine is a Podman of this age, with networks kept in a file."""
    for name in ("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KINDLING_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("KINDLING_ENGINE", "podman")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(podman_config, "_CONFIGURATIONS", (str(tmp_path / "etc"), "~/.config/containers"))
    podman(tmp_path, "4.3.1")
    return tmp_path


def podman(home: Path, version: str, *, plugin: bool = False) -> None:
    program = home / "bin" / "podman"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        textwrap.dedent(
            f"""\
            #!/usr/bin/python3
            import json, pathlib, sys
            known = pathlib.Path({str(home / "networks.json")!r})
            networks = json.loads(known.read_text()) if known.exists() else {{}}
            match sys.argv[1:]:
                case ["--version"]:
                    print("podman version {version}")
                case ["info", *_]:
                    print("cni")
                case ["network", "exists", name]:
                    sys.exit(name not in networks)
                case ["network", "inspect", name]:
                    print(json.dumps([{{"name": name, "dns_enabled": networks[name]["names"]}}]))
                case ["network", "rm", name] if not networks[name].get("used"):
                    del networks[name]
                case ["network", "create", name]:
                    networks[name] = {{"names": {plugin}}}
                case words:
                    sys.exit(f"not expected here: {{words}}")
            known.write_text(json.dumps(networks))
            """
        )
    )
    program.chmod(0o755)
    podman_config._version.cache_clear()


def limits(variable: str) -> dict[str, object]:
    file = ContainerEngine.detect().env_vars()[variable]
    table: dict[str, object] = tomllib.loads(Path(file).read_text())["containers"]
    return table


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("able", [True, False], ids=["able root", "root that may not raise limits"])
def test_podman_sets_a_node_no_limit_of_tasks(monkeypatch: pytest.MonkeyPatch, able: bool) -> None:
    monkeypatch.setattr(podman_config, "_may_raise_limits", lambda: able)
    for variable in ("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"):
        assert limits(variable)["pids_limit"] == 0


def test_what_somebody_has_set_for_podman_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer Podman adds ours to it; an older one could only put ours in its place."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    file = home / "etc" / "containers.conf"
    file.parent.mkdir()
    file.write_text("# nothing yet\n[engine]\n")
    assert "CONTAINERS_CONF" in ContainerEngine.detect().env_vars()
    file.write_text('[engine]\nruntime = "crun"\n')
    environment = ContainerEngine.detect().env_vars()
    assert "CONTAINERS_CONF" not in environment
    assert limits("CONTAINERS_CONF_OVERRIDE") == {"pids_limit": 0}
    monkeypatch.setenv("CONTAINERS_CONF_OVERRIDE", "/somebody's")
    assert "CONTAINERS_CONF_OVERRIDE" not in ContainerEngine.detect().env_vars()


def test_a_podman_that_adds_keeps_the_distributions_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    podman(home, "5.4.0")
    environment = ContainerEngine.detect().env_vars()
    assert "CONTAINERS_CONF" not in environment
    assert "CONTAINERS_CONF_OVERRIDE" in environment


def networks(home: Path, **known: dict[str, bool]) -> None:
    (home / "networks.json").write_text(json.dumps(known))


def test_one_node_needs_no_names_on_its_network(home: Path) -> None:
    class Created(Exception):
        pass

    class Stub(KindCli):
        def exists(self, name: str) -> bool:
            raise Created

    config = {"nodes": [{"role": "control-plane"}]}
    given = {"name": "n", "incarnation": "i", "node_image": "node:1", "timeout": 1.0}
    kind = Stub(Path("kind"), ContainerEngine.detect())
    with pytest.raises(Created):
        kind.create(config=config, **given)  # type: ignore[arg-type]
    networks(home, kind={"names": False, "used": True})
    config["nodes"].append({"role": "worker"})
    with pytest.raises(KindlingError, match="do not find each other by name"):
        kind.create(config=config, **given)  # type: ignore[arg-type]


def test_a_network_with_names_is_taken_as_it_is(home: Path) -> None:
    networks(home, kind={"names": True})
    before = (home / "networks.json").read_text()
    ContainerEngine.detect().ensure_names("kind")
    assert (home / "networks.json").read_text() == before


@pytest.mark.parametrize("known", [{}, {"kind": {"names": False}}], ids=["none yet", "one without, unused"])
def test_a_missing_plug_in_is_installed_and_the_network_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, dict[str, bool]]
) -> None:
    networks(home, **known)
    asked: list[str] = []

    def install(names: list[str]) -> None:
        asked.extend(names)
        podman(home, "4.3.1", plugin=True)

    monkeypatch.setattr(apt, "available", lambda: True)
    monkeypatch.setattr(apt, "install", install)
    ContainerEngine.detect().ensure_names("kind")
    assert asked == [engines.NAMES_PACKAGE]
    assert json.loads((home / "networks.json").read_text()) == {"kind": {"names": True}}


@pytest.mark.parametrize(
    ("known", "why", "remedy"),
    [
        ({}, "no plug-in", "install golang-github-containernetworking-plugin-dnsname"),
        ({"kind": {"names": False, "used": True}}, "is in use", "remove the clusters on it"),
    ],
)
def test_without_names_several_nodes_are_refused_and_nothing_is_left(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: dict[str, dict[str, bool]],
    why: str,
    remedy: str,
) -> None:
    networks(home, **known)
    monkeypatch.setattr(apt, "available", lambda: False)
    with pytest.raises(KindlingError) as caught:
        ContainerEngine.detect().ensure_names("kind")
    assert why in caught.value.why
    assert remedy in caught.value.remedy
    assert json.loads((home / "networks.json").read_text()) == known
