"""The plugin's process: Pulumi starts it with this folder, and asks it for the schema and for components.

In a release the folder of the plugin also has what the package imports; in a checkout that is two above.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In place of this folder, whose modules are not to be found by their bare names.
sys.path[0] = str(HERE if (HERE / "infra").is_dir() else HERE.parents[1])

from infra.package import plugin  # noqa: E402

if __name__ == "__main__":
    plugin.serve()
