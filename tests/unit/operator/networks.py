"""Who may connect where a spec says nothing, as a NetworkPolicy has it."""

from __future__ import annotations

from kindling.kube.resources import Object

DEFAULT_PEERS: list[Object] = [
    {"podSelector": {}},
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kindling-system"}},
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/name": "kindling", "app.kubernetes.io/component": "operator"}
        },
    },
]
