"""Exceptions from drift, by the whole program on a real API server: others' changes that stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kubelet import kubelet
from tests.pulumi.machine import Host
from tests.pulumi.test_drift import CLUSTER_ROLE, DEPLOYMENT, EVERYTHING_IS, drift, replace, up

SETTINGS = """\
  kindling:ignoreChanges:
    Deployment/kindling-operator:
      - spec.replicas
      - spec.template.spec.containers[*].resources
      - metadata.labels["app.kubernetes.io/component"]
"""


@pytest.mark.thorough
def test_what_is_excepted_is_neither_drift_nor_set_back(host: Host, plane: ControlPlane, api: Api) -> None:
    settings = Path(host.checkout, "Pulumi.dev.yaml")
    plain = settings.read_text()
    # Of what the stack does not have: said before anything is made, by a preview and by `up`.
    host.settings(plain + "  kindling:ignoreChanges: {Deployment/operator: [spec.replicas]}\n")
    for verb in ("preview", "up"):
        done = host.cli(verb)
        assert done.returncode == 1
        said = " ".join((done.stdout + done.stderr).split())
        assert "names what the stack does not have: Deployment/operator" in said
        assert "Deployment/kindling-operator" in said
        assert api.get(DEPLOYMENT).status == 404
        assert api.get(CLUSTER_ROLE).status == 404

    host.settings(plain + SETTINGS)
    with kubelet(plane):
        up(host)
        deployment = api.get(DEPLOYMENT).accepted()
        assert deployment["spec"]["replicas"] == 2, "what is made first is as the program has it"
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        level = next(item for item in container["env"] if item["name"] == "KINDLING_LOG_LEVEL")
        container["resources"]["limits"]["memory"] = "1Gi"
        deployment["spec"]["replicas"] = 3
        deployment["metadata"]["labels"]["app.kubernetes.io/component"] = "another"
        replace(api, DEPLOYMENT, deployment)
        done = host.cli("drift")
        assert (done.returncode, done.stdout) == (0, EVERYTHING_IS), done.stdout + done.stderr
        up(host)
        found = api.get(DEPLOYMENT).accepted()
        assert found["spec"]["replicas"] == 3
        assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "another"
        [operator, _] = found["spec"]["template"]["spec"]["containers"]
        assert operator["resources"]["limits"]["memory"] == "1Gi"

        # Another field of the same resource still is drift, and is set back alone.
        level = next(item for item in operator["env"] if item["name"] == "KINDLING_LOG_LEVEL")
        level["value"] = "DEBUG"
        found["spec"]["replicas"] = 4
        replace(api, DEPLOYMENT, found)
        lines = [line.strip() for line in drift(host).splitlines() if line.startswith("    ")]
        path = "spec.template.spec.containers[operator].env[KINDLING_LOG_LEVEL].value"
        assert lines == [f'{path}: "DEBUG", recorded "INFO"']
        up(host)
        after = api.get(DEPLOYMENT).accepted()
        [operator, _] = after["spec"]["template"]["spec"]["containers"]
        values = {item["name"]: item.get("value") for item in operator["env"]}
        assert values["KINDLING_LOG_LEVEL"] == "INFO"
        assert operator["resources"]["limits"]["memory"] == "1Gi"
        assert after["spec"]["replicas"] == 4

        # Without the exception all of it is the program's again.
        host.settings(plain)
        up(host)
        assert api.get(DEPLOYMENT).accepted()["spec"]["replicas"] == 2
        done = host.cli("drift")
        assert (done.returncode, done.stdout) == (0, EVERYTHING_IS), done.stdout
