"""The tables of JobFlows and JobTemplates: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubebase.ages import age
from pumice.cli.cluster.job_table import key_of, phase_of, queue_of, replicas_of
from pumice.cli.cluster.object_printer import TableRow, count_text, styled_state
from pumice.cli.text_table import Column

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource

JOB_PHASES = ("pending", "running", "completed", "failed")
"""The jobs of a flow by phase, as its status lists them."""


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A kind of the group flow.volcano.sh: its resource, and the middle columns of its table."""

    title: str
    load_resource: Callable[[], Resource[Any]]
    columns: tuple[Column, ...]
    cells: Callable[[Document], list[str]]

    @property
    def word(self) -> str:
        """The kind on command lines."""
        return self.title.lower()

    @property
    def resource(self) -> Resource[Any]:
        """The resource in the API, which is imported when it is needed."""
        return self.load_resource()


def _job_flows() -> Resource[Any]:
    from pumice.kube.resources import JOB_FLOWS

    return JOB_FLOWS


def _job_templates() -> Resource[Any]:
    from pumice.kube.resources import JOB_TEMPLATES

    return JOB_TEMPLATES


def _flow_cells(flow: Document) -> list[str]:
    status = flow.get("status") or {}
    counts = (len(status.get(f"{phase}Jobs") or ()) for phase in JOB_PHASES)
    return [styled_state(phase_of(flow)), *map(str, counts)]


def _template_cells(template: Document) -> list[str]:
    spec = template.get("spec") or {}
    return [queue_of(template) or "-", str(replicas_of(spec)), count_text(spec.get("minAvailable"))]


JOB_FLOW = FlowKind(
    "JobFlow",
    _job_flows,
    (Column("Phase"), *(Column(phase.capitalize(), align_right=True) for phase in JOB_PHASES)),
    _flow_cells,
)
JOB_TEMPLATE = FlowKind(
    "JobTemplate",
    _job_templates,
    (Column("Queue"), Column("Replicas", align_right=True), Column("Min", align_right=True)),
    _template_cells,
)


class FlowTable:
    """Objects of one kind: those of some names, or all."""

    def __init__(self, kind: FlowKind, names: Sequence[str] = (), *, everywhere: bool = False) -> None:
        self.existing_names: list[str] = []  # the names of all objects in the last list
        self._kind = kind
        self._names = names
        self._everywhere = everywhere
        first = [Column("Namespace")] if everywhere else []
        self.columns = [*first, Column("Name"), *kind.columns, Column("Age", align_right=True, ignore_changes=True)]
        self.state_column = len(first) + 1

    @property
    def resource(self) -> Resource[Any]:
        """The resource of the kind."""
        return self._kind.resource

    def rows(self, objects: Iterable[Document]) -> Mapping[str, TableRow]:
        """The lines, by namespace and name, or as the names were given."""
        found = {key_of(document): document for document in objects}
        self.existing_names = [name for _, name in found]
        order = {name: i for i, name in enumerate(self._names)}
        shown = [key for key in sorted(found) if not order or key[1] in order]
        shown.sort(key=lambda key: order.get(key[1], 0))
        return {"/".join(key): TableRow(self._cells(found[key]), found[key]) for key in shown}

    def _cells(self, document: Document) -> list[str]:
        namespace, name = key_of(document)
        first = [namespace] if self._everywhere else []
        return [*first, name, *self._kind.cells(document), age(document["metadata"].get("creationTimestamp"))]
