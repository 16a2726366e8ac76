"""The queues of a workload: those of the cluster that it names, or a tree made from its paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kubebase.resource_vector import PODS
from pumice.input_errors import BadInput, did_you_mean
from pumice.model.queue_tree import build_queue_tree
from pumice.model.specs import ROOT, Items, Queue
from pumice.simulate.workload_file import WorkloadFile


def match_queues(workload: WorkloadFile, queues: Mapping[str, Queue]) -> dict[str, str]:
    """The leaf queue for each queue that the workload names, by name or by path; raises BadInput."""
    tree = build_queue_tree(queues)
    known = {name: name for name in queues}
    for name, path in tree.path_of.items():
        if name in queues:
            known["/".join(path)] = name
            known["/".join(path).removeprefix(f"{ROOT}/")] = name
    inner = {path[:-1] for path in tree.placements}
    problems = []
    for queue in workload.queues:
        if queue not in known:
            hint = did_you_mean(queue, known) or f"; the queues are {', '.join(sorted(queues))}"
            problems.append(workload.queue_problem(queue, f"there is no queue '{queue}' in the cluster{hint}"))
        elif tree.path_of.get(known[queue]) in inner:
            problems.append(workload.queue_problem(queue, f"queue '{queue}' has queues below it, so it takes no jobs"))
    if problems:
        raise BadInput(problems)
    return {queue: known[queue] for queue in workload.queues}


def queues_of_paths(workload: WorkloadFile) -> tuple[dict[str, Queue], dict[str, str]]:
    """A tree of queues with weight 1 for the paths that the workload names, and the leaf for each; raises BadInput.

    A queue has the last part of its path as its name, or the whole path where another queue ends alike.
    """
    paths = {queue: tuple(part for part in queue.split("/") if part) for queue in workload.queues}
    paths = {queue: path[1:] if path[:1] == (ROOT,) and len(path) > 1 else path for queue, path in paths.items()}
    nodes = sorted({path[:depth] for path in paths.values() for depth in range(1, len(path) + 1)})
    inner = {path[:-1] for path in nodes}
    problems = []
    for queue, path in paths.items():
        if not path or ROOT in path:
            problems.append(workload.queue_problem(queue, f"'{queue}' is not a queue or a path of queues"))
        elif path in inner:
            problems.append(workload.queue_problem(queue, f"queue '{queue}' has queues below it, so it takes no jobs"))
    if problems:
        raise BadInput(problems)
    ends = Counter(path[-1] for path in nodes)
    names = {path: path[-1] if ends[path[-1]] == 1 else "-".join(path) for path in nodes}
    queues = {names[path]: Queue(names[path], parent=names[path[:-1]] if len(path) > 1 else None) for path in nodes}
    return queues, {queue: names[path] for queue, path in paths.items()}


def deserved_by_weight(queues: Mapping[str, Queue], capacity: Iterable[int]) -> dict[str, Items]:
    """What each queue deserves if its parent's part is divided by weight; root's part is the capacity."""
    parts: dict[str | None, list[int]] = {None: list(capacity)}
    for queue in queues.values():  # parents first
        total = sum(other.weight for other in queues.values() if other.parent == queue.parent)
        parts[queue.name] = [amount * queue.weight // total for amount in parts[queue.parent]]
    return {
        queue: tuple((j, amount) for j, amount in enumerate(part) if amount and j != PODS)
        for queue, part in parts.items()
        if queue is not None
    }
