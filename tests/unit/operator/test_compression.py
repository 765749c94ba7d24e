"""Objects are decompressed as they were, whatever was compressed in between, and take little memory."""

from __future__ import annotations

import string

import orjson
from hypothesis import given
from hypothesis import strategies as st
from kindling.engine.compression import Compressor, decompress
from kindling.kube.resources import Object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def deployment(number: int, *, padding: int = 0) -> Object:
    return {
        "metadata": {
            "name": f"cache-{number}",
            "uid": f"{number * 7919:032x}",
            "resourceVersion": str(number),
        },
        "spec": {"template": {"spec": {"containers": [{"name": "memcached", "image": "memcached:1.6"}]}}},
        "status": {"message": string.printable * padding},
    }


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=9))
def test_all_come_back_as_they_were(objects: list[Object]) -> None:
    packer = Compressor()
    compressed = [packer.compress(obj) for obj in objects]
    assert [decompress(*each) for each in compressed] == objects


def test_an_object_larger_than_what_zlib_looks_back_comes_back_too() -> None:
    packer = Compressor()
    objects = [deployment(number, padding=300) for number in range(9)]
    compressed = [packer.compress(obj) for obj in objects]
    assert [decompress(*each) for each in compressed] == objects


def test_an_object_like_the_others_takes_little_memory() -> None:
    packer = Compressor()
    sizes = [len(packer.compress(deployment(number))[0]) for number in range(1000)]
    assert sum(sizes) / len(sizes) < len(orjson.dumps(deployment(999))) / 3


def test_later_objects_are_packed_by_a_later_one() -> None:
    """The first of a type have no status: what all have in common later would be kept in each."""
    packer = Compressor()
    for number in range(100):
        packer.compress({"metadata": {"name": str(number)}})
    sizes = [len(packer.compress(deployment(number, padding=1))[0]) for number in range(100)]
    assert sum(sizes[50:]) < sum(sizes[:10]) * 3


def test_there_are_few_samples_however_many_objects() -> None:
    packer = Compressor()
    samples = {packer.compress(deployment(number))[1] for number in range(5000)}
    assert len(samples) <= len(f"{5000:b}")
