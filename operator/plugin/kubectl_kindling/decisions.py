"""What the operator decided about a resource, from the memory of the Pod that leads.

The operator answers this to its own Pod alone, so the way there is `kubectl port-forward`. What it sends has
no secret in it.
"""

from __future__ import annotations

import http.client
from urllib.parse import quote

from kubectl_kindling import facts
from kubectl_kindling.kubectl import Kubectl, Object, Output, items_of

SELECTOR = "app.kubernetes.io/name=kindling,app.kubernetes.io/component=operator"
PORT = "http"
SECONDS = 30.0
MOST_BYTES = 64 << 20


def read(kubectl: Kubectl, namespace: str, key: str) -> tuple[str, list[Output]]:
    """JSON, empty where no Pod has any; and how kubectl ended where it did not get there."""
    found = kubectl.get("pods", f"--namespace={namespace}", f"--selector={SELECTOR}")
    if found.status != 0:
        return "", [found]
    troubles: list[Output] = []
    for pod in items_of(found):
        if (port := _port(pod)) is None:
            continue
        with kubectl.forwarded(namespace, facts.name_of(pod), port) as (local, ended):
            if local is None:
                troubles.append(ended)
            elif text := _get(local, f"/debug/decisions?key={quote(key, safe='')}"):
                return text, []
    return "", troubles


def _port(pod: Object) -> int | None:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == PORT:
                return int(port["containerPort"])
    return None


def _get(port: int, path: str) -> str:
    """Empty for what is not there: a replica that does not lead has decided nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(MOST_BYTES).decode(errors="replace")
        return text if response.status == 200 else ""
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
