"""What becomes of a change of the Pod that the operator alone makes: another image, another template.

A change that the spec asks for restarts the server at once, unless it waits for an approval. A later
operator's does not: the StatefulSet is brought up to date and holds the Pod back, as `spec.updates` says,
until a turn, a restart or a word lets it go. All that is to be known for that stands in the StatefulSet: so
it is the same after any restart of ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kindling.kinds import exporter, pod_template, server_tls
from kindling.kinds.base import Observed
from kindling.kinds.planned import Disruption
from kindling.kinds.pods import pod_ready
from kindling.kinds.postgresql import (
    approval,
    client_certificates,
    maintenance_window,
    observation,
    server_log,
    server_restart,
    tls,
)
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kube.resources import Object

AUTO, ON_RESTART, MANUAL = "Auto", "OnRestart", "Manual"

SPEC_HASH = "kindling.dev/asked"
"""Annotation of the StatefulSet: a hash of what the spec says about the Pod."""
TEMPLATE = "kindling.dev/template"
"""Another: a hash of the template as it was desired last."""
IMAGE = "kindling.dev/image"
"""And the image that the Pod runs: the template's, or where the Pod is held back, that of the one before."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` writes into the template."""

AT_ONCE: Object = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
ON_DELETE: Object = {"type": "OnDelete", "rollingUpdate": None}
# A Pod below the partition is of the revision before, even one that is created again.
PARTITIONED: Object = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}


@dataclass(frozen=True, kw_only=True)
class Update:
    """How the StatefulSet is to be updated.

    `held`: the Pod is of an earlier template, and stays. `waits`: it is to be restarted, in its turn.
    `image` is what the Pod runs meanwhile.
    """

    strategy: Object
    annotations: Mapping[str, str]
    image: str
    held: bool = False
    wants_restart: bool = False


def policy(cr: Object) -> str:
    """What `spec.updates` says; without it, ephemeral data is not wiped by an operator's upgrade."""
    given = (cr.get("spec") or {}).get("updates")
    return str(given) if given else ON_RESTART if is_ephemeral(cr) else AUTO


def spec_hash(cr: Object, *, restart_token: str, archives: bool | str = False) -> str:
    """A hash of what the spec says about the Pod, and of `restart.restart_token`.

    `archives`: a Backup is a user's word too, and so is the claim that it stores on.

    Whatever else of a spec comes to enter the template is to be added here, or its edit is held back as if it
    were the operator's own (test_postgresql_updates compares the two). What is left out does not count, so
    that a hash stays as it is when a later operator knows more fields.
    """
    spec = cr.get("spec") or {}
    fields: dict[str, Any] = {
        name: spec.get(name) for name in ("image", "imagePullSecrets", "resources", "shutdownSeconds")
    } | {"parameters": restart_token, "podTemplate": _placed(cr)}
    if archives:
        fields |= {"archives": archives}
    if exporter.is_enabled(cr):
        fields |= {"exporter": exporter.asked(cr)}
    if not tls.is_enabled(cr):
        fields |= {"tls": "off"}
    if server_log.is_json(cr):
        fields |= {"logging": server_log.JSON}
    if is_ephemeral(cr):
        fields |= {"ephemeral": True, "size": (spec.get("storage") or {}).get("size")}
    return _hash({name: value for name, value in fields.items() if value})


def _placed(cr: Object) -> Object:
    """What of `spec.podTemplate` enters the Pod: no empty list of spread constraints, it has none to lose."""
    return {name: value for name, value in pod_template.read(cr).items() if value}


def restart_disruption(cr: Object) -> Disruption:
    """What a restart of the server costs."""
    return Disruption.DATA_LOST if is_ephemeral(cr) else Disruption.RESTART


def decide(
    cr: Object, observed: Observed, *, template: Object, restart_token: str, archives: bool | str = False
) -> Update:
    """How the StatefulSet gets this template, and whether its Pod follows."""
    wanted_hash, template_hash, image = (
        spec_hash(cr, restart_token=restart_token, archives=archives),
        _hash(template),
        _image(template),
    )
    pod = observation.find_pod(cr, observed)
    replaced = pod["metadata"]["uid"] if pod is not None else ""
    act = approval.awaited(cr, observed, restart_disruption(cr), "restart", template_hash, replaced)
    if act is not None and (
        before := _before_an_edit(cr, observed, spec_hash=wanted_hash, template_hash=template_hash)
    ):
        # The hash of before stays noted: so it is a user's edit still, whenever it is approved.
        noted = _annotations(before.spec_hash, template_hash, before.image, awaits=act)
        return Update(strategy=PARTITIONED, annotations=noted, image=before.image, held=True)
    running = _outstanding(
        cr, observed, template=template, spec_hash=wanted_hash, template_hash=template_hash
    )
    if running is None:
        # A restart within the Pod changes nothing of the template; while it waits, it is noted all the same.
        noted = _annotations(wanted_hash, template_hash, image, awaits=server_restart.awaited(cr, observed))
        return Update(strategy=AT_ONCE, annotations=noted, image=image)
    held = _annotations(wanted_hash, template_hash, running)
    rule = policy(cr)
    if rule == MANUAL:
        return Update(strategy=PARTITIONED, annotations=held, image=running, held=True)
    waits = rule == AUTO and running != image and pod is not None
    down = observation.is_down(pod)
    if waits and act is not None and not down:
        noted = _annotations(wanted_hash, template_hash, running, awaits=act)
        return Update(strategy=ON_DELETE, annotations=noted, image=running, held=True)
    # A server that is down loses nothing by a restart, and may need this very update.
    if waits and (_may_go(cr, observed) or down):
        return Update(
            strategy=AT_ONCE, annotations=_annotations(wanted_hash, template_hash, image), image=image
        )
    return Update(strategy=ON_DELETE, annotations=held, image=running, held=True, wants_restart=waits)


@dataclass(frozen=True, kw_only=True)
class _Before:
    """What the StatefulSet notes of the Pod before an edit: the hash of its spec, and its image."""

    spec_hash: str
    image: str


def _before_an_edit(cr: Object, observed: Observed, *, spec_hash: str, template_hash: str) -> _Before | None:
    """That, where an edit of the spec replaces the Pod; None where it replaces none."""
    workload = observation.find_workload(cr, observed)
    if workload is None:
        return None
    notes = workload["metadata"].get("annotations") or {}
    noted, pod = notes.get(SPEC_HASH), observation.find_pod(cr, observed)
    serves = pod is not None and pod_ready(pod)
    # A server that does not serve may need this very edit. One that waited before goes on waiting.
    if noted in (None, spec_hash) or not (serves or approval.noted(workload)):
        return None
    if not _is_outdated(workload, pod, template_hash):
        return None
    return _Before(spec_hash=noted, image=_running_image(workload))


def _is_outdated(workload: Object, pod: Object | None, template_hash: str) -> bool:
    """Whether the Pod lacks something of this template. One of an operator that did not note it does too,
    until its revision shows that nothing has changed.
    """
    changed = (workload["metadata"].get("annotations") or {}).get(TEMPLATE) != template_hash
    return changed or (observation.is_held(workload) and not observation.is_updated(workload, pod))


def _running_image(workload: Object) -> str:
    """What the Pod runs, by the StatefulSet's note while it holds that back."""
    notes = workload["metadata"].get("annotations") or {}
    held = observation.is_held(workload) and IMAGE in notes
    return str(notes[IMAGE]) if held else image_of(workload)


def _outstanding(
    cr: Object, observed: Observed, *, template: Object, spec_hash: str, template_hash: str
) -> str | None:
    """The image that the Pod runs, where it lacks a change that is the operator's alone; else None."""
    workload = observation.find_workload(cr, observed)
    if workload is None:
        return None
    notes = workload["metadata"].get("annotations") or {}
    present = (workload.get("spec") or {}).get("template") or {}
    pod = observation.find_pod(cr, observed)
    if notes.get(SPEC_HASH, spec_hash) != spec_hash or _restart_requested(present, pod):
        return None
    asks_for_tls = tls.is_requested(cr) or client_certificates.methods(cr)
    if asks_for_tls and pod is not None and not server_tls.is_active(pod):
        return None  # asked for by the spec, though no other field shows that
    if not _is_outdated(workload, pod, template_hash):
        return None
    return _running_image(workload) or _image(template)


def _may_go(cr: Object, observed: Observed) -> bool:
    return observed.restart_slot.granted and maintenance_window.opens(cr, observed.now) is None


def _restart_requested(template: Object, pod: Object | None) -> bool:
    """Whether `kubectl rollout restart` was said since this Pod was made."""
    fields = ((template.get("metadata") or {}).get("annotations") or {}).get(RESTARTED_AT)
    if not fields or pod is None:
        return False
    return bool((pod["metadata"].get("annotations") or {}).get(RESTARTED_AT) != fields)


def _annotations(
    wanted_hash: str, template_hash: str, image: str, *, awaits: approval.Act | None = None
) -> dict[str, str]:
    waits = {} if awaits is None else {approval.AWAITED: approval.note(awaits)}
    return {SPEC_HASH: wanted_hash, TEMPLATE: template_hash, IMAGE: image, **waits}


def image_of(workload: Object) -> str:
    """The server's image in the StatefulSet's template."""
    return _image((workload.get("spec") or {}).get("template") or {})


def _image(template: Object) -> str:
    for container in (template.get("spec") or {}).get("containers") or ():
        if container.get("name") == "postgres":
            return str(container.get("image") or "")
    return ""


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
