"""What a machine without Pulumi, kind, an engine or an image registry needs beforehand: made here, once.

The virtual environment, tools built from pinned Go modules, apt's packages, Debian root file systems, and the
Kubernetes node image that is assembled of these. This module is the one door to it: others write
`from infra import bootstrap` and import none of its modules, and it imports the ground floor of `infra` alone
(import contracts in pyproject.toml). The Pulumi program comes here only for what it does not find, so that a
checkout without this folder serves a machine that has everything.

Standard library alone: the virtual environment is made here.
"""

from __future__ import annotations

from infra.bootstrap import apt as apt
from infra.bootstrap import debian_rootfs as debian_rootfs
from infra.bootstrap import node_image as node_image
from infra.bootstrap import virtualenv as virtualenv
from infra.bootstrap.toolchain import TOOLS as TOOLS
from infra.bootstrap.toolchain import Toolchain as Toolchain
from infra.bootstrap.toolchain import ToolState as ToolState
