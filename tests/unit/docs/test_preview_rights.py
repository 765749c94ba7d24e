"""The rights in guides/preview.md are those of the table, whole."""

from __future__ import annotations

import yaml

from infra import rbac
from infra.paths import REPOSITORY
from tests import guides


def test_the_guide_grants_what_the_table_has_and_no_more() -> None:
    page = (REPOSITORY / "docs/guides/preview.md").read_text()
    (manifest,) = (body for language, _, body in guides.blocks(page) if language == "yaml")
    (role,) = (each for each in yaml.safe_load_all(manifest) if each["kind"] == "ClusterRole")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    table = {
        (rule.group, resource, verb)
        for rule in rbac.diff_rules()
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert granted == table
    assert {verb for *_, verb in table} == {"get", "list"}
