"""Which resource somebody means: kinds by each of their names, and what no name means."""

from __future__ import annotations

import pytest
from kubectl_kindling import kinds
from kubectl_kindling.errors import USAGE, PluginError
from kubectl_kindling.kinds import Reference, Type

from tests.unit.plugin.recordings import TYPES


def names(word: str) -> list[str]:
    return [each.full for each in kinds.called(TYPES, word)]


def test_the_table_of_kubectl_is_read() -> None:
    assert len(TYPES) == 7
    assert Type("backups", "database.technotuesday.io", "v1", "Backup", ("bak",)) in TYPES
    assert kinds.parse("") == []
    # Some types have no short name; a warning is no row.
    rows = "greetings   example.com/v1   true   Greeting\nWarning: something is deprecated, mind it\n"
    assert kinds.parse(rows) == [Type("greetings", "example.com", "v1", "Greeting")]


@pytest.mark.parametrize(
    "word", ["memcached", "memcacheds", "mc", "Memcached", "memcacheds.cache.example.com"]
)
def test_a_kind_goes_by_each_of_its_names(word: str) -> None:
    assert names(word) == ["memcacheds.cache.example.com"]


def test_a_kind_of_two_groups_is_both_unless_the_name_says_which() -> None:
    both = ["postgresqls.database.db.example.com", "postgresqls.database.technotuesday.io"]
    assert names("postgresql") == names("postgresqls") == both
    assert names("pge") == names("postgresql.database.db.example.com") == both[:1]
    assert names("pgt") == names("postgresqls.database.technotuesday.io") == both[1:]


def test_the_shortest_name_means_one_kind() -> None:
    found = {each.full: kinds.shortest(each, TYPES) for each in TYPES}
    assert found["memcacheds.cache.example.com"] == "memcached"
    assert found["postgresqls.database.db.example.com"] == "pge"
    assert found["postgresqls.database.technotuesday.io"] == "pgt"
    for each in TYPES:
        assert names(found[each.full]) == [each.full]
    bare = [Type("as", "one.example.com", "v1", "A"), Type("as", "two.example.com", "v1", "A")]
    assert kinds.shortest(bare[1], bare) == "as.two.example.com"


def test_an_unknown_kind_is_a_usage_error_with_those_that_there_are() -> None:
    with pytest.raises(PluginError) as raised:
        kinds.called(TYPES, "mongo")
    assert raised.value.status == USAGE
    assert raised.value.what == "there is no kind `mongo`"
    assert "backups.database.technotuesday.io" in raised.value.why


def test_a_kind_that_the_cluster_does_not_serve() -> None:
    with pytest.raises(PluginError, match="does not serve Postgresql"):
        kinds.of_kind([each for each in TYPES if each.kind != "Postgresql"], "Postgresql")


def test_a_reference_has_a_kind_and_a_name() -> None:
    assert kinds.reference("pge/mydb") == Reference("pge", "mydb")


@pytest.mark.parametrize("text", ["mydb", "/mydb", "pge/", "a/b/c", ""])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(PluginError) as raised:
        kinds.reference(text)
    assert raised.value.status == USAGE
    assert "KIND/NAME" in raised.value.why
