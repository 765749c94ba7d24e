"""What each change does to data and Pods, as a reviewer must hear it."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cli.preview.events import Change, Difference, Verb
from infra.cli.preview.impact import Impact, effect

CLUSTER = "pulumi-python:dynamic/kind:Cluster"
NAMESPACE = "kubernetes:core/v1:Namespace"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
POSTGRESQL = "kubernetes:database.db.example.com/v1:Postgresql"
MEMCACHED = "kubernetes:cache.example.com/v1alpha1:Memcached"
DELETED, REPLACED, ROLLED, UPDATED, CREATED = Verb


def change(verb: Verb, type: str, path: str = "spec.x", old: dict[str, Any] | None = None) -> Change:
    return Change(verb, type, "one", (Difference(path, "a", "b"),), old or {})


def volumes(*names: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"volumes": [{"name": name, "emptyDir": {}} for name in names]}}}}


@pytest.mark.parametrize(
    ("given", "touches", "words"),
    [
        (change(DELETED, CLUSTER), Impact.DATA, "everything in the cluster is lost"),
        (change(REPLACED, CLUSTER), Impact.DATA, "everything in the cluster is lost"),
        (change(REPLACED, NAMESPACE), Impact.DATA, "everything in the namespace is lost"),
        (change(UPDATED, NAMESPACE, "metadata.labels.a"), Impact.NOTHING, "not touched"),
        (change(DELETED, CRD), Impact.DATA, "every object of this kind is deleted"),
        (change(UPDATED, CRD), Impact.NOTHING, "not touched"),
        (change(DELETED, CLAIM), Impact.DATA, "the data on the volume is lost"),
        (change(ROLLED, DEPLOYMENT), Impact.PODS, "new Pods take the place of the running ones"),
        (change(ROLLED, DEPLOYMENT, old=volumes("tmp")), Impact.PODS, "new Pods"),
        (change(ROLLED, DEPLOYMENT, old=volumes("tmp", "data")), Impact.DATA, "they hold in data is lost"),
        (change(REPLACED, DEPLOYMENT), Impact.PODS, "its Pods end, then new ones start"),
        (change(DELETED, DEPLOYMENT), Impact.PODS, "its Pods end"),
        (change(UPDATED, DEPLOYMENT, "spec.replicas"), Impact.PODS, "Pods are added or taken away"),
        (change(UPDATED, DEPLOYMENT, "metadata.labels.a"), Impact.NOTHING, "not touched"),
        (change(UPDATED, POSTGRESQL), Impact.PODS, "its data is kept"),
        (change(UPDATED, POSTGRESQL, "metadata.labels.a"), Impact.NOTHING, "not touched"),
        (change(DELETED, POSTGRESQL), Impact.PODS, "its volume is kept"),
        (
            change(DELETED, POSTGRESQL, old={"spec": {"deletionPolicy": "Delete"}}),
            Impact.DATA,
            "its data is lost (deletionPolicy: Delete)",
        ),
        (
            change(UPDATED, POSTGRESQL, old={"spec": {"storage": {"ephemeral": True}}}),
            Impact.DATA,
            "its data, which is ephemeral",
        ),
        (change(DELETED, POSTGRESQL, old={"spec": "[secret]"}), Impact.PODS, "its volume is kept"),
        (change(UPDATED, MEMCACHED), Impact.PODS, "what they cached"),
        (change(REPLACED, "kubernetes:core/v1:Secret"), Impact.NOTHING, "not touched"),
        (change(REPLACED, "pulumi-python:dynamic/containers:Image"), Impact.NOTHING, "not touched"),
        (change(DELETED, "something:else/entirely:Thing"), Impact.NOTHING, "not touched"),
    ],
)
def test_what_a_change_touches(given: Change, touches: Impact, words: str) -> None:
    found = effect(given)
    assert found.touches is touches
    assert words in found.text


@pytest.mark.parametrize("type", [CLUSTER, NAMESPACE, CRD, DEPLOYMENT, POSTGRESQL])
def test_what_is_new_touches_nothing(type: str) -> None:
    assert effect(change(CREATED, type)).touches is Impact.NOTHING
