"""What kubectl shows of a cluster of one node at one moment, and what a user would call unfair about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubebase.quantity import parse
from tests.support.end_to_end import Object
from tests.support.kubectl import Namespace

Amounts = Mapping[str, int]
"""In milli, by resource."""
JOB_NAME = "volcano.sh/job-name"
QUEUE_NAME = "volcano.sh/queue-name"


@dataclass(frozen=True)
class Standing:
    """What the status of a queue, or of an inner node without a Queue object, says."""

    entitled: Amounts
    allocated: Amounts

    def short_of(self, resource: str) -> int:
        return self.entitled.get(resource, 0) - self.allocated.get(resource, 0)


@dataclass(frozen=True)
class Task:
    """A pod that runs or waits, or will be made once its job is let in."""

    name: str
    job: str
    path: str
    """Of its queue."""
    asks: Amounts
    runs: bool


@dataclass(frozen=True)
class Shortfall:
    """What a node of the tree is short of while a task below it waits."""

    path: str
    task: str
    tasks: float
    """How many such tasks its entitlement would still hold."""
    would_fit: bool

    def __str__(self) -> str:
        return f"{self.path} is short of {self.tasks:.2f} x {self.task}"


@dataclass(frozen=True)
class View:
    """Queues and tasks as they are, and what the node has."""

    capacity: Amounts
    nodes: dict[str, Standing]  # of the tree, by path
    tasks: tuple[Task, ...]
    least: dict[str, int]  # tasks that a job must start together
    leaving: int  # pods that are being deleted

    @classmethod
    def taken(cls, kubectl: Namespace) -> View:
        """What is there now."""
        found: dict[str, list[Object]] = defaultdict(list)
        for item in kubectl.object("nodes,queues,pods,jobs.batch.volcano.sh")["items"]:
            found[item["kind"]].append(item)
        paths = {each["metadata"]["name"]: each.get("status", {}).get("path", "") for each in found["Queue"]}
        standings = {path: each["status"] for each in found["Queue"] if (path := paths[each["metadata"]["name"]])}
        standings |= {each["path"]: each for each in standings.get("root", {}).get("innerNodes", ())}
        gone = [pod for pod in found["Pod"] if "deletionTimestamp" in pod["metadata"]]
        pods = [pod for pod in found["Pod"] if pod not in gone and pod["status"].get("phase") in {"Pending", "Running"}]
        tasks = [_task(pod, paths) for pod in pods]
        with_pods = {task.job for task in tasks}
        waiting = [job for job in found["Job"] if job["metadata"]["name"] not in with_pods]
        return cls(
            capacity=_amounts(found["Node"][0]["status"]["allocatable"]),
            nodes={path: Standing(_amounts(s["entitled"]), _amounts(s["allocated"])) for path, s in standings.items()},
            tasks=tuple(sorted([*tasks, *_not_let_in(waiting, paths)], key=lambda task: task.name)),
            least={job["metadata"]["name"]: job["spec"].get("minAvailable", 1) for job in found["Job"]},
            leaving=len(gone),
        )

    def summary(self) -> str:
        """How many tasks run and wait."""
        runs = sum(task.runs for task in self.tasks)
        return f"{runs} tasks run, {len(self.tasks) - runs} wait, {len(list(self.alone()))} of them alone"

    def table(self) -> str:
        """What every node is entitled to and holds, and the tasks of its jobs: ``f0>=2`` is a gang of two."""
        lines = []
        for path, standing in sorted(self.nodes.items()):
            lines.append(f"  {path}: entitled to {_text(standing.entitled)}, holds {_text(standing.allocated)}")
            tasks = Counter((task.job, task.runs, _text(task.asks)) for task in self.tasks if task.path == path)
            for (job, runs, asks), count in sorted(tasks.items()):
                name = f"{job}>={self.least[job]}" if self.least.get(job, 1) > 1 else job
                lines.append(f"    {name}: {count} x {asks} {'run' if runs else 'wait'}")
        return "\n".join(lines)

    # ---- what is wrong -----------------------------------------------------------------------------------

    def contradictions(self) -> list[str]:
        """Where queues say something else than their pods."""
        held: dict[str, Counter[str]] = {path: Counter() for path in self.nodes}
        for task in self.tasks:
            for path in _upwards(task.path) if task.runs else ():
                held[path].update(task.asks)
        return [
            f"{path} says that it holds {dict(standing.allocated)}, its pods ask for {dict(held[path])}"
            for path, standing in self.nodes.items()
            if any(standing.allocated.get(resource, 0) != held[path][resource] for resource in ("cpu", "memory"))
        ]

    def overfull(self) -> list[str]:
        """The resources of which more is in use than there is."""
        used = self._used()
        return [f"{used[each]} of {has} {each} in use" for each, has in self.capacity.items() if used[each] > has]

    def shortfalls(self) -> list[Shortfall]:
        """Of every node, for each waiting task below it that could start alone: how many such tasks it is short of."""
        return [
            Shortfall(path, task.name, short, self._would_fit(path, task))
            for task in self.alone()
            for path in _upwards(task.path)
            if path != "root" and (short := self._short(path, task)) > 0
        ]

    def alone(self) -> Iterator[Task]:
        """The waiting tasks that could start by themselves: no gang, or one that has started."""
        running = Counter(task.job for task in self.tasks if task.runs)
        for task in self.tasks:
            least = self.least.get(task.job, 1)
            if not task.runs and (least == 1 or running[task.job] >= least):
                yield task

    def _short(self, path: str, task: Task) -> float:
        return min(self.nodes[path].short_of(resource) / amount for resource, amount in task.asks.items())

    def _would_fit(self, path: str, task: Task) -> bool:
        """Whether a task would fit into what is idle, or another group could make way and be less short afterwards.

        The other group loses one task, or a job that cannot go on with less. It must be beside the node.
        """
        used = self._used()
        idle = {resource: total - used[resource] for resource, total in self.capacity.items()}
        gain = max(amount / self.capacity[resource] for resource, amount in task.asks.items())
        return any(
            all(amount <= idle[resource] + freed.get(resource, 0) for resource, amount in task.asks.items())
            and all(
                (self.nodes[group].short_of(resource) + amount) / self.capacity[resource] < gain
                for group in groups
                for resource, amount in freed.items()
            )
            for groups, freed in [([], {}), *self._losses_beside(path)]
        )

    def _losses_beside(self, path: str) -> Iterator[tuple[list[str], Amounts]]:
        """What groups beside a node may lose at once, each with the groups that would have less."""
        running: defaultdict[str, list[Task]] = defaultdict(list)
        for task in self.tasks:
            if task.runs:
                running[task.job].append(task)
        beside = set(self._siblings(path))
        for job, tasks in running.items():
            groups = [group for group in _upwards(tasks[0].path) if beside.intersection(_upwards(group))]
            if not groups:
                continue
            if len(tasks) > max(1, self.least.get(job, 1)):
                yield from ((groups, task.asks) for task in tasks)
            else:
                total: Counter[str] = Counter()
                for task in tasks:
                    total.update(task.asks)
                yield groups, total

    def _siblings(self, path: str) -> list[str]:
        above = path.rpartition("/")[0]
        return [each for each in self.nodes if each != path and above and each.rpartition("/")[0] == above]

    def _used(self) -> Counter[str]:
        used: Counter[str] = Counter()
        for task in self.tasks:
            if task.runs:
                used.update(task.asks)
        return used


def _upwards(path: str) -> list[str]:
    """A node and all above it, up to the root."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _task(pod: Object, paths: dict[str, str]) -> Task:
    about = pod["metadata"]
    return Task(
        name=about["name"],
        job=about["annotations"].get(JOB_NAME, about["name"]),
        path=paths[about["annotations"][QUEUE_NAME]],
        asks=_requests(pod["spec"]),
        runs="nodeName" in pod["spec"],
    )


def _not_let_in(jobs: list[Object], paths: dict[str, str]) -> Iterator[Task]:
    """The tasks of jobs whose pods nobody has made yet."""
    for job in jobs:
        name, path = job["metadata"]["name"], paths[job["spec"]["queue"]]
        for role in job["spec"]["tasks"]:
            for number in range(role["replicas"]):
                asks = _requests(role["template"]["spec"])
                yield Task(f"{name}-{role['name']}-{number}", name, path, asks, runs=False)


def _requests(spec: Object) -> Amounts:
    return _amounts(spec["containers"][0]["resources"]["requests"])


def _text(amounts: Amounts) -> str:
    return f"{amounts.get('cpu', 0) / 1000:g} cpu {amounts.get('memory', 0) / 1000 / 2**30:g} GiB"


def _amounts(written: Mapping[str, str]) -> Amounts:
    return {resource: parse(text).milli() for resource, text in written.items()}
