"""What a requester must be allowed beside writing our kinds, as ValidatingAdmissionPolicies: pure.

The operator reads Secrets, starts Pods and looks at Pods with rights of its own, for whoever may write a
resource. So each policy asks the authorizer whether the requester might do the same without it. Which
fields name Secrets, images and variables, or shape Pods and Services, is read from the CRDs: none can be
forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra import cel
from infra.cel import Path

Manifest = Mapping[str, Any]

COMMAND_PARAMETERS = (
    "archive_cleanup_command",
    "archive_command",
    "archive_library",
    "basebackup_to_shell.command",
    "dynamic_library_path",
    "extension_control_path",
    "extension_destdir",  # Debian's.
    "jit_provider",
    "local_preload_libraries",
    "oauth_validator_libraries",
    "plperl.on_init",
    "plperl.on_plperl_init",
    "plperl.on_plperlu_init",
    "pltcl.start_proc",
    "pltclu.start_proc",
    "recovery_end_command",
    "restore_command",
    "session_preload_libraries",
    "shared_preload_libraries",
    "ssl_passphrase_command",
)
"""The parameters of PostgreSQL, of its own libraries too, that run a command or load code.

Some of them the CRD refuses to everybody. A test compares them with what real servers have.
"""

# By kind: the map of PostgreSQL's parameters; what decides who gets the Secrets that are named; the URL of a
# store, which may be a claim; the Pod whose existence the status reveals; the issuer that a Certificate is
# made for; what makes a Postgresql, or replaces its data; what gives a binding to another namespace.
_PARAMETERS = {"Postgresql": "parameters"}
_DESTINATIONS = {
    "PulsarConsumer": ("serverAddress", "adminURL", "auth.oauth2.issuerURL"),
    "Backup": ("targetURL", "endpointURL"),
}
_VOLUMES = {"Backup": "targetURL", "Restore": "source.targetURL"}
_POD_NAMES = {"MyCustomResource": "name"}
_ISSUERS = {"Postgresql": "tls.issuerRef"}
_WRITES_DATABASES = ("Restore",)
_EXPORTS = {"Postgresql": "bindingExports"}

SECRETS = 16
"""How many Secrets a request may newly name for one who may not get all of the namespace's.

An authorizer's check is dear: Kubernetes admits two in an expression and 28 in a policy.
"""
NAMESPACES = 20
"""For how many served namespaces the right to get a Pod is asked one by one."""


@dataclass(frozen=True)
class Policy:
    """A ValidatingAdmissionPolicy's name and spec; its binding, of the same name, enforces it everywhere."""

    name: str
    spec: Mapping[str, Any]

    @property
    def binding(self) -> dict[str, Any]:
        """The binding's spec."""
        return {"policyName": self.name, "validationActions": ["Deny"]}


def policies(crds: Sequence[Manifest], *, served: Sequence[str] = ()) -> list[Policy]:
    """One policy for each kind that needs one, for all of its groups.

    `served` are the namespaces in which the operator looks for Pods; none named means all.
    """
    found = []
    for kind in dict.fromkeys(str(crd["spec"]["names"]["kind"]) for crd in crds):
        of_kind = [crd for crd in crds if crd["spec"]["names"]["kind"] == kind]
        asked = _Asked(kind, [{"properties": properties_of_spec(crd)} for crd in of_kind], served)
        if asked.validations:
            found.append(Policy(f"kindling-{kind.lower()}", _policy(of_kind, asked)))
    return found


def _policy(crds: Sequence[Manifest], asked: _Asked) -> dict[str, Any]:
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [crd["spec"]["group"]],
                    "apiVersions": [version["name"] for version in crd["spec"]["versions"]],
                    "resources": [crd["spec"]["names"]["plural"]],
                    "operations": ["CREATE", "UPDATE"],
                }
                for crd in crds
            ]
        },
        # Whoever writes metadata alone (the garbage collector, GitOps) asks nothing of the operator.
        "matchConditions": [
            {
                "name": "spec-is-new",
                "expression": "request.operation == 'CREATE' || object.?spec != oldObject.?spec",
            }
        ],
        "variables": [{"name": name, "expression": text} for name, text in asked.variables.items()],
        "validations": asked.validations,
    }


class _Asked:
    """The variables and validations of one kind's policy; no validations where there is nothing to ask."""

    def __init__(self, kind: str, specs: Sequence[Manifest], served: Sequence[str]) -> None:
        self.variables = {
            "spec": "object.?spec.orValue(dyn({}))",
            "old": "request.operation == 'UPDATE' ? oldObject.?spec.orValue(dyn({})) : dyn({})",
        }
        self.validations: list[dict[str, Any]] = []
        references = _union(secret_references(spec) for spec in specs)
        images = _union(_named(spec, "image") for spec in specs)
        environments = _union(_named(spec, "env") for spec in specs)
        images += _union(_handlers(spec) for spec in specs)
        templates = _union(_named(spec, "podTemplate") for spec in specs)
        templates += _union(_words(spec) for spec in specs)
        if images or environments or templates or kind in _PARAMETERS:
            self._commands(images, environments, templates, _PARAMETERS.get(kind))
        services = _union(_named(spec, "serviceTemplate") for spec in specs)
        if services:
            self._services(services)
        if references:
            destinations = [*images, *map(_path, _DESTINATIONS.get(kind, ()))]
            self._secrets(references, destinations, exported=_EXPORTS.get(kind))
        if kind in _ISSUERS:
            self._issuer(_path(_ISSUERS[kind]))
        if kind in _VOLUMES:
            self._volume(_path(_VOLUMES[kind]))
        if kind in _WRITES_DATABASES:
            self._databases()
        if kind in _POD_NAMES:
            self._pod(_POD_NAMES[kind], served)

    def _commands(
        self,
        images: Sequence[Path],
        environments: Sequence[Path],
        templates: Sequence[Path],
        parameters: str | None,
    ) -> None:
        """Who chooses what runs in the Pods might as well create them.

        So it is with their labels, by which Services and policies of others select, with where they run, and
        with their account: whoever may create Pods may give them any account of the namespace.
        """
        parts = [cel.changed(path) for path in images]
        parts += [cel.newly_set(path) for path in templates]
        parts += [cel.new_entries(path) for path in environments]
        if parameters is not None:
            parts.append(cel.new_keys(parameters, COMMAND_PARAMETERS))
        self.variables["commands"] = " + ".join(parts)
        self._ask(
            "size(variables.commands) == 0 || " + cel.may("create", "pods"),
            "variables.commands[0] + ' decides about the Pods, and you may not create Pods in"
            " namespace ' + request.namespace + ': leave it out, or ask for the right to create pods there'",
            "spec decides about the Pods, and you may not create Pods in its namespace: leave out image, env,"
            " handler, podTemplate and parameters that run commands, or ask for the right to create pods"
            " there",
        )

    def _services(self, templates: Sequence[Path]) -> None:
        """Who opens a Service to other networks might as well create one.

        So it is with annotations, by which controllers with rights in a cloud or in DNS are instructed.
        """
        self.variables["services"] = " + ".join(cel.newly_set(path) for path in templates)
        self._ask(
            "size(variables.services) == 0 || " + cel.may("create", "services"),
            "variables.services[0] + ' decides about the Service, and you may not create Services in"
            " namespace ' + request.namespace + ': leave it out, or ask for the right to create services"
            " there'",
            "spec decides about the Service, and you may not create Services in its namespace: leave out"
            " serviceTemplate, or ask for the right to create services there",
        )

    def _issuer(self, path: Path) -> None:
        """Who has a certificate issued might as well create the Certificate: which issuers that may name, and
        for which names, is cert-manager's to say.
        """
        field = ".".join(name for name, _ in path)
        may = cel.may("create", "certificates", group="'cert-manager.io'")
        self._ask(
            f"!{cel.is_changed(path)} || {may}",
            f'"spec.{field}.name \'" + variables.spec.{field}.name + "\': this has a Certificate made, and'
            " you may not create certificates.cert-manager.io in namespace '\" + request.namespace + \"':"
            ' leave it out, or ask for the right to create certificates there"',
            "spec has a Certificate made, and you may not create certificates.cert-manager.io in its"
            " namespace: leave issuerRef out, or ask for the right",
        )

    def _volume(self, path: Path) -> None:
        """Who has a claim mounted might as well create a Pod, which may mount any claim of the namespace."""
        field = ".".join(name for name, _ in path)
        url = f"variables.spec.{field}"
        self._ask(
            f"!({cel.is_changed(path)} && {url}.startsWith('pvc://')) || " + cel.may("create", "pods"),
            f'"spec.{field} \'" + {url} + "\': this has a claim mounted, and you may not create Pods in'
            " namespace '\" + request.namespace + \"': name a store of another kind, or ask for the right to"
            ' create pods there"',
            f"spec.{field} has a claim mounted, and you may not create Pods in its namespace: name a store of"
            " another kind, or ask for the right to create pods there",
        )

    def _secrets(
        self, references: Sequence[Path], destinations: Sequence[Path], *, exported: str | None
    ) -> None:
        """Each Secret once, by taking the first name's entries out of the rest.

        Who gives a binding to another namespace might as well read it and create it there.
        """
        self.variables["moved"] = " || ".join(map(cel.is_changed, destinations)) or "false"
        self.variables["secrets0"] = " + ".join(
            cel.references(path, again="variables.moved") for path in references
        )
        if exported is not None:
            self.variables["secrets0"] += " + " + _exported(exported)
        self.variables["mayGetAll"] = cel.may("get", "secrets")
        most = SECRETS if any(cel.is_list(path) for path in references) else len(references)
        for number in range(most):
            named = f"variables.secrets{number}"
            self._ask(
                f"size({named}) == 0 || variables.mayGetAll || "
                + cel.may("get", "secrets", name=f"{named}[0].name"),
                f'{named}[0].field + " \'" + {named}[0].name + "\': what this Secret of namespace \'"'
                " + request.namespace + \"' holds would be used for you, and you may not get it: name one"
                ' that you may get, or ask for the right to get secrets of that name there"',
                "spec names a Secret that you may not get: name one that you may get, or ask for the right",
            )
            self.variables[f"secrets{number + 1}"] = f"{named}.filter(s, s.name != {named}[0].name)"
        if most < SECRETS:
            del self.variables[f"secrets{most}"]
            return
        rest = f"variables.secrets{most}"
        self._ask(
            f"size({rest}) == 0 || variables.mayGetAll",
            f'{rest}[0].field + " \'" + {rest}[0].name + "\': more than {most} Secrets are named at once, and'
            " you may not get all Secrets of namespace '\" + request.namespace + \"': add them in several"
            ' steps, or ask for the right to get secrets there"',
            f"spec names more than {most} Secrets at once: add them in several steps",
        )

    def _databases(self) -> None:
        """Who has a Postgresql made might as well create it; who has its data replaced, or databases loaded
        by its superuser, might edit it. A copy that is checked gives its data to nobody, but to the queries
        that are asked of it: those who write them might write the Backup's own. Who names a repository by
        itself may read it, which was asked already: they may get its Secrets, or create Pods with its claim.
        """
        self.variables["database"] = "variables.spec.databaseRef.name"
        self.variables["group"] = "variables.spec.databaseRef.?group.orValue('database.technotuesday.io')"
        self.variables["makes"] = "variables.spec.?into.orValue('New') == 'New'"
        self.variables["writes"] = "!variables.makes && variables.spec.into != 'Verify'"
        may = {"group": "variables.group"}
        update = cel.may("update", "postgresqls", name="variables.database", **may)
        for condition, allowed, verb, what in (
            ("variables.makes", cel.may("create", "postgresqls", **may), "create", "makes a Postgresql"),
            ("variables.writes", update, "update", "replaces or adds data of that Postgresql"),
        ):
            self._ask(
                f"!({condition}) || {allowed}",
                f'"spec.databaseRef.name \'" + variables.database + "\': this {what}, and you may not {verb}'
                f" postgresqls in namespace '\" + request.namespace + \"': ask for the right to {verb} them"
                ' there"',
                f"spec {what}, and you may not {verb} postgresqls in its namespace: ask for the right",
            )
        self.variables["backup"] = "variables.spec.source.?backupRef.?name.orValue('')"
        update = cel.may("update", "backups", group="'database.technotuesday.io'", name="variables.backup")
        self._ask(
            "size(variables.spec.?verify.?queries.orValue([])) == 0 || variables.backup == '' || " + update,
            '"spec.verify.queries: these read what Backup \'" + variables.backup + "\' has stored, and you'
            " may not update backups in namespace '\" + request.namespace + \"': leave them out, and those of"
            ' the Backup are asked, or ask for the right to update backups there"',
            "spec.verify.queries reads the data, and you may not update backups in its namespace: leave it"
            " out, or ask for the right",
        )

    def _pod(self, field: str, served: Sequence[str]) -> None:
        """The status reveals whether there is such a Pod, wherever the operator looks."""
        path: Path = ((field, ""),)
        name = f"variables.spec.{field}"
        self.variables["everywhere"] = cel.may("get", "pods", name=name, namespace=None)
        places = served if len(served) <= NAMESPACES else ()
        for place in places or (None,):
            here = "variables.everywhere"
            if place is not None:
                here += " || " + cel.may("get", "pods", name=name, namespace=f"'{place}'")
            where = "all namespaces" if place is None else f"namespace {place}"
            self._ask(
                f"!({cel.is_changed(path)}) || {here}",
                f'"spec.{field} \'" + {name} + "\': the status would show whether there is such a Pod in'
                f" {where}, and you may not get it there: ask for the right to get pods of that name in"
                f' {where}"',
                f"spec.{field} names a Pod that you may not get in {where}: ask for the right",
            )

    def _ask(self, expression: str, message_expression: str, message: str) -> None:
        self.validations.append(
            {
                "expression": expression,
                "messageExpression": message_expression,
                # Where the other cannot be made.
                "message": message,
                "reason": "Forbidden",
            }
        )


def _exported(field: str) -> str:
    """A list of `{field, name}` of the bindings that are newly given: the Secrets that the operator makes."""
    entries = [f"{root}.?{field}.orValue(dyn([]))" for root in (cel.NEW, cel.OLD)]
    name = "object.metadata.name + (has(e.role) ? '-role-' + string(e.role).replace('_', '-') : '-binding')"
    shown = f"'spec.{field}[' + e.namespace + '/' + e.name + ']'"
    return f"{entries[0]}.filter(e, !(e in {entries[1]})).map(e, {{'field': {shown}, 'name': {name}}})"


def secret_references(spec: Manifest) -> list[Path]:
    """Every field of a spec's schema that names a Secret: an object with its `name`, a list of such, or where
    it is called `secretName`, the name itself.
    """
    return [
        path
        for path, schema in fields(spec)
        if path[-1][0] == "secretName"
        or ("secret" in path[-1][0].lower() and "name" in _properties(schema.get("items", schema)))
    ]


def fields(schema: Manifest, path: Path = ()) -> Iterator[tuple[Path, Manifest]]:
    """Every field below a schema, those in lists too, with its own schema."""
    for name, field in _properties(schema).items():
        items = field.get("items")
        if items is None:
            yield (*path, (name, "")), field
            yield from fields(field, (*path, (name, "")))
        else:
            # What distinguishes entries for a person, where the list has it.
            key = next(iter(field.get("x-kubernetes-list-map-keys", ())), cel.NO_KEY)
            yield (*path, (name, key)), field
            yield from fields(items, (*path, (name, key)))


def _named(spec: Manifest, name: str) -> list[Path]:
    return [path for path, _ in fields(spec) if path[-1][0] == name]


def _handlers(spec: Manifest) -> list[Path]:
    """What says which code runs, or to whom messages are sent: all texts of `handler`."""
    return [
        path
        for path, schema in fields(spec)
        if path[0][0] == "handler" and schema.get("type") == "string" and not cel.is_list(path)
    ]


def _words(spec: Manifest) -> list[Path]:
    """What says how a handler's program is called: the lists of words of `handler`."""
    return [
        (*path[:-1], (path[-1][0], ""))
        for path, schema in fields(spec)
        if path[0][0] == "handler" and (schema.get("items") or {}).get("type") == "string"
    ]


def properties_of_spec(crd: Manifest) -> Mapping[str, Any]:
    """The served version's fields of the spec; of several versions they say the same."""
    schema = crd["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]
    return _properties(_properties(schema).get("spec", {}))


def _properties(schema: Manifest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties") or {}
    return found


def _path(words: str) -> Path:
    return tuple((name, "") for name in words.split("."))


def _union(paths: Any) -> list[Path]:
    return list(dict.fromkeys(path for some in paths for path in some))
