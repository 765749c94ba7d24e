"""The requests of a reconciliation to the API server as spans, and the trace in their headers."""

from __future__ import annotations

from typing import NamedTuple

import aiohttp
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from yarl import URL

from kindling.kube.client import CREATED
from kindling.telemetry.spans import failed, opened

_NAMES = {
    "cronjobs": "k8s.cronjob.name",
    "deployments": "k8s.deployment.name",
    "horizontalpodautoscalers": "k8s.hpa.name",
    "jobs": "k8s.job.name",
    "persistentvolumeclaims": "k8s.persistentvolumeclaim.name",
    "pods": "k8s.pod.name",
    "services": "k8s.service.name",
    "statefulsets": "k8s.statefulset.name",
}
"""The attribute of an object's name, of the types for which the conventions have one."""
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class Target(NamedTuple):
    """What a path of the API is of; empty where it has none."""

    namespace: str
    type: str
    """`plural.group`, as RBAC and kubectl have it."""
    name: str
    subresource: str


def target(path: str) -> Target:
    """Of the path of a namespaced object or of their list, behind whatever leads to the API server."""
    parts = path.strip("/").split("/")
    while parts and parts[0] not in ("api", "apis"):
        parts = parts[1:]
    group, rest = (parts[1], parts[3:]) if parts[:1] == ["apis"] and len(parts) > 2 else ("", parts[2:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    return Target(namespace, f"{plural}.{group}" if group else plural, name, subresource)


def verb(method: str, *, content: str, name: str) -> str:
    """The operator's word for the request, which in the API's own terms is a patch if it applies."""
    if method == "GET":
        return "get" if name else "list"
    return "apply" if content.startswith("application/apply-patch") else _VERBS.get(method, method.lower())


class Requests:
    """Middleware of a client's session. A request outside of a reconciliation has no span."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if not trace.get_current_span().is_recording():
            return await handler(request)
        of = target(request.url.path)
        if request.method == "POST":
            of = of._replace(name=CREATED.get())
        done = verb(request.method, content=request.headers.get("Content-Type", ""), name=of.name)
        where = f"{of.type}/{of.subresource}" if of.subresource else of.type
        span = self._tracer.start_span(
            f"{done} {where}", kind=SpanKind.CLIENT, attributes=_attributes(request.method, request.url, of)
        )
        with opened(span):
            span.set_attribute("kindling.request.verb", done)
            self._propagator.inject(request.headers)
            try:
                response = await handler(request)
            except (aiohttp.ClientError, TimeoutError) as error:
                failed(span, type(error).__name__)
                raise
            span.set_attribute("http.response.status_code", response.status)
            # That there is none of that name is an answer like others to somebody who looks.
            if response.status >= 400 and not (request.method == "GET" and response.status == 404):
                failed(span, str(response.status))
            return response


def _attributes(method: str, url: URL, of: Target) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "http.request.method": method,
        "server.address": url.host or "",
        "server.port": url.port or 443,
        "url.full": str(url.with_query(None)),
        "k8s.namespace.name": of.namespace,
        "kindling.object.type": of.type,
        "kindling.object.name": of.name,
        "kindling.object.subresource": of.subresource,
        _NAMES.get(of.type.partition(".")[0], "kindling.object.name"): of.name,
    }
    return {name: value for name, value in found.items() if value != ""}
