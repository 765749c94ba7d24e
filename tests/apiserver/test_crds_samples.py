"""The documents' manifests apply as they are printed, and nothing in them is lost or added."""

from __future__ import annotations

import pytest

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import SAMPLES, kind_of

EACH_SAMPLE = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())

# What the documents print. Said again here because the files are what is under test.
DOCUMENTED_SPECS = {
    "memcached": {"size": 1, "containerPort": 11211},
    "mycustomresource": {"name": "funny-joe"},
    "postgresql-example": {"defaultuser": "pgowner", "password": "password123"},
    "postgresql-technotuesday": {"defaultUser": "postgres", "password": "Password123!"},
    "pulsarconsumer": {
        "serverAddress": "pulsar://localhost:6650",
        "topic": "my-topic",
        "subscriptionName": "first-subscription",
        "replicas": 1,
    },
}


def test_samples_say_what_the_documents_say() -> None:
    assert {name: sample["spec"] for name, sample in SAMPLES.items()} == DOCUMENTED_SPECS


@EACH_SAMPLE
def test_sample_is_created_verbatim(api: Api, sample: Json) -> None:
    path = f"{kind_of(sample).collection}/{sample['metadata']['name']}"
    try:
        api.create(kind_of(sample).collection, sample).accepted()
        assert api.get(path).accepted()["spec"] == sample["spec"]
    finally:
        api.delete(path)


@EACH_SAMPLE
def test_sample_is_applied_verbatim_and_again_without_a_write(api: Api, sample: Json) -> None:
    path = f"{kind_of(sample).collection}/{sample['metadata']['name']}"
    try:
        assert api.apply(path, sample).accepted()["spec"] == sample["spec"]
        # What says that nobody has looked yet is stored with the second one, where nobody has.
        first = api.apply(path, sample).accepted()
        again = api.apply(path, sample).accepted()
        assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    finally:
        api.delete(path)
