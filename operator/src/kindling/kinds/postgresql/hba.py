"""spec.hba: lines of pg_hba.conf, put between the operator's own, so that none keeps the operator out.

The first line that matches a connection decides about it. So the operator's come first: those of the roles
that have to show a certificate, its own role's, the default user's to its own database, whose login is what
Ready says, and the exporter's. Then come those of the spec, and last the one that every server has: everybody
with their password.

What the CRD admits, every PostgreSQL can read: a line that it cannot read would keep a server from
starting. Whether a running one has it in force, the server says (`kindling.prober.hba`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from kindling.kinds import exporter, reasons
from kindling.kinds.base import ExternalResult, Observed, Problem
from kindling.kinds.postgresql import client_certificates, init_sql, postgres_exporter, roles, tls
from kindling.kinds.postgresql.credentials import logins
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.postgresql.spec import SUPERUSER, user_of
from kindling.kube.resources import Object

FIELD = "hba"
"""Of the spec and of the status, and of what the server says."""
METHODS = ("scram-sha-256", "reject")
MOST_RULES, LONGEST_RULE = 128, 1024
"""Of the status: the lines that a spec may have and the operator's, each as the server repeats it."""

# Inside the Pod the server's own system user is the superuser (the way back in when the Secret is
# lost); from anywhere else everyone needs their password.
DEFAULT = f"""\
local all {SUPERUSER} peer map=kindling
local all all scram-sha-256
host all all all scram-sha-256
"""
_ANY, _TLS = "\nhost all all ", "\nhostssl all all "
_NAMES_IN_A_LINE = 8
"""Of roles that have to show a certificate: 200 are at most 51 lines, none longer than LONGEST_RULE."""
_CERTIFIED = re.compile(
    rf"^hostssl all (\S+) all ({client_certificates.CERTIFICATE_ALONE}|{client_certificates.WITH_PASSWORD})$",
    re.MULTILINE,
)
_BEGIN = "# spec.hba, until the last line, which Kindling has on each server\n"

_NAME = r'(?:[A-Za-z_][A-Za-z0-9_.$-]{0,62}|"[^"/\x00-\x1f\x7f][^"\x00-\x1f\x7f]{0,62}")'
_USER = rf"\+?{_NAME}"
LINE = re.compile(
    r"(host|hostssl|hostnossl)[ \t]+"
    rf"({_NAME}(?:,{_NAME})*)[ \t]+"
    rf"({_USER}(?:,{_USER})*)[ \t]+"
    r"(all|samehost|samenet|[0-9A-Fa-f.:]+/[0-9]{1,3})[ \t]+"
    rf"({'|'.join(METHODS)})"
)
"""The CRD has the same: kind, databases, users, address and method. Methods that need files beside the
server, or have passwords sent in clear, are no part of it, nor are options, included files and patterns.
"""


def read(cr: Object) -> tuple[str, ...]:
    return tuple(str(line) for line in (cr.get("spec") or {}).get(FIELD) or ())


def first_by_address(cr: Object) -> int | None:
    """The number of the first line that does not hold for all addresses."""
    for number, line in enumerate(read(cr)):
        found = LINE.fullmatch(line)
        if found is not None and found[4] != "all":
            return number
    return None


def is_given(cr: Object) -> bool:
    """Whether the spec has rules of its own: lines, or roles that have to show a certificate."""
    return bool(read(cr) or client_certificates.methods(cr))


def validate(cr: Object) -> Problem | None:
    """The first line that cannot work, with field, value and remedy."""
    own, everywhere = set(logins(cr)), {"all", "sameuser", user_of(cr)}
    certified = client_certificates.methods(cr)
    for number, line in enumerate(read(cr)):
        where = f"spec.hba[{number}] {line!r}"
        found, message = LINE.fullmatch(line), None
        if found is None:
            message = (
                f"{where} is no line that is taken: write host, hostssl or hostnossl, databases, users, an "
                "address and scram-sha-256 or reject, as in `host shop reporting 10.0.0.0/8 scram-sha-256`."
            )
        elif "/" in found[4] and not _is_block(found[4]):
            message = f"{where}: {found[4]} is no block of addresses: use ADDRESS/LENGTH, as in 10.0.0.0/8."
        elif (named := sorted(own & _words(found[3]))) and everywhere & _words(found[2]):
            message = (
                f"{where} has no effect on {named[0]!r}, the default user, whose login to its own database "
                "comes before these lines, because it proves Ready: leave it out. spec.allowedFrom limits "
                "from where the server can be reached, and spec.tls.required refuses whoever has no TLS."
            )
        elif shown := sorted(certified.keys() & _words(found[3])):
            message = (
                f"{where} has no effect on {shown[0]!r}: the line of spec.roles[{shown[0]}]."
                f"{client_certificates.FIELD} comes before these. Leave one of the two out; spec.allowedFrom "
                "limits from where the server can be reached."
            )
        if message:
            return Problem(reason=reasons.INVALID_SPEC, message=message)
    return None


def _words(field: str) -> set[str]:
    """The names without those that have a +, for the members of a role."""
    return {word.strip('"') for word in re.findall(_USER, field)}


def _is_block(address: str) -> bool:
    try:
        ipaddress.ip_network(address, strict=False)
    except ValueError:
        return False
    return True


def file(
    *,
    tls_required: bool,
    lines: Sequence[str] = (),
    users: Sequence[str] = (),
    exporter_role: str | None = None,
    init: bool = False,
    certified: Mapping[str, str] | None = None,
) -> str:
    """The whole of pg_hba.conf; with `tls_required`, nobody comes in from elsewhere without TLS. `users`
    are the default user and its logins; with `init`, they also come into the database that gets its first
    SQL. `certified` are the roles that have to show a certificate, each with its method.
    """
    default = DEFAULT.replace(_ANY, _TLS) if tls_required else DEFAULT
    *local, last = default.splitlines(keepends=True)
    local += _certificate_lines(certified or {})
    if not lines:
        return "".join([*local, last])
    kind = "hostssl" if tls_required else "host"
    names = [_quoted(user) for user in users]
    databases = [names[0], *([_quoted(init_sql.TEMPORARY)] if init else [])]
    own = [
        f"{kind} all {SUPERUSER} all scram-sha-256\n",
        f"{kind} {','.join(databases)} {','.join(names)} all scram-sha-256\n",
    ]
    if exporter_role:
        own.append(f"{kind} {postgres_exporter.DATABASE} {exporter_role} samehost scram-sha-256\n")
    if tls_required:
        own.append("hostnossl all all all reject\n")
    return "".join([*local, *own, _BEGIN, *(f"{line}\n" for line in lines), last])


def _certificate_lines(certified: Mapping[str, str]) -> list[str]:
    """With TLS by the role's method, and without not at all: a line further down would take a password."""
    found = []
    for method in (client_certificates.CERTIFICATE_ALONE, client_certificates.WITH_PASSWORD):
        names = [name for name, each in certified.items() if each == method]
        found += [f"hostssl all {some} all {method}\n" for some in _in_lines(names)]
    return [*found, *(f"hostnossl all {some} all reject\n" for some in _in_lines([*certified]))]


def _in_lines(names: Sequence[str]) -> list[str]:
    parts = [names[start : start + _NAMES_IN_A_LINE] for start in range(0, len(names), _NAMES_IN_A_LINE)]
    return [",".join(map(_quoted, part)) for part in parts]


def certified_in(text: str) -> dict[str, str]:
    """The roles that have to show a certificate by a file that `file` wrote, each with its method."""
    return {
        name: method
        for names, method in _CERTIFIED.findall(text.partition(_BEGIN)[0])
        for name in re.findall(r'"([^"]+)"', names)
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def of(cr: Object) -> str:
    """What this resource's server is to have."""
    return file(
        tls_required=tls.is_required(cr),
        lines=read(cr),
        users=logins(cr),
        exporter_role=roles.EXPORTER if exporter.is_enabled(cr) else None,
        init=init_sql.is_given(cr),
        certified=client_certificates.methods(cr),
    )


def lines_of(text: str) -> list[str]:
    """Those of the spec that a file has which `file` wrote."""
    return text.partition(_BEGIN)[2].splitlines()[:-1]


def first_line(text: str) -> int:
    """The number, from 1, of the first line of the spec in such a file."""
    return text.partition(_BEGIN)[0].count("\n") + 2


def demands_tls(text: str) -> bool:
    """Whether a file that `file` wrote keeps everybody out who has no TLS."""
    return text[text.rfind("\nhost") :].startswith(_TLS)


def wanted(cr: Object) -> str | None:
    """What the server is asked for: None where the spec has no rules, and the status has none of before."""
    return of(cr) if is_given(cr) or (cr.get("status") or {}).get(FIELD) else None


def problem(files: ExternalResult | None) -> Problem | None:
    """What the server, asked to read its files again, has against a line."""
    if files is None or files.reason != reasons.INVALID_HBA:
        return None
    return Problem(reason=files.reason, message=files.message)


def status(
    cr: Object, observed: Observed, *, server: ExternalResult | None, files: ExternalResult | None
) -> Object:
    """The rules in force, by the server's word; while it cannot be asked, those it had before in that Pod."""
    known = (cr.get("status") or {}).get(FIELD)
    if not is_given(cr) and not known:
        return {}
    for answer in (files, server):
        rules = answer.facts.get(FIELD) if answer is not None else None
        if rules:
            return {FIELD: rules} if is_given(cr) else {}
    pod, active = find_pod(cr, observed), (cr.get("status") or {}).get("active") or {}
    same = pod is not None and pod["metadata"]["uid"] == active.get("uid")
    return {FIELD: known} if known and same else {}
