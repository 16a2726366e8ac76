"""The table of jobs: one row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubebase.ages import age
from pumice.cli.cluster.job_manifest import USER_ANNOTATION
from pumice.cli.cluster.object_printer import TableRow, count_text, styled_state
from pumice.cli.cluster.resource_quantities import format_quantities
from pumice.cli.text_table import Column

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource

POD_PHASES = ("pending", "running", "succeeded", "failed", "unknown")
"""A job's pods by phase, as its status counts them."""


class JobTable:
    """Jobs: those of some queues, of a user, or of some names, or all."""

    def __init__(
        self,
        names: Sequence[str] = (),
        *,
        queues: Iterable[str] | None = None,
        user: str = "",
        everywhere: bool = False,
        wide: bool = False,
        used: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        """``used``: what the pods of jobs use, by namespace and name; without it there is no such column."""
        self.existing_names: list[str] = []  # the names of all jobs in the last list
        self._names = names
        self._queues = None if queues is None else frozenset(queues)
        self._user = user
        self._everywhere = everywhere
        self._wide = wide
        first = [Column("Namespace")] if everywhere else []
        self.columns = [
            *first,
            Column("Name", watch_width=15),
            Column("Queue", watch_width=10),
            Column("Phase", watch_width=len("Terminating")),
            Column("Replicas", align_right=True),
            Column("Min", align_right=True),
            *(Column(phase.capitalize(), align_right=True) for phase in POD_PHASES),
            Column("Retries", align_right=True),
            Column("Age", align_right=True, ignore_changes=True),
            *(_WIDE if wide else ()),
            *([Column("Used")] if wide and used else ()),
        ]
        self._used = used if wide else None
        self.state_column = 2 + len(first)

    @property
    def resource(self) -> Resource[Any]:
        """Jobs."""
        from pumice.kube.resources import JOBS

        return JOBS

    def rows(self, objects: Iterable[Document]) -> Mapping[str, TableRow]:
        """The lines, by namespace and name, or as the names were given."""
        found = {key_of(document): document for document in objects}
        self.existing_names = [str(document["metadata"]["name"]) for document in found.values()]
        if self._queues is not None:
            found = {key: document for key, document in found.items() if queue_of(document) in self._queues}
        if self._user:
            found = {key: document for key, document in found.items() if user_of(document) == self._user}
        order = {name: i for i, name in enumerate(self._names)}
        if order:
            found = {key: document for key, document in found.items() if document["metadata"]["name"] in order}
        ordered = sorted(found.items(), key=lambda pair: (order.get(pair[1]["metadata"]["name"], 0), pair[0]))
        return {"/".join(key): TableRow(self._cells(document), document) for key, document in ordered}

    def _cells(self, job: Document) -> list[str]:
        about, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
        first = [str(about.get("namespace") or "")] if self._everywhere else []
        cells = [
            *first,
            str(about["name"]),
            queue_of(job) or "-",
            styled_state(phase_of(job)),
            str(replicas_of(spec)),
            count_text(spec.get("minAvailable")),
            *(count_text(status.get(phase)) for phase in POD_PHASES),
            count_text(status.get("retryCount")),
            age(about.get("creationTimestamp")),
        ]
        measured = [self._used.get(key_of(job), "-")] if self._used else []
        return [*cells, *_wide_cells(job), *measured] if self._wide else cells


_WIDE = (Column("User"), Column("Priority"), Column("Tasks"), Column("Requests"), Column("Message"))


def _wide_cells(job: Document) -> list[str]:
    spec = job.get("spec") or {}
    tasks = tasks_of(spec)
    return [
        user_of(job) or "-",
        str(spec.get("priorityClassName") or "-"),
        ",".join(f"{task.get('name') or '?'}={count_text(task.get('replicas'))}" for task in tasks) or "-",
        " ".join(dict.fromkeys(format_quantities(requests_of(task)) for task in tasks)) or "-",
        str(((job.get("status") or {}).get("state") or {}).get("message") or "-"),
    ]


# ---- what a job says ---------------------------------------------------------------------------------------------


def key_of(job: Document) -> tuple[str, str]:
    """Namespace and name."""
    return str(job["metadata"].get("namespace") or ""), str(job["metadata"]["name"])


def phase_of(job: Document) -> str:
    """The phase of a job; Pending before the controller has set one."""
    if job["metadata"].get("deletionTimestamp"):
        return "Deleting"
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def user_of(job: Document) -> str:
    """The user who submitted it, as admission wrote it down."""
    return str((job["metadata"].get("annotations") or {}).get(USER_ANNOTATION) or "")


def queue_of(job: Document) -> str:
    """The queue that it is in."""
    return str((job.get("spec") or {}).get("queue") or "")


def tasks_of(spec: Document) -> list[Document]:
    """Its parts."""
    return [task for task in spec.get("tasks") or () if isinstance(task, dict)]


def replicas_of(spec: Document) -> int:
    """The number of pods of a job."""
    return sum(int(task.get("replicas") or 0) for task in tasks_of(spec))


def requests_of(task: Document) -> dict[str, Any]:
    """The requests of the containers of one pod of a task. A limit without a request counts as the request."""
    from kubebase.quantity import Quantity, QuantityError, parse

    total: dict[str, Quantity] = {}
    for container in ((task.get("template") or {}).get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, amount in asked.items():
            try:
                more = parse(amount)
            except QuantityError:
                continue
            total[name] = Quantity(total[name].nano + more.nano, more.notation) if name in total else more
    return {name: amount.format() for name, amount in total.items()}
