"""The ConfigMap NAME-servers: where the ready caches are, as applications, other tools and memcached read it.

Its keys are those of servicebinding.io as far as they go. It is no Secret, for nothing in it is secret.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kindling.kinds.base import Child, Observed
from kindling.kinds.memcached.observation import Endpoint
from kindling.kinds.memcached.spec import Spec
from kindling.kinds.metadata import child_metadata
from kindling.kinds.service_template import host_of
from kindling.kube.resources import CONFIG_MAP, Object, Ref, ResourceType

PROXY = """\
-- For `memcached -o proxy_config=FILE`: each key on one of the caches, which are read again on SIGHUP.
function mcp_config_pools()
  return mcp.pool({{
{backends}
  }})
end

function mcp_config_routes(pool)
  local route = mcp.funcgen_new()
  local handle = route:new_handle(pool)
  route:ready({{ f = function(context)
    return function(request) return context:enqueue_and_wait(request, handle) end
  end }})
  mcp.attach(mcp.CMD_ANY_STORAGE, route)
end
"""


JSON = "servers.json"
"""The key of the list for programs."""


def name_of(cr: Object) -> str:
    return f"{cr['metadata']['name']}-servers"


def build(
    type: ResourceType,
    cr: Object,
    spec: Spec,
    endpoints: Sequence[Endpoint],
    observed: Observed,
    *,
    discovery: str = "",
) -> list[Child]:
    """Made with the first cache that is ready. While none is, it stays as it is. `discovery` is where a
    program answers with the list, if one does.

    So whoever mounts it starts once there is a cache, and never reads an empty list.
    """
    meta = cr["metadata"]
    metadata = child_metadata(type, cr, name=name_of(cr))
    if endpoints:
        data = _data(cr, spec, endpoints) | ({"discovery": discovery} if discovery else {})
        return [Child(type=CONFIG_MAP, body={"metadata": metadata, "data": data})]
    known = Ref(CONFIG_MAP, meta["namespace"], name_of(cr)) in observed.objects
    return [Child(type=CONFIG_MAP, body={"metadata": metadata}, frozen=True)] if known else []


def _data(cr: Object, spec: Spec, endpoints: Sequence[Endpoint]) -> dict[str, str]:
    listed = [{"host": endpoint.host, "port": endpoint.port} for endpoint in endpoints]
    backends = [
        f'    mcp.backend("{endpoint.text}", "{endpoint.host}", {endpoint.port}),' for endpoint in endpoints
    ]
    data = {
        "type": "memcached",
        "provider": "kindling",
        "host": host_of(cr),
        "port": str(spec.port),
        "servers": "".join(f"{endpoint.text}\n" for endpoint in endpoints),
        JSON: json.dumps(listed),
    }
    # The proxy speaks plain text to its servers, and logs in nowhere.
    if not (spec.tls or spec.auth):
        data["proxy.lua"] = PROXY.format(backends="\n".join(backends))
    return data
