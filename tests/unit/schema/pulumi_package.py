"""The schema of the Pulumi package: what the plugin answers, in the repository.

`python -m tests.unit.schema.pulumi_package` writes it; tests/unit/infra/test_pulumi_package.py compares
the two.
"""

from __future__ import annotations

from infra.package import plugin
from infra.paths import REPOSITORY

FILE = REPOSITORY / "infra/package/schema.json"

if __name__ == "__main__":
    FILE.write_text(plugin.schema())
    print(FILE.relative_to(REPOSITORY))
