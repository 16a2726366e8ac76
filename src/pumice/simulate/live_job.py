"""A job between its arrival and its end: which of its tasks run, and what the engine is told about them."""

from __future__ import annotations

from pumice.model.specs import JobPhase, JobSpec, TaskSpec, TaskStatus, Vector
from pumice.simulate.workload import WorkloadJob

NAMESPACE = "default"


class LiveJob:
    """The state of one job. Times are microseconds of virtual time."""

    __slots__ = (
        "end",
        "ended",
        "evictions",
        "first_start",
        "job",
        "key",
        "lost",
        "name",
        "nodes",
        "queue",
        "request",
        "started",
        "tasks",
        "terminating",
    )

    def __init__(self, job: WorkloadJob, queue: str, request: Vector) -> None:
        self.job = job
        self.name = job.name
        self.key = f"{NAMESPACE}/{self.name}"
        self.queue = queue  # the leaf queue
        self.request = request
        self.tasks = tuple([f"{self.name}-{i}" for i in range(job.tasks)])  # their names
        self.started: dict[str, int] = {}  # tasks on a node, and when each began
        self.nodes: dict[str, str] = {}
        self.terminating: set[str] = set()  # those of them that were evicted
        self.ended = 0
        self.evictions = 0
        self.lost = 0  # the run time of evicted tasks
        self.first_start: int | None = None
        self.end: int | None = None

    def spec(self, phase: JobPhase) -> JobSpec:
        """The job as its PodGroup."""
        job = self.job
        return JobSpec(NAMESPACE, self.name, self.queue, job.submit, job.gang, phase=phase, user=job.user)

    def pending_task(self, task: str, created: int) -> TaskSpec:
        """A task that waits."""
        return TaskSpec(NAMESPACE, task, self.request, self.key, created, priority=self.job.priority)

    def running_task(self, task: str, started: int) -> TaskSpec:
        """A task that runs."""
        return self._placed(task, TaskStatus.RUNNING, started)

    def terminating_task(self, task: str, started: int) -> TaskSpec:
        """A task that was evicted and is not gone yet."""
        return self._placed(task, TaskStatus.RELEASING, started)

    def ended_task(self, task: str, started: int) -> TaskSpec:
        """A task that has ended while others of its job have not."""
        return self._placed(task, TaskStatus.SUCCEEDED, started)

    def _placed(self, task: str, status: TaskStatus, started: int) -> TaskSpec:
        return TaskSpec(
            NAMESPACE,
            task,
            self.request,
            self.key,
            self.job.submit,
            priority=self.job.priority,
            node=self.nodes[task],
            status=status,
            started=started,
        )
