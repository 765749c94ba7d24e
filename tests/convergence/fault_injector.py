"""What goes wrong around the operator, at random: kills, a lost API server, cut watches, refused requests.

Apart from the soak, which knows when. The operator is behind the proxy; like a ReplicaSet, the injector
starts another one whenever it has ended.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from kindling.kube.resources import ResourceType

from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, SECONDS, Cluster
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.convergence.proxy import Proxy

ENVIRONMENT = {"KINDLING_DEBUG": "1", "RES_OPTIONS": "timeout:1 attempts:1"}
# So many of all requests are refused while it lasts: until the next fault.
REFUSALS = ((429, 0.1), (500, 0.1))


class FaultInjector:
    """Use as a context manager; `operator` is the one that runs by now."""

    operator: OperatorProcess

    def __init__(self, cluster: Cluster, between: Proxy, *, draw: random.Random) -> None:
        self.done: Counter[str] = Counter()
        """What went wrong so far, by its name."""
        self.ended: list[int] = []
        """The exit statuses of operators that were not killed by us."""
        self._mortal = True
        self._cluster = cluster
        self._between = between
        self._draw = draw
        self._stack = ExitStack()
        self._started = 0
        self._next: list[Callable[[], None]] = []

    def __enter__(self) -> FaultInjector:
        self.start()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            print(f"exit statuses: {self.ended}; the last one said:\n{self.operator.log()[-6000:]}")
        self._stack.close()

    def start(self) -> None:
        """A new operator, in the place of one that has ended."""
        self._stack.close()
        self._started += 1
        name = f"operator-{self._started}"
        running = operator(self._between.plane, identity=name, env=ENVIRONMENT, kept=True)
        self.operator = self._stack.enter_context(running)

    def restart_if_ended(self) -> None:
        """What the ReplicaSet does."""
        status = self.operator.ended()
        if status is not None:
            if status >= 0:
                self.ended.append(status)
            self.start()

    def one(self) -> None:
        """Something goes wrong, each sort in its turn; what went wrong before is over."""
        self.end()
        if not self._next:
            deadly = [self.kill, self.lose_the_control_plane] if self._mortal else []
            self._next = [*deadly, self.cut_the_watches, self.refuse]
            self._draw.shuffle(self._next)
        fault = self._next.pop()
        fault()
        self.done[fault.__name__] += 1

    def end(self) -> None:
        """From now on all is well."""
        self._between.refuse()

    def spare_the_operator(self) -> None:
        """From now on nothing goes wrong of which it would end."""
        self._mortal = False
        self._next.clear()

    def kill(self) -> None:
        self.operator.kill()

    def lose_the_control_plane(self) -> None:
        """The API server and the controllers, as with the node they are on.

        With the controllers left running, the garbage collector could take a resource that was meanwhile
        made again under its name for the one before, and leave the first one's children alone for good
        (kubernetes/kubernetes#133565).
        """
        self._cluster.manager.kill()
        self._cluster.plane.restart_api()
        self._cluster.manager.start()
        self._cluster.api.close()  # Opened again by the next request.
        for kind in KINDS_BY_NAME.values():  # Ready as it says it is, it may not serve these yet.
            wait_until(partial(self._serves, kind.type), seconds=SECONDS, what=f"{kind.type.plural} served")

    def _serves(self, type: ResourceType) -> bool:
        return self._cluster.api.get(type.path(namespace=None)).status == 200

    def cut_the_watches(self) -> None:
        self._between.cut()

    def refuse(self) -> None:
        self._between.refuse(*REFUSALS)
