"""Static H-DRF as a fluid in exact fractions: slow, obvious, and shares no code with the solver it judges.

All leaves start empty. At any moment the next drop goes from the root down to the children with the
smallest weighted share that can still be served, in fixed proportions; these proportions hold until
something happens (a resource is used up, a leaf is full, another resource becomes a node's largest, a
waiting sibling is reached). So the fluid is moved from event to event.

Children that are lowest together rise together. If some of them do not rise although they are served (the
resource that makes their share is held by leaves that take no part), those alone are served, with equal
amounts of raw dominant share each, until they rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Flow = dict[int, Fraction]  # leaf -> growth of its raw dominant share per unit of time


def exact_fluid(
    parent: Sequence[int],
    weight: Sequence[Fraction],
    leaf: Sequence[int],
    direction: Sequence[Sequence[Fraction]],
    demand: Sequence[Fraction | None],
    rank: Sequence[int] | None = None,
) -> list[Fraction]:
    """The tasks of each leaf; arguments as for the solver, demand None for no limit."""
    return _Fluid(parent, weight, leaf, direction, demand, rank).run()


class _Fluid:
    def __init__(
        self,
        parent: Sequence[int],
        weight: Sequence[Fraction],
        leaf: Sequence[int],
        direction: Sequence[Sequence[Fraction]],
        demand: Sequence[Fraction | None],
        rank: Sequence[int] | None,
    ) -> None:
        self.weight = [Fraction(w) for w in weight]
        self.leaf = list(leaf)
        self.resources = range(len(direction[0]) if direction else 0)
        self.direction = {n: [Fraction(v) for v in d] for n, d in zip(leaf, direction, strict=True)}
        self.demand = {n: None if q is None else Fraction(q) for n, q in zip(leaf, demand, strict=True)}
        self.children: list[list[int]] = [[] for _ in parent]
        for node, above in enumerate(parent):
            if above >= 0:
                self.children[above].append(node)
        self.rank = dict(zip(leaf, rank or [0] * len(leaf), strict=True))
        for below in self.children:  # inner children belong to the first class that wants anything
            leaves = [c for c in below if c in self.direction]
            wanting = [c for c in leaves if any(self.direction[c]) and self.demand[c] != 0]
            first = min((self.rank[c] for c in wanting), default=0)
            self.rank |= {c: first for c in below if c not in self.direction}
        self.tasks = dict.fromkeys(leaf, Fraction(0))
        self.open = set(self.resources)

    def run(self) -> list[Fraction]:
        for n in self.leaf:  # what asks for nothing gets all it asks for
            limit = self.demand[n]
            if not any(self.direction[n]) and limit is not None:
                self.tasks[n] = limit
        while True:
            self.measure()
            self.open -= {j for j in self.open if self.held[0][j] >= 1}
            self.measure()
            if not self.active[0]:
                return [self.tasks[n] for n in self.leaf]
            flow = self.flow(0)
            self.rate = self.spread(flow)
            time = min(t for t in self.events(flow) if t > 0)
            for n, speed in flow.items():
                self.tasks[n] += time * speed / max(self.direction[n])

    def measure(self) -> None:
        """Vectors, weighted shares over the open resources, and who can be served."""
        size = len(self.children)
        self.held: list[list[Fraction]] = [[] for _ in range(size)]
        self.share = [Fraction(0)] * size
        self.active = [False] * size
        for n in reversed(range(size)):
            if n in self.direction:
                d, limit = self.direction[n], self.demand[n]
                self.held[n] = [v * self.tasks[n] for v in d]
                hungry = limit is None or self.tasks[n] < limit
                self.active[n] = hungry and any(d) and all(j in self.open for j in self.resources if d[j])
            else:
                below = self.children[n]
                self.held[n] = [sum((self.held[c][j] for c in below), Fraction(0)) for j in self.resources]
                self.active[n] = any(self.active[c] for c in below)
            self.share[n] = self.top(n) / self.weight[n]

    def top(self, n: int) -> Fraction:
        return max((self.held[n][j] for j in self.open), default=Fraction(0))

    def contenders(self, n: int) -> list[int]:
        """The children of the first class that has anybody to serve."""
        able = [c for c in self.children[n] if self.active[c]]
        first = min((self.rank[c] for c in able), default=0)
        return [c for c in able if self.rank[c] == first]

    def flow(self, n: int) -> Flow:
        """Who below n is served now; a leaf's share rises by 1 per unit of time."""
        if n in self.direction:
            return {n: self.weight[n]}
        able = self.contenders(n)
        lowest = min(self.share[c] for c in able)
        flows = {c: self.flow(c) for c in able if self.share[c] == lowest}
        rises = {c: self.rise(c, self.spread(f)[c]) for c, f in flows.items()}
        stuck = {c for c, r in rises.items() if r == 0}
        joint: Flow = {}
        for c, f in flows.items():
            if stuck and c not in stuck:
                continue
            speed = 1 / (sum(f.values(), Fraction(0)) if stuck else rises[c])
            joint |= {k: v * speed for k, v in f.items()}
        return joint

    def spread(self, flow: Flow) -> list[list[Fraction]]:
        """Growth of every node's vector under a flow."""
        rate: list[list[Fraction]] = [[] for _ in self.children]
        for n in reversed(range(len(self.children))):
            if n in self.direction:
                d = self.direction[n]
                speed = flow.get(n, Fraction(0)) / max(d) if any(d) else Fraction(0)
                rate[n] = [v * speed for v in d]
            else:
                rate[n] = [sum((rate[c][j] for c in self.children[n]), Fraction(0)) for j in self.resources]
        return rate

    def rise(self, n: int, rate: Sequence[Fraction]) -> Fraction:
        """Growth of a node's weighted share: that of the fastest of its largest resources."""
        top = self.top(n)
        fastest = max((rate[j] for j in self.open if self.held[n][j] == top), default=Fraction(0))
        return fastest / self.weight[n]

    def events(self, flow: Flow) -> list[Fraction]:
        """Times until the proportions may change; an event that is over by now may be among them as 0."""
        times = [(1 - self.held[0][j]) / self.rate[0][j] for j in self.open if self.rate[0][j] > 0]
        for n, speed in flow.items():
            limit = self.demand[n]
            if limit is not None:
                times.append((limit - self.tasks[n]) * max(self.direction[n]) / speed)
        for n in range(len(self.children)):
            top, pace = self.top(n), self.rise(n, self.rate[n]) * self.weight[n]
            faster = [j for j in self.open if self.rate[n][j] > pace]
            times += [(top - self.held[n][j]) / (self.rate[n][j] - pace) for j in faster]
            able = self.contenders(n)
            for low in able:
                for high in able:
                    closing = self.rise(low, self.rate[low]) - self.rise(high, self.rate[high])
                    if self.share[low] < self.share[high] and closing > 0:
                        times.append((self.share[high] - self.share[low]) / closing)
        return times
