"""The API that all tests here stand on: what it lets in, and what it says when it cannot start."""

from __future__ import annotations

import dataclasses
import json
import re
import socket
from pathlib import Path

import pytest

from tests.apiserver.support import controlplane
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane, control_plane
from tests.ports import free_ports


def test_kubeconfig_says_the_same_as_the_control_plane(plane: ControlPlane) -> None:
    config = json.loads(plane.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert (cluster["server"], user["token"]) == (plane.url, plane.token)
    assert "BEGIN CERTIFICATE" in Path(cluster["certificate-authority"]).read_text()


def test_service_account_gets_a_token_but_no_rights(plane: ControlPlane, api: Api) -> None:
    """So a program can be run here with exactly the rights that its RBAC rules give it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "limited"}}).accepted()
    issued = api.create(f"{accounts}/limited/token", {"spec": {"expirationSeconds": 600}}).accepted()
    limited = Api(dataclasses.replace(plane, token=issued["status"]["token"]))
    try:
        answer = limited.get("/api/v1/namespaces/default/secrets")
    finally:
        limited.close()
    assert answer.status == 403
    assert "system:serviceaccount:default:limited" in answer.message


def test_unknown_token_is_not_let_in(plane: ControlPlane) -> None:
    stranger = Api(dataclasses.replace(plane, token="stranger"))
    try:
        assert stranger.get("/api/v1/namespaces/default").status == 401
    finally:
        stranger.close()


def test_failed_start_says_why_and_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    etcd = controlplane.tool("etcd")
    # etcd does not know kube-apiserver's options, so as kube-apiserver it stops and says so.
    monkeypatch.setattr(controlplane, "tool", lambda name: etcd)
    ports = free_ports(3)
    monkeypatch.setattr(controlplane, "free_ports", lambda count: ports)
    stopped = pytest.raises(RuntimeError, match="kube-apiserver stopped with status")
    with stopped as raised, control_plane(directory=tmp_path):
        pass
    assert re.search(r"flag provided but not defined|unknown flag", str(raised.value))
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", ports[0])) != 0
