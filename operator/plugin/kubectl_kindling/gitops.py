"""Which tool writes a resource from Git, as its marks on the resource say. Pure."""

from __future__ import annotations

from kubectl_kindling import facts
from kubectl_kindling.kubectl import Object

MARKS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
    "meta.helm.sh/release-name": "Helm",
}
"""A label or annotation by the tool that writes it."""


def tool_of(resource: Object) -> str:
    """Argo CD, Flux or Helm; empty where no mark names one."""
    meta = facts.meta(resource)
    present = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    return next((tool for mark, tool in MARKS.items() if mark in present), "")


def note(resource: Object, *, field: str = "spec.hibernate") -> str:
    """What becomes of the field when it is set by hand."""
    tool = tool_of(resource)
    if tool == "Helm":
        return f"Helm installed this resource: the next `helm upgrade` may set {field} back."
    if tool:
        return f"{tool} applies this resource, and may set {field} back. Change it in Git, too."
    return f"A GitOps tool that applies this resource may set {field} back. Change it in Git, too."


def note_of_restart() -> str:
    """The annotation is on the StatefulSet, which the operator makes and no tool has in Git."""
    return (
        "The restart is an annotation of the StatefulSet. A GitOps tool that applies the StatefulSet, too, "
        "may set it back, and that restarts the server once more."
    )
