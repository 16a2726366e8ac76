"""What the tree and queue pages must show, counted anew from the objects of the Kubernetes API.

It shares no code with ``pumice.ui``: usage and entitlement come from the status of Queues, jobs and tasks from
PodGroups and Pods, the rest by the definitions of docs/ui.md. It knows queues with ``spec.parent`` and weights, as in
the showcase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from kubebase.quantity import parse
from tests.ui.browser.shown_numbers import SHOWN_LEAST, amount, number, percent

Amounts = dict[str, int]

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
GROUP = "scheduling.k8s.io/group-name"
USER = "volcano.sh/user"
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


def amounts_of(quantities: Mapping[str, Any] | None) -> Amounts:
    """Amounts in base units: bytes of memory, thousandths of anything else."""
    found = {name: parse(text) for name, text in (quantities or {}).items() if name in RESOURCES}
    return {name: one.value() if name == "memory" else one.milli() for name, one in found.items()}


def total(vectors: Iterable[Mapping[str, int]]) -> Amounts:
    """The sum of amounts."""
    sums = dict.fromkeys(RESOURCES, 0)
    for vector in vectors:
        for name, value in vector.items():
            sums[name] += value
    return sums


def largest_part(held: Mapping[str, int], whole: Mapping[str, int]) -> float:
    """The dominant share."""
    parts = [value / whole[name] if whole.get(name) else 1.0 for name, value in held.items() if value]
    return round(max(parts, default=0.0), 6)


@dataclass(frozen=True)
class Task:
    """A pod."""

    state: str
    request: Amounts

    @property
    def holds(self) -> bool:
        return self.state in ("starting", "running", "unknown")


def task_of(pod: Any) -> Task:
    """The state of a pod, and its request: the showcase has no init containers."""
    phase = pod.get("status", {}).get("phase", "Pending")
    request = total(amounts_of(each["resources"].get("requests")) for each in pod["spec"]["containers"])
    if phase in ("Succeeded", "Failed"):
        return Task(phase.lower(), request)
    if "deletionTimestamp" in pod["metadata"]:
        return Task("ending", request)
    if not pod["spec"].get("nodeName"):
        return Task("waiting", request)
    return Task({"Running": "running", "Pending": "starting"}.get(phase, "unknown"), request)


@dataclass(frozen=True)
class JobCount:
    """A PodGroup with its pods."""

    group: Any
    tasks: list[Task]

    @cached_property
    def used(self) -> Amounts:
        return total(task.request for task in self.tasks if task.holds)

    @cached_property
    def waiting(self) -> Amounts:
        return total(task.request for task in self.tasks if task.state == "waiting")

    def count(self, *states: str) -> int:
        return sum(task.state in states for task in self.tasks)

    @property
    def phase(self) -> str:
        return str(self.group.get("status", {}).get("phase", "Pending"))

    @property
    def alive(self) -> bool:
        return self.phase != "Completed" or any(task.state not in ("succeeded", "failed") for task in self.tasks)


@dataclass(eq=False)
class QueueCount:
    """A Queue with everything below it."""

    path: str
    object: Any
    children: list[QueueCount] = field(default_factory=list)
    jobs: list[JobCount] = field(default_factory=list)
    siblings_weight: int = 1
    own: Amounts = field(default_factory=dict)
    limit: Amounts = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def weight(self) -> int:
        return int(self.object["spec"].get("weight", 1))

    @cached_property
    def below(self) -> list[JobCount]:
        """The jobs in the queue and below it."""
        return [*self.jobs, *(job for child in self.children for job in child.below)]

    @cached_property
    def used(self) -> Amounts:
        allocated = self.object.get("status", {}).get("allocated")
        return total([amounts_of(allocated)]) if allocated is not None else total(job.used for job in self.below)

    @cached_property
    def entitled(self) -> Amounts | None:
        quantities = self.object.get("status", {}).get("entitled")
        return None if quantities is None else total([amounts_of(quantities)])

    @cached_property
    def waiting(self) -> Amounts:
        return total(job.waiting for job in self.below)

    def tasks(self, *states: str) -> int:
        return sum(job.count(*states) for job in self.below)

    def phases(self, *phases: str) -> int:
        return sum(job.phase in phases for job in self.below)

    def beyond_own(self, sign: int) -> Amounts:
        """Used beyond the own part, or with -1 the own part beyond what is used."""
        return {name: max(0, sign * (self.used[name] - self.own[name])) for name in RESOURCES}


class Recount:
    """The numbers of both pages."""

    def __init__(self, objects: Mapping[str, list[Any]]) -> None:
        nodes = [node for node in objects["nodes"] if not node["spec"].get("unschedulable")]
        self.nodes = len(objects["nodes"])
        self.capacity = total(amounts_of(node["status"]["allocatable"]) for node in nodes)
        self.queues = _placed({queue["metadata"]["name"]: queue for queue in objects["queues"]})
        by_name = {queue.name: queue for queue in self.queues.values()}
        tasks: dict[str, list[Task]] = {}
        for pod in objects["pods"]:
            group = f"{pod['metadata']['namespace']}/{pod['metadata']['annotations'][GROUP]}"
            tasks.setdefault(group, []).append(task_of(pod))
        for group in objects["podgroups"]:
            about = group["metadata"]
            job = JobCount(group, tasks.get(f"{about['namespace']}/{about['name']}", []))
            by_name[group["spec"]["queue"]].jobs.append(job)
        self.root = self.queues["root"]
        _divide(self.root, self.capacity)
        self.targets = any(any((queue.entitled or {}).values()) for queue in self.queues.values())

    def lent(self, queue: QueueCount) -> Amounts:
        """What other queues use of its own part: in proportion to the unused parts of all leaves."""
        if queue is self.root:
            return total([])
        found = {}
        for name in RESOURCES:
            leaves = [each for each in self.queues.values() if not each.children]
            unused = sum(each.beyond_own(-1)[name] for each in leaves)
            borrowed = sum(each.beyond_own(1)[name] for each in leaves)
            part = Fraction(min(unused, borrowed), unused) if unused else Fraction(0)
            found[name] = int(queue.beyond_own(-1)[name] * part)
        return found

    def entitled(self, queue: QueueCount) -> Amounts | None:
        return queue.entitled if self.targets else None

    def owed(self, queue: QueueCount) -> Amounts:
        entitled = self.entitled(queue) or {}
        return {name: max(0, value - queue.used[name]) for name, value in entitled.items()}

    def flows(self, queue: QueueCount, name: str) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Whose parts of a resource a queue uses, and who uses its own: leaves outside of it, largest amounts first."""
        below = f"{queue.path}/"
        leaves = [each for each in self.queues.values() if not each.children]
        others = [each for each in leaves if each is not queue and not each.path.startswith(below)]
        borrowed = _in_proportion(queue.beyond_own(1)[name], {each: each.beyond_own(-1)[name] for each in others})
        lent = _in_proportion(self.lent(queue)[name], {each: each.beyond_own(1)[name] for each in others})
        return borrowed, lent

    # ---- as the pages show them ---------------------------------------------------------------------------

    def tree_page(self) -> dict[str, Any]:
        """The numbers on the page of the tree."""
        return {"cluster": self.cluster_line(), "tree": self.tree_rows()}

    def cluster_line(self) -> list[str]:
        """The line above every page."""
        used = [(self.root.used[name], self.capacity[name]) for name in RESOURCES]
        labels = ("CPU", "Memory", "GPU")
        parts = [f"{label} {percent(taken / whole)}" for label, (taken, whole) in zip(labels, used, strict=True)]
        tasks = f"Tasks {self._running(self.root)} running, {self.root.tasks('waiting')} waiting"
        return [*parts, f"Nodes {self.nodes}/{self.nodes}", tasks]

    def tree_rows(self) -> list[list[str]]:
        """Path, weight with part, the bar in words, used, entitled, jobs, waiting."""
        return [
            [
                queue.path,
                self._weight_with_part(queue),
                self.bar(queue),
                self._used_share(queue),
                self._entitled_share(queue),
                str(queue.phases(*PHASES[:4])),
                str(queue.tasks("waiting")),
            ]
            for queue in self.queues.values()
        ]

    def bar(self, queue: QueueCount) -> str:
        """The bar of a queue in words."""
        used, own = largest_part(queue.used, self.capacity), largest_part(queue.own, self.capacity)
        entitled = self.entitled(queue)
        entitled_share = largest_part(entitled, self.capacity) if entitled is not None else None
        lent = min(
            max(value / self.capacity[name] for name, value in self.lent(queue).items()),
            max(0.0, own - used),
        )
        limit = self._limit_share(queue)
        words = [f"{queue.name}: uses {percent(used)} of the cluster"]
        words += [f"entitled to {percent(entitled_share)}"] if entitled_share is not None else []
        words += [f"{percent(used - own)} borrowed"] if used - own > SHOWN_LEAST else []
        owed = (entitled_share if entitled_share is not None else used) - used
        words += [f"owed {percent(owed)}"] if owed > SHOWN_LEAST else []
        words += [f"lends {percent(lent)}"] if lent > SHOWN_LEAST else []
        words += [f"limit {percent(limit)}"] if limit is not None else []
        return ", ".join(words)

    def queue_page(self, name: str) -> dict[str, Any]:
        """The numbers on the page of a queue."""
        queue = next(each for each in self.queues.values() if each.name == name)
        above = self.queues.get(queue.path.rpartition("/")[0])
        beside = [each for each in above.children if each is not queue] if above is not None else []
        waits = queue.phases("Inqueue", "Pending")
        part = f" {self._part(queue)} of {above.name}" if above is not None else ""
        return {
            "bar": self.bar(queue),
            "facts": [
                f"{number(queue.weight)}{part}",
                f"{queue.phases('Running')} running, {waits} waiting",
                f"{self._running(queue)} running, {queue.tasks('waiting')} waiting",
            ],
            **self._flow_picture(queue),
            "Amounts by resource": self._amount_rows(queue),
            "Queues below": [self._listed(each) for each in queue.children],
            "Queues beside it": [self._listed(each) for each in beside],
            "Jobs": sorted(self._job(job, with_queue=bool(queue.children)) for job in queue.below),
            "Users": self._holders(queue, lambda job: job.group["metadata"]["annotations"][USER]),
            "Namespaces": self._holders(queue, lambda job: job.group["metadata"]["namespace"]),
        }

    def _flow_picture(self, queue: QueueCount) -> dict[str, Any]:
        """The bands of the picture of borrowing and lending, and the lists below it.

        It is of the dominant resource, or if none of that is borrowed or lent, of the first that is.
        """
        used = {name: value / self.capacity[name] for name, value in queue.used.items() if value}
        for name in (*([max(used, key=lambda each: used[each])] if used else []), *RESOURCES):
            borrowed, lent = ([[each, amount(name, value)] for each, value in flow] for flow in self.flows(queue, name))
            if borrowed or lent:
                lists = [[" ".join(band) for band in flow] for flow in (borrowed, lent)]
                return {"flow bands": [*borrowed, *lent], "flow lists": lists}
        return {"flow bands": [], "flow lists": []}

    def _amount_rows(self, queue: QueueCount) -> list[list[str]]:
        guarantee = amounts_of(queue.object["spec"].get("guarantee", {}).get("resource"))
        rows: list[tuple[str, Amounts | None]] = [
            ("Used", queue.used),
            ("Entitled", self.entitled(queue)),
            ("Owed", self.owed(queue)),
            ("Waiting", queue.waiting),
            ("Own part", queue.own),
            ("Borrowed", queue.beyond_own(1)),
            ("Lent", self.lent(queue)),
            *([("Limit", queue.limit)] if queue.limit else []),
            *([("Guarantee", guarantee)] if guarantee else []),
            ("Whole cluster", self.capacity),
        ]
        return [[title, *(amount(name, (vector or {}).get(name, 0)) for name in RESOURCES)] for title, vector in rows]

    def _listed(self, queue: QueueCount) -> list[str]:
        shares = [self._used_share(queue), self._entitled_share(queue)]
        return [queue.name, number(queue.weight), self.bar(queue), *shares, str(queue.tasks("waiting"))]

    def _job(self, job: JobCount, *, with_queue: bool) -> list[str]:
        about = job.group["metadata"]
        name = about["ownerReferences"][0]["name"]
        return [
            f"{name} {about['namespace']}",
            *([job.group["spec"]["queue"]] if with_queue else []),
            about["annotations"][USER],
            job.phase,
            str(job.count("running", "starting")),
            str(job.count("waiting")),
            percent(largest_part(job.used, self.capacity)),
        ]

    def _holders(self, queue: QueueCount, key: Any) -> list[list[str]]:
        held: dict[str, list[JobCount]] = {}
        for job in queue.below:
            held.setdefault(key(job), []).append(job)
        whole = queue.used if any(queue.used.values()) else None
        rows = []
        for name, jobs in held.items():
            part = largest_part(total(job.used for job in jobs), whole) if whole is not None else None
            waiting = sum(job.count("waiting") for job in jobs)
            rows.append([name, percent(part), str(sum(job.alive for job in jobs)), str(waiting)])
        return sorted(rows)

    def _running(self, queue: QueueCount) -> int:
        return queue.tasks("starting", "running", "unknown")

    def _weight_with_part(self, queue: QueueCount) -> str:
        return number(queue.weight) + ("" if queue is self.root else f" {self._part(queue)}")

    def _part(self, queue: QueueCount) -> str:
        return percent(round(queue.weight / queue.siblings_weight, 6))

    def _used_share(self, queue: QueueCount) -> str:
        return percent(largest_part(queue.used, self.capacity))

    def _entitled_share(self, queue: QueueCount) -> str:
        entitled = self.entitled(queue)
        return percent(largest_part(entitled, self.capacity) if entitled is not None else None)

    def _limit_share(self, queue: QueueCount) -> float | None:
        """By the dominant resource of what is used, if that is limited; else the smallest."""
        parts = {name: most / self.capacity[name] for name, most in queue.limit.items()}
        used = [(value / self.capacity[name], name) for name, value in queue.used.items() if value]
        found = parts.get(max(used, key=lambda each: each[0])[1] if used else "", min(parts.values(), default=1.0))
        return found if found < 1 else None


def _in_proportion(whole: int, weights: Mapping[QueueCount, int]) -> list[tuple[str, int]]:
    """An amount in proportion to weights, the largest part first; what rounding leaves is the first one's."""
    parts = sorted(((each, weight) for each, weight in weights.items() if weight), key=lambda p: (-p[1], p[0].path))
    everything = sum(weight for _, weight in parts)
    if not whole or not parts:
        return []
    found = [(each.name, whole * weight // everything) for each, weight in parts]
    rest = whole - sum(value for _, value in found)
    found[0] = (found[0][0], found[0][1] + rest)
    return [(name, value) for name, value in found if value]


def _placed(objects: Mapping[str, Any]) -> dict[str, QueueCount]:
    """Queues by path: parents before children, siblings by name."""

    def path(name: str) -> str:
        return name if name == "root" else f"{path(objects[name]['spec']['parent'])}/{name}"

    paths = sorted(path(name).split("/") for name in objects)
    queues = {"/".join(steps): QueueCount("/".join(steps), objects[steps[-1]]) for steps in paths}
    for each in queues.values():
        above = queues.get(each.path.rpartition("/")[0])
        if above is not None:
            above.children.append(each)
    return queues


def _divide(queue: QueueCount, own: Amounts) -> None:
    """The own part by weights, and the smallest limit on the path."""
    queue.own = own
    weights = sum(child.weight for child in queue.children)
    for child in queue.children:
        child.siblings_weight = weights
        named = amounts_of(child.object["spec"].get("capability"))
        child.limit = {**queue.limit, **{name: min(most, queue.limit.get(name, most)) for name, most in named.items()}}
        _divide(child, {name: value * child.weight // weights for name, value in own.items()})
