"""The restricted pod security standard, as each namespace demands it and each Pod of a stack meets it."""

from __future__ import annotations

from pulumi_kubernetes import core

POD_SECURITY = "pod-security.kubernetes.io"


def namespace_labels() -> dict[str, str]:
    """What makes a namespace take such Pods alone."""
    return {f"{POD_SECURITY}/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}


def pod(user: int) -> core.v1.PodSecurityContextArgs:
    """Every process as this user and group, whose the volumes are, too."""
    return core.v1.PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=user,
        run_as_group=user,
        fs_group=user,
        seccomp_profile=core.v1.SeccompProfileArgs(type="RuntimeDefault"),
    )


def container() -> core.v1.SecurityContextArgs:
    """Beyond the standard, the root file system is read-only."""
    return core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=core.v1.CapabilitiesArgs(drop=["ALL"]),
    )
