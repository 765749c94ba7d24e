"""`status.plan`: what would be done to the children and in the server, and what each of it disrupts.

The children's part is what the engine would write (`SyncResult.changes`); the server's is its answer to a
look without any change. So the plan of what is settled is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kindling.kinds import planned, reasons
from kindling.kinds.base import ExternalResult, Observed, SyncResult
from kindling.kinds.planned import CREATE, DELETE, UPDATE, Change, Disruption, Item
from kindling.kinds.postgresql import (
    approval,
    causes,
    config,
    credentials,
    drops,
    growth,
    login,
    objects,
    observation,
    password,
    restart_time,
    roles,
    secrets,
    server_restart,
    volume,
)
from kindling.kinds.postgresql.hibernation import is_to_stop
from kindling.kinds.postgresql.spec import MODE, is_ephemeral, is_planned, plan_for
from kindling.kube.resources import CONFIG_MAP, SECRET, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

CHANGED = "is created or changed; sessions stay"
WITHIN_POD = "one restart of the server within its Pod, in about a second"
DATA_GOES = "one restart, and the data, which is ephemeral, is lost"

_FIELD = re.compile(r"spec(?:\.[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]\s]*\])?)+")


def proposed(cr: Object, other: Object | None) -> Object:
    """The Postgresql that `spec.planFor` names, with this spec. Another generation than either has.

    A password in its spec is its own: it is in no plan.
    """
    spec = {name: value for name, value in cr["spec"].items() if name != "planFor"}
    if other is None:
        return {**cr, "metadata": {**cr["metadata"], "name": plan_for(cr)}, "spec": spec, "status": {}}
    own = (other.get("spec") or {}).get("password")
    if own is not None and "password" not in spec and "passwordSecretRef" not in spec:
        spec["password"] = own
    generation = int(other["metadata"].get("generation", 0)) + int(cr["metadata"].get("generation", 0))
    return {**other, "metadata": {**other["metadata"], "generation": generation}, "spec": spec}


def status(cr: Object, observed: Observed, sync: SyncResult) -> Object:
    """The part of the status; nothing where no plan is asked for."""
    if not sync.paused or not is_planned(cr):
        return {}
    return {"plan": planned.written(items(cr, observed, sync))}


def items(cr: Object, observed: Observed, sync: SyncResult) -> list[Item]:
    """In the order in which all of it would be done."""
    if sync.problem is not None:
        fields = [name for name in _FIELD.findall(sync.problem.message) if name != MODE]
        return [Item(action=planned.REFUSE, fields=fields[:1], message=sync.problem.message)]
    found = [_child(cr, observed, change) for change in sync.changes]
    restarts = any(_interrupts(item) for item in found)
    found += _server(cr, observed, restarts=restarts)
    larger = volume.larger(cr, observed)
    if larger is not None:
        found.append(Item(action=planned.REFUSE, fields=[causes.SIZE], message=larger))
    return found


def disruption_of(cr: Object, observed: Observed, change: Change) -> Disruption:
    return _effect(cr, observed, change)[0]


def _interrupts(item: Item) -> bool:
    return item.disruption in (Disruption.RESTART, Disruption.DATA_LOST, Disruption.STOP)


def _child(cr: Object, observed: Observed, change: Change) -> Item:
    disruption, message = _effect(cr, observed, change)
    return Item(
        action=change.action,
        object=planned.named(change.ref),
        fields=causes.causes(cr, observed, change),
        disruption=disruption,
        message=message,
        seconds=_seconds(cr) if disruption == Disruption.RESTART else None,
    )


def _effect(cr: Object, observed: Observed, change: Change) -> tuple[Disruption, str]:
    if change.action == CREATE:
        return Disruption.NONE, "is created"
    if change.action == DELETE:
        return planned.of_change(change), "is deleted"
    if change.ref.type == STATEFUL_SET:
        return _workload(cr, observed, change)
    why = ", which another writer has changed" if change.drift else ""
    if change.ref.type == VOLUME_CLAIM and any(path[:1] == ("spec",) for path in change.paths):
        return Disruption.NONE, f"asks for {growth.size(cr, observed)}; the server runs on"
    rules = change.ref.type == CONFIG_MAP and ("data", config.HBA_FILE) in change.paths
    if rules and not change.drift and causes.rules_differ(cr, observed):
        return Disruption.RELOAD, "the server reads its rules of login again; sessions stay"
    return Disruption.NONE, f"is updated{why}"


def _workload(cr: Object, observed: Observed, change: Change) -> tuple[Disruption, str]:
    """The same that the StatefulSet's controller makes of it: a Pod is replaced, stopped, made, or stays."""
    workload, pod = observation.find_workload(cr, observed), observation.find_pod(cr, observed)
    replaced = causes.replaces_pod(change)
    if ("spec", "replicas") in change.paths:
        if not is_to_stop(cr, observed):
            return Disruption.NONE, "the server starts"
        return (Disruption.STOP if pod is not None else Disruption.NONE), "the server stops; its data is kept"
    if pod is None or workload is None:
        return Disruption.NONE, "its next Pod is made so" if replaced else "is updated"
    outdated = observation.is_held(workload) and not observation.is_updated(workload, pod)
    if not replaced and not outdated:
        return Disruption.NONE, "is updated"
    if approval.PATH in change.paths:
        return _restart(cr, ", once it is approved")
    if change.held:
        return Disruption.NONE, "is updated; the Pod stays until it is restarted, as spec.updates says"
    return _restart(cr)


def _restart(cr: Object, when: str = "") -> tuple[Disruption, str]:
    if is_ephemeral(cr):
        return Disruption.DATA_LOST, f"{DATA_GOES}{when}"
    return Disruption.RESTART, f"{one_restart(cr)}{when}"


def one_restart(cr: Object) -> str:
    seconds = _seconds(cr)
    return f"one restart, {'not measured yet' if seconds is None else f'about {seconds} s'}"


def _seconds(cr: Object) -> int | None:
    """How long the last restart took, by the status."""
    found = (cr.get("status") or {}).get(restart_time.LAST_RESTART)
    return int(found) if found else None


def _server(cr: Object, observed: Observed, *, restarts: bool) -> list[Item]:
    """What would be done in the server that runs. One that is hibernated or new has it from its start."""
    wanted = login.desired(cr, observed)
    if wanted is None:
        return [] if observation.find_pod(cr, observed) is None else _unknown(cr, observed)
    answer = observed.result(login.SERVER, wanted.cache_key)
    if answer is None:
        return [_compare("the parameters and the login", login.SERVER)]
    found = [*_login(cr, observed, answer), *_parameters(cr, observed, answer, restarts=restarts)]
    listed = objects.desired(cr, observed, wanted)
    if listed is None:
        return found
    said = observed.result(objects.OBJECTS, listed.cache_key)
    asked = {str(role["name"]) for role in listed.roles}
    return [
        *found,
        *(_objects(cr, said) if said is not None else [_compare("the roles and databases")]),
        *(_role(name) for name in _waiting(cr, observed) if name not in asked),
    ]


def _waiting(cr: Object, observed: Observed) -> list[str]:
    """Roles with whose Secret nothing is wrong; where that is not made yet, the server is not asked."""
    return [role.name for role in roles.read(cr) if roles.problem(role, cr, observed) is None]


def _role(name: str) -> Item:
    return Item(
        action=planned.CONFIGURE, object=objects.OBJECTS, fields=[roles.path_of(name)], message=CHANGED
    )


def _compare(what: str, member: str = objects.OBJECTS) -> Item:
    return Item(
        action=planned.COMPARE,
        object=member,
        disruption=Disruption.UNKNOWN,
        message=f"the server has not said yet how {what} differ; wait",
    )


def _unknown(cr: Object, observed: Observed) -> list[Item]:
    """A server that cannot be asked: where its parameters change, whether it has to be restarted is open."""
    names = causes.parameters_that_differ(cr, observed)
    if not names:
        return []
    return [
        Item(
            action=planned.COMPARE,
            object=login.SERVER,
            fields=sorted(causes.of_parameters(cr, observed, names)),
            disruption=Disruption.UNKNOWN,
            message="the server is not ready and cannot say which of these need a restart",
        )
    ]


def _login(cr: Object, observed: Observed, answer: ExternalResult) -> list[Item]:
    if login.lets_in(answer):
        return []
    if answer.reason != reasons.PAUSED:
        return [
            Item(
                action=planned.COMPARE,
                object=login.SERVER,
                disruption=Disruption.UNKNOWN,
                message=f"the server could not be compared: {answer.message}",
            )
        ]
    fields = causes.password_fields(cr)
    found = [
        Item(
            action=planned.CONFIGURE,
            object=login.SERVER,
            fields=fields,
            message="the default user's password is set; sessions stay",
        )
    ]
    if secrets.bound(cr, observed) not in (
        None,
        (credentials.login_of(cr), password.password_of(cr, observed)),
    ):
        ref = Ref(SECRET, cr["metadata"]["namespace"], secrets.binding_name(cr))
        found.append(
            Item(action=UPDATE, object=planned.named(ref), fields=fields, message="is updated after that")
        )
    return found


def _parameters(cr: Object, observed: Observed, answer: ExternalResult, *, restarts: bool) -> list[Item]:
    differing = dict(answer.facts.get("differing") or {})
    differing |= dict.fromkeys(answer.facts.get("pending_restart") or (), True)
    if not differing:
        return []
    disruption, message, seconds = Disruption.RELOAD, "put into force by a reload; sessions stay", None
    if restarts:
        disruption, message = Disruption.NONE, "come with the restart"
    elif any(differing.values()):
        names = ", ".join(sorted(name for name, restart in differing.items() if restart))
        disruption, seconds = Disruption.RESTART, _seconds(cr)
        within_pod = server_restart.is_possible(cr, observed)
        what = WITHIN_POD if within_pod else one_restart(cr)
        message = f"{what}, which {names} {'need' if ',' in names else 'needs'}"
        if within_pod:
            seconds = None  # what was measured is a Pod's
        elif is_ephemeral(cr):
            disruption, message, seconds = Disruption.DATA_LOST, DATA_GOES, None
    return [
        Item(
            action=planned.CONFIGURE,
            object=login.SERVER,
            fields=sorted(causes.of_parameters(cr, observed, differing)),
            disruption=disruption,
            message=message,
            seconds=seconds,
        )
    ]


def _objects(cr: Object, answer: ExternalResult) -> Sequence[Item]:
    found = []
    for what in ("databases", "roles"):
        dropped = drops.all_of(cr, what)
        for name, (reason, message) in sorted((answer.facts.get(what) or {}).items()):
            lost = what == "databases" and name in dropped
            fields = [roles.path_of(name) if what == "roles" else f"spec.{what}[{name}]"]
            text = CHANGED
            if name in dropped:
                text = "is dropped, with all of its data" if lost else "is dropped"
            if reason == reasons.PAUSED:
                found.append(
                    Item(
                        action=planned.CONFIGURE,
                        object=objects.OBJECTS,
                        fields=fields,
                        disruption=Disruption.DATA_LOST if lost else Disruption.NONE,
                        message=text,
                    )
                )
            else:
                refused = Item(
                    action=planned.REFUSE,
                    object=objects.OBJECTS,
                    fields=fields,
                    message=message,
                )
                found.append(refused)
    return found
