"""Static H-DRF as a fluid in exact fractions: slow, obvious, and shares no code with the solver it judges.

All leaves start empty. At any moment the next drop goes from the root down to the children with the
smallest weighted share that can still be served, in fixed proportions; these proportions hold until
something happens (a resource is used up, a leaf is full, another resource becomes a node's largest, a
waiting sibling is reached). So the fluid is moved from event to event.

Children that are lowest together rise together. If some of them do not rise although they are served (the
resource that makes their share is held by leaves that take no part), those alone are served, with equal
amounts of raw dominant share each, until they rise.

*Limits.* A node claims what it is guaranteed, or what its children claim together, whichever is more. What
the children claim together must stay within the node's ceiling, and at the root within the cluster. Where
it is as much as that, the node is *full*, and a leaf that could only grow by adding to it is frozen; one
that grows inside an unused guarantee adds to nothing above it. All that one user gets stays within the
user's cap. A resource counts in shares until all of it is claimed.

*Jobs of unlike tasks* are inner nodes whose leaves have ranks of their own, one for each piece; a job has a rank among
its siblings, and every resource counts in its share, as in a leaf's.

*Guarantees* are filled before anything else, the innermost first: for that time the guarantee is the node's
ceiling, of the resources it names, and only leaves below that ask for one of these take part. While this
goes on a resource counts in shares until all of it is held.

*What is deserved* comes next, again the innermost first, up to the amounts that a node names. It is not reserved for
anybody. While a node is filled, what all nodes around it deserve is their ceiling too: what is deserved inside comes
out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

Flow = dict[int, Fraction]  # leaf -> growth of its raw dominant share per unit of time
Amounts = Sequence[Fraction | None]  # per resource; None: no limit


def exact_fluid(
    parent: Sequence[int],
    weight: Sequence[Fraction],
    leaf: Sequence[int],
    direction: Sequence[Sequence[Fraction]],
    demand: Sequence[Fraction | None],
    rank: Sequence[int] | None = None,
    ceiling: Mapping[int, Amounts] | None = None,
    guarantee: Mapping[int, Sequence[Fraction]] | None = None,
    users: Sequence[tuple[Sequence[int], Amounts]] = (),
    deserved: Mapping[int, Amounts] | None = None,
    jobs: dict[int, int] | None = None,
) -> list[Fraction]:
    """The tasks of each leaf; arguments as for the solver, demand None for no limit.

    ceiling, guarantee, deserved: of inner nodes that have one. users: the leaves of each limited user, as node
    numbers, and the cap on what they get together. jobs: the rank of each inner node that is a job of unlike tasks.
    """
    fluid = _Fluid(parent, weight, leaf, direction, demand, rank, ceiling or {}, guarantee or {}, users, jobs or {})
    fluid.deserved = deserved or {}
    return fluid.run()


class _Fluid:
    def __init__(
        self,
        parent: Sequence[int],
        weight: Sequence[Fraction],
        leaf: Sequence[int],
        direction: Sequence[Sequence[Fraction]],
        demand: Sequence[Fraction | None],
        rank: Sequence[int] | None,
        ceiling: Mapping[int, Amounts],
        guarantee: Mapping[int, Sequence[Fraction]],
        users: Sequence[tuple[Sequence[int], Amounts]],
        jobs: dict[int, int],
    ) -> None:
        self.parent = list(parent)
        self.weight = [Fraction(w) for w in weight]
        self.leaf = list(leaf)
        self.resources = range(len(direction[0]) if direction else 0)
        self.direction = {n: [Fraction(v) for v in d] for n, d in zip(leaf, direction, strict=True)}
        self.demand = {n: None if q is None else Fraction(q) for n, q in zip(leaf, demand, strict=True)}
        self.children: list[list[int]] = [[] for _ in parent]
        for node, above in enumerate(parent):
            if above >= 0:
                self.children[above].append(node)
        self.jobs = jobs
        self.rank = dict(zip(leaf, rank or [0] * len(leaf), strict=True)) | jobs
        for below in self.children:  # other inner children belong to the first class that wants anything
            wanting = [c for c in below if c in self.rank and self.wants(c)]
            first = min((self.rank[c] for c in wanting), default=0)
            self.rank |= {c: first for c in below if c not in self.rank}
        self.ceiling, self.users = ceiling, users
        self.guarantee = {n: reserved for n, reserved in guarantee.items() if any(reserved)}
        self.tasks = dict.fromkeys(leaf, Fraction(0))
        self.deserved: Mapping[int, Amounts] = {}
        self.serving: set[int] = set()  # the nodes whose guarantees are being filled; none: the ordinary fill
        self.giving: set[int] = set()  # the nodes that are being filled up to what they deserve
        self.around: set[int] = set()  # these, and those around them

    def wants(self, n: int) -> bool:
        """Whether a leaf, or a piece of a job, asks for anything."""
        if n in self.direction:
            return any(self.direction[n]) and self.demand[n] != 0
        return any(self.wants(c) for c in self.children[n])

    def run(self) -> list[Fraction]:
        for n in self.leaf:  # what asks for nothing gets all it asks for
            limit = self.demand[n]
            if not any(self.direction[n]) and limit is not None:
                self.tasks[n] = limit
        heights = [self.height(n) for n in self.guarantee]
        for height in range(1, max(heights, default=0) + 1):
            self.serving = {n for n in self.guarantee if self.height(n) == height}
            self.fill()
        self.serving = set()
        inside = {n: self.inside(n) for n in self.deserved}
        for height in range(1, max(inside.values(), default=0) + 1):
            self.giving = {n for n, h in inside.items() if h == height}
            self.around = {n for n, h in inside.items() if h >= height}
            self.fill()
        self.giving, self.around = set(), set()
        self.fill()
        return [self.tasks[n] for n in self.leaf]

    def height(self, n: int) -> int:
        """How many guarantees lie inside each other from here down."""
        return (n in self.guarantee) + max((self.height(c) for c in self.children[n]), default=0)

    def inside(self, n: int) -> int:
        """How many nodes that name what they deserve lie inside each other from here down."""
        names = n in self.deserved and any(amount is not None for amount in self.deserved[n])
        return names + max((self.inside(c) for c in self.children[n]), default=0)

    def fill(self) -> None:
        while True:
            self.measure()
            if not self.active[0]:
                return
            flow = self.flow(0)
            self.rate = self.spread(flow)
            time = min(t for t in self.events(flow) if t > 0)
            for n, speed in flow.items():
                self.tasks[n] += time * speed / max(self.direction[n])

    # --- where everybody stands ---------------------------------------------------------------------------------

    def measure(self) -> None:
        """Vectors, claims, weighted shares over the open resources, and who can be served."""
        size = len(self.children)
        self.held: list[list[Fraction]] = [[] for _ in range(size)]
        self.below: list[list[Fraction]] = [[] for _ in range(size)]  # what the children of a node claim together
        for n in reversed(range(size)):
            if n in self.direction:
                self.held[n] = self.below[n] = [v * self.tasks[n] for v in self.direction[n]]
            else:
                self.held[n] = [sum((self.held[c][j] for c in self.children[n]), Fraction(0)) for j in self.resources]
                self.below[n] = [
                    sum((max(self.reserved(c, j), self.below[c][j]) for c in self.children[n]), Fraction(0))
                    for j in self.resources
                ]
        counted = self.held if self.serving else self.below
        self.open = {j for j in self.resources if counted[0][j] < 1}
        self.full: list[set[int]] = [set() for _ in range(size)]
        for n in range(size):
            self.full[n] = {
                j for j in self.resources if (most := self.most(n, j)) is not None and self.below[n][j] >= most
            }
        self.active = [False] * size
        for n in reversed(range(size)):
            if n in self.direction:
                self.active[n] = self.servable(n)
            else:
                self.active[n] = any(self.active[c] for c in self.children[n])
        self.share = [self.top(n) / self.weight[n] for n in range(size)]

    def reserved(self, n: int, j: int) -> Fraction:
        return Fraction(self.guarantee[n][j]) if n in self.guarantee else Fraction(0)

    def most(self, n: int, j: int) -> Fraction | None:
        """How much the children of a node may claim; where nothing can be added above, no more than is reserved."""
        if n and j in self.full[self.parent[n]]:
            return self.reserved(n, j)
        limits = [Fraction(1)] if n == 0 else []
        if n in self.ceiling and (ceiling := self.ceiling[n][j]) is not None:
            limits.append(Fraction(ceiling))
        if n in self.serving and self.guarantee[n][j] > 0:
            limits.append(self.guarantee[n][j])
        if n in self.around and (deserved := self.deserved[n][j]) is not None:
            limits.append(Fraction(deserved))
        return min(limits, default=None)

    def servable(self, n: int) -> bool:
        """Whether a leaf wants more, may have more, and takes part."""
        asks = {j for j in self.resources if self.direction[n][j]}
        limit = self.demand[n]
        if not asks or (limit is not None and self.tasks[n] >= limit):
            return False
        if asks & self.full[max(self.parent[n], 0)]:
            return False
        for leaves, cap in self.users:
            if n in leaves and any((most := cap[j]) is not None and self.together(leaves, j) >= most for j in asks):
                return False
        if not self.serving and not self.giving:
            return True
        above = n
        while above >= 0:
            if above in self.giving and any(self.deserved[above][j] for j in asks):
                return True
            if above in self.serving and any(self.guarantee[above][j] > 0 for j in asks):
                return True
            above = self.parent[above]
        return False

    def together(self, leaves: Sequence[int], j: int) -> Fraction:
        return sum((self.held[n][j] for n in leaves), Fraction(0))

    def top(self, n: int) -> Fraction:
        """Of an inner node over the open resources; what a leaf asks for always counts."""
        return max((self.held[n][j] for j in self.counted(n)), default=Fraction(0))

    def counted(self, n: int) -> set[int]:
        return set(self.resources) if n in self.direction or n in self.jobs else self.open

    # --- who is served ------------------------------------------------------------------------------------------

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
        fastest = max((rate[j] for j in self.counted(n) if self.held[n][j] == top), default=Fraction(0))
        return fastest / self.weight[n]

    # --- until when ---------------------------------------------------------------------------------------------

    def events(self, flow: Flow) -> list[Fraction]:
        """Times until the proportions may change; an event that is over by now may be among them as 0."""
        times = [(1 - self.held[0][j]) / self.rate[0][j] for j in self.open if self.rate[0][j] > 0]
        times += self.limit_events()
        for n, speed in flow.items():
            limit = self.demand[n]
            if limit is not None:
                times.append((limit - self.tasks[n]) * max(self.direction[n]) / speed)
        for n in range(len(self.children)):
            top, pace = self.top(n), self.rise(n, self.rate[n]) * self.weight[n]
            faster = [j for j in self.counted(n) if self.rate[n][j] > pace]
            times += [(top - self.held[n][j]) / (self.rate[n][j] - pace) for j in faster]
            able = self.contenders(n)
            for low in able:
                for high in able:
                    closing = self.rise(low, self.rate[low]) - self.rise(high, self.rate[high])
                    if self.share[low] < self.share[high] and closing > 0:
                        times.append((self.share[high] - self.share[low]) / closing)
        return times

    def limit_events(self) -> list[Fraction]:
        """Times until a node or a user is full, or a guarantee is used."""
        times = []
        growth: list[list[Fraction]] = [[] for _ in self.children]  # of what the children claim together
        for n in reversed(range(len(self.children))):
            growth[n] = list(self.rate[n]) if n in self.direction else [Fraction(0) for _ in self.resources]
            for j in self.resources:
                for c in self.children[n]:
                    if self.below[c][j] >= self.reserved(c, j):
                        growth[n][j] += growth[c][j]
                if growth[n][j] > 0:
                    marks = [mark for mark in (self.most(n, j), self.reserved(n, j)) if mark is not None]
                    times += [(mark - self.below[n][j]) / growth[n][j] for mark in marks]
        for leaves, cap in self.users:
            for j in self.resources:
                limit, pace = cap[j], sum((self.rate[n][j] for n in leaves), Fraction(0))
                if limit is not None and pace > 0:
                    times.append((limit - self.together(leaves, j)) / pace)
        return times
