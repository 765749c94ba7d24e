"""The Helm chart: what its values are, what they may be, and its files.

The values have the names of a stack's settings, their defaults and their descriptions, all of Pulumi.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infra import image_references
from infra.distribution import chart_templates, integrations, yaml_writer
from infra.distribution.variants import Kinds
from infra.drivers import cluster_context
from infra.manifests import Manifest
from infra.project import OPERATOR, PROJECT
from infra.settings import LOG_LEVELS, MOST_REPLICAS, NAMESPACES, SCOPES, stack_files, validators

_SETTINGS = ("replicas", "logLevel", "scope", "watchNamespaces", "kinds", "imagePullSecrets")
_ABOUT = {
    "images": "The images of this release, by digest; of a mirror, with the same digests",
    "crds": "Whether the definitions of the kinds are installed and upgraded; an uninstall leaves them",
    "monitoring": "Objects of the Prometheus operator, and a ConfigMap of dashboards for Grafana's sidecar",
}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_SECRETS = {
    "type": "array",
    "uniqueItems": True,
    "items": {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {
                "type": "string",
                "pattern": f"^{validators.SUBDOMAIN}$",
                "maxLength": validators.SUBDOMAIN_LENGTH,
            }
        },
    },
}
_VARIABLES = {
    "type": "array",
    "uniqueItems": True,
    "items": {
        "type": "object",
        "required": ["name"],
        "oneOf": [{"required": ["value"]}, {"required": ["valueFrom"]}],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "pattern": f"^{validators.VARIABLE}$"},
            "value": {"type": "string", "minLength": 1},
            "valueFrom": {"type": "object"},
        },
    },
}
_AMOUNTS = {
    "type": "object",
    "required": ["cpu", "memory"],
    "additionalProperties": {"type": ["string", "number"]},
}
_NOTES = f"""\
Kindling {{{{ .Chart.AppVersion }}}} serves {{{{ .Values.kinds | default (list "all kinds") | join ", " }}}}
in \
{{{{ .Values.watchNamespaces | default (list "all namespaces") | join ", " }}}}.

Wait until it runs:

  kubectl rollout status deployment/{OPERATOR} --namespace {{{{ .Release.Namespace }}}}

Its Pods meet the restricted pod security standard. To have the namespace demand it of all others, too:

  kubectl label namespace {{{{ .Release.Namespace }}}} pod-security.kubernetes.io/enforce=restricted

An uninstall leaves the definitions, and so every resource with its data.
"""


def files(
    *,
    version: str,
    images: Mapping[str, str],
    kinds: Sequence[str],
    operator: Manifest,
    rendered: Mapping[tuple[str, Kinds], Sequence[Manifest]],
    monitoring: Mapping[str, str],
) -> dict[str, str]:
    """The chart's files by path; `operator` is the Deployment by default, `rendered` what the templates
    are of, `monitoring` files that are taken as they are.
    """
    values = default_values(images, operator)
    return {
        "Chart.yaml": yaml_writer.document(_about(version)),
        "values.yaml": _values_text(values),
        "values.schema.json": json.dumps(schema(images, kinds), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        "templates/_helpers.tpl": chart_templates.HELPERS,
        **{f"templates/{name}": text for name, text in sorted(chart_templates.templates(rendered).items())},
        **monitoring,
    }


def _about(version: str) -> Manifest:
    return {
        "apiVersion": "v2",
        "name": PROJECT,
        "version": version,
        "appVersion": version,
        "type": "application",
        "description": "A Kubernetes operator for databases, caches and consumers",
        # With what distributions add to their versions.
        "kubeVersion": f">={'.'.join(map(str, cluster_context.OLDEST))}.0-0",
    }


def default_values(images: Mapping[str, str], operator: Manifest) -> dict[str, Any]:
    """What the chart's values are where nobody says otherwise."""
    settings = {
        name: json.loads(text) if (text := stack_files.default(name) or "")[:1] in "[{0123456789" else text
        for name in _SETTINGS
    }
    return {
        "images": dict(images),
        **settings,
        "operatorPod": _default_pod(operator),
        "crds": {"enabled": True},
        "monitoring": integrations.default_values(),
    }


def _default_pod(operator: Manifest) -> dict[str, Any]:
    empty: dict[str, Any] = {"tolerations": [], "imagePullSecrets": [], "priorityClassName": "", "env": []}
    pod = {name: empty.get(name, {}) for name in validators.OPERATOR_POD}
    containers = operator["spec"]["template"]["spec"]["containers"]
    return {**pod, "resources": {found["name"]: found["resources"] for found in containers}}


def schema(images: Mapping[str, str], kinds: Sequence[str]) -> dict[str, Any]:
    """What Helm holds values against, as JSON Schema: what a stack's settings are held against, too."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Values of {PROJECT}",
        "type": "object",
        "additionalProperties": False,
        "required": ["images", *_SETTINGS, "operatorPod", "crds", "monitoring"],
        "properties": {
            "images": {
                "type": "object",
                "additionalProperties": False,
                "required": list(images),
                "properties": {
                    name: {
                        "type": "string",
                        "pattern": f"^{image_references.IMAGE}$",
                        "not": {"pattern": ":latest$"},
                    }
                    for name in images
                },
            },
            "replicas": {"type": "integer", "minimum": 1, "maximum": MOST_REPLICAS},
            "logLevel": {"enum": list(LOG_LEVELS)},
            "scope": {"enum": list(SCOPES)},
            "watchNamespaces": {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "string", "pattern": f"^{validators.LABEL}$"},
            },
            "kinds": {"type": "array", "uniqueItems": True, "items": {"enum": list(kinds)}},
            "imagePullSecrets": _SECRETS,
            "operatorPod": _pod_schema(),
            "crds": {
                "type": "object",
                "additionalProperties": False,
                "required": ["enabled"],
                "properties": {"enabled": {"type": "boolean"}},
            },
            "monitoring": integrations.schema(),
            # Helm puts it there for a chart that is a part of another one.
            "global": {"type": "object"},
        },
        # Rights that end at no namespace are none.
        "if": {"properties": {"scope": {"const": NAMESPACES}}},
        "then": {"properties": {"watchNamespaces": {"minItems": 1}}},
    }


def _pod_schema() -> dict[str, Any]:
    known: dict[str, Any] = {
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "nodeSelector": _STRINGS,
        "affinity": {"type": "object"},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "priorityClassName": {"type": "string"},
        "imagePullSecrets": _SECRETS,
        "env": _VARIABLES,
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "required": list(validators.CONTAINERS),
            "properties": {
                container: {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["requests", "limits"],
                    "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS},
                }
                for container in validators.CONTAINERS
            },
        },
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: known[name] for name in validators.OPERATOR_POD},
    }


def _values_text(values: Mapping[str, Any]) -> str:
    declared = stack_files.declared()
    parts = [
        f"# {_ABOUT.get(name) or declared[name]['description']}.\n{yaml_writer.document({name: value})}"
        for name, value in values.items()
    ]
    return "\n".join(parts)
