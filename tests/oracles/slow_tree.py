"""The share tree from scratch: root, queues, namespaces, jobs; and a walk down it that recomputes every key.

A ``Branch`` has no accounts. Whoever wants to know what a branch holds, is entitled to or asks for adds up the jobs
below it, each time again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pumice.model.specs import ROOT, JobSpec, Queue, Quota

GRID = 2**30  # keys are compared as multiples of 1/GRID
Key = tuple[object, ...]


@dataclass(eq=False)
class Branch:
    """A node of the tree; ``job`` at the leaves."""

    kind: int  # 0 queue, 1 namespace, 2 job
    name: str
    weight: float = 1.0
    created: int = 0
    queue: str | None = None
    job: JobSpec | None = None
    children: list[Branch] = field(default_factory=list)

    def jobs(self) -> Iterator[Branch]:
        """All jobs below (or itself)."""
        if self.job is not None:
            yield self
        for child in self.children:
            yield from child.jobs()

    @property
    def rank(self) -> tuple[int, int, str]:
        """Age, then name: the last word in every tie."""
        return (self.created, self.kind, self.name)


def on_grid(key: float | Fraction) -> int:
    """A key as a number of grid steps (halves to even)."""
    return round(key * GRID)


def queue_paths(queues: Mapping[str, Queue]) -> dict[str, tuple[str, ...]]:
    """Where each queue stands: by its annotation, else below its parent, else below root."""
    paths: dict[str, tuple[str, ...]] = {ROOT: (ROOT,)}

    def path(name: str) -> tuple[str, ...]:
        if name not in paths:
            queue = queues[name]
            if queue.path is not None:
                parts = tuple(queue.path.split("/"))
                paths[name] = parts if parts[0] == ROOT else (ROOT, *parts)
            else:
                paths[name] = (*path(queue.parent or ROOT), name)
        return paths[name]

    for name in queues:
        path(name)
    return paths


def plant(
    queues: Mapping[str, Queue],
    quotas: Mapping[str, Quota],
    jobs: Mapping[str, JobSpec],
    *,
    namespaces: bool,
) -> tuple[Branch, dict[str, list[Branch]]]:
    """The tree of these queues and jobs; and of every job in it the branches from the root down to it."""
    root = Branch(0, ROOT, queue=ROOT)
    at: dict[tuple[str, ...], Branch] = {(ROOT,): root}
    paths = queue_paths(queues)
    # Oldest first: an inner node is as old as the first queue that named it, and weighs what the last one said.
    for queue in sorted(queues.values(), key=lambda queue: (queue.path is None, queue.created, queue.name)):
        path = paths[queue.name]
        if queue.path is not None and queue.path_weights is not None:
            weights = [Fraction(part) for part in queue.path_weights.split("/")]
        else:
            weights = [Fraction(1)] * (len(path) - 1) + [Fraction(queue.weight)]
        for depth in range(2, len(path) + 1):
            here = path[:depth]
            if here not in at:
                at[here] = Branch(0, here[-1], created=queue.created)
                at[here[:-1]].children.append(at[here])
            if queue.path_weights is not None or depth == len(path):
                at[here].weight = float(weights[depth - 1])
        at[path].queue = queue.name
    lines: dict[str, list[Branch]] = {}
    for key, job in jobs.items():
        if job.queue not in paths:
            continue  # waits for its queue
        path = paths[job.queue]
        line = [at[path[: depth + 1]] for depth in range(len(path))]
        if namespaces:
            line.append(_namespace(line[-1], job.namespace, quotas))
        leaf = Branch(2, key, created=job.created, job=job)
        line[-1].children.append(leaf)
        lines[key] = [*line, leaf]
    return root, lines


def _namespace(queue: Branch, name: str, quotas: Mapping[str, Quota]) -> Branch:
    for child in queue.children:
        if child.kind == 1 and child.name == name:
            return child
    said = [q.weight for q in quotas.values() if q.namespace == name and q.weight is not None and q.weight > 0]
    found = Branch(1, name, weight=float(max(said, default=1)))
    queue.children.append(found)
    return found


def walk(root: Branch, candidates: Sequence[Branch], key: Callable[[Branch, list[Branch]], Key]) -> Branch:
    """From the root down to the child with the smallest key, among those with candidates below.

    ``key`` is given the branch and the candidates below it.
    """
    node = root
    while node.job is None:
        below = [(child, [job for job in child.jobs() if job in candidates]) for child in node.children]
        node, _ = min(((child, those) for child, those in below if those), key=lambda pair: key(*pair))
    return node
