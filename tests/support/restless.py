"""Random clusters on which something is always wanted: deep trees, unlike nodes, gangs, priorities, constraints."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubebase.label_selector import Requirement
from pumice.model.specs import FREE, Constraints, PodTerm
from tests.support.eviction_book import Request
from tests.support.taking import Shell


@dataclass(frozen=True)
class Taste:
    """What a random cluster may contain."""

    nodes: int = 5
    depth: int = 6
    gangs: bool = True
    unlike: bool = True
    priorities: bool = True
    coupled: bool = False
    roles: bool = True
    one_pool: bool = False
    fine: bool = False  # tasks of one unit of one resource
    bounds: bool = False  # queues with guarantee, deserved and capability
    deserved: bool = False  # queues at every level that deserve some of some resources


EVERYTHING = Taste()


class Restless:
    """A cluster and the queues in it, by a seed."""

    def __init__(self, shell: Shell, seed: int, taste: Taste = EVERYTHING) -> None:
        self.shell = shell
        self.rng = random.Random(seed)
        self.taste = taste
        self.queues: list[str] = []
        self.jobs: list[str] = []
        self._nodes()
        if taste.deserved:
            self._deserving_tree()
        else:
            self._tree()

    def _nodes(self) -> None:
        rng = self.rng
        if self.taste.one_pool:
            self.shell.node("pool", rng.randint(8, 40), rng.randint(8, 40), 10_000)
            return
        for i in range(rng.randint(1, self.taste.nodes)):
            self.shell.node(f"n{i}", rng.choice([2, 4, 4, 8, 8, 12]), rng.choice([4, 8, 8, 16]), 1000)

    def _tree(self) -> None:
        rng = self.rng

        def grow(path: str, weights: str, level: int) -> None:
            for i in range(rng.choice([1, 2, 2, 3]) if level > 1 else rng.choice([2, 2, 3])):
                here = f"{path}/{'abcdefgh'[level]}{i}", f"{weights}/{rng.choice([1, 1, 2, 3, 6])}"
                if level < self.taste.depth and rng.random() < 0.4:
                    grow(*here, level + 1)
                else:
                    self.shell.queue(*here, **self._bounds())
                    self.queues.append(here[0].replace("root/", "").replace("/", "-"))

        grow("root", "1", 1)

    def _deserving_tree(self) -> None:
        """What children deserve of a resource stays within what the next queue above that names it deserves."""
        rng = self.rng
        offers = [node.allocatable for node in self.shell.engine.state.nodes.values()]
        plenty = rng.choice([1.0, 1.0, 1.5])  # what nobody above names may add up to more than there is

        def grow(parent: str, left: dict[int, list[int]], level: int) -> None:
            for i in range(rng.choice([1, 2, 2, 3]) if level > 1 else rng.choice([2, 2, 3])):
                name = f"{parent}-{'abcdefgh'[level]}{i}".removeprefix("root-")
                below, deserved = dict(left), []
                for j, most in left.items():
                    if rng.random() < (0.6 if level > 1 else 0.5):
                        amount = rng.randint(0, most[0])
                        most[0] -= amount
                        below[j] = [amount]
                        deserved.append((j, amount))
                self.shell.child(name, parent, deserved=tuple(deserved), reclaimable=rng.random() < 0.95)
                if level < self.taste.depth and rng.random() < 0.4:
                    grow(name, below, level + 1)
                else:
                    self.queues.append(name)

        grow("root", {j: [int(plenty * sum(offer[j] for offer in offers))] for j in (0, 1)}, 1)

    def _bounds(self) -> dict[str, Any]:
        """Small enough that they do not contradict each other often; where they do, the queue is left out."""
        rng = self.rng
        if not self.taste.bounds:
            return {}
        guarantee = ((0, 1), (1, rng.choice([1, 2]))) if rng.random() < 0.3 else ()
        deserved = ((0, rng.randint(1, 4)), (1, rng.randint(2, 4))) if rng.random() < 0.6 else ()
        capability = ((0, rng.randint(4, 10)), (1, rng.randint(4, 12))) if rng.random() < 0.3 else ()
        return {
            "guarantee": guarantee,
            "deserved": deserved,
            "capability": capability,
            "reclaimable": rng.random() < 0.9,
        }

    def job(self, queue: str | None = None, tasks: int | None = None) -> str:
        """Another job in some queue."""
        rng, taste = self.rng, self.taste
        queue = queue or rng.choice(self.queues)
        count = tasks if tasks is not None else rng.choice([1, 1, 2, 3, 4, 6, 10])
        alike = self.request()
        unlike = taste.unlike and rng.random() < 0.25
        requests = [self.request() if unlike else alike for _ in range(count)]
        gang = rng.randint(1, count) if taste.gangs and rng.random() < 0.35 else 1
        roles: list[str] = []
        minimums: Mapping[str, int] = {}
        if taste.roles and gang > 1 and rng.random() < 0.2:
            roles = ["ps" if i == 0 else "worker" for i in range(count)]
            minimums = {"ps": 1, "worker": gang - 1}
        priority = rng.choice([1, 5]) if taste.priorities and rng.random() < 0.3 else None
        labels = {"app": rng.choice("xyz")}
        constraints = self._constraints(labels) if taste.coupled and rng.random() < 0.2 else FREE
        key = self.shell.job(
            queue,
            requests,
            gang,
            priority=priority,
            constraints=constraints,
            roles=roles,
            minimums=minimums,
            labels=labels,
        )
        self.jobs.append(key)
        return key

    def request(self) -> Request:
        """What a task asks for, of cpu and memory."""
        rng = self.rng
        if self.taste.fine:
            return rng.choice([(1, 0), (0, 1), (1, 1)])
        return rng.choice([(1, 1), (1, 0), (2, 1), (1, 3), (3, 2), (4, 4), (0, 2), (2, 2), (4, 1)])

    def _constraints(self, labels: Mapping[str, str]) -> Constraints:
        rng = self.rng
        if rng.random() < 0.3:
            return Constraints(ports=(("TCP", "", 8000 + rng.randrange(2)),))
        term = PodTerm("kubernetes.io/hostname", (Requirement("app", "In", (labels["app"],)),))
        return Constraints(anti_affinity=(term,))
