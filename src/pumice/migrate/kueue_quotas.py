"""The quotas of Kueue's ClusterQueues and Cohorts, read into one tree.

A ClusterQueue states quotas per flavor and resource; a Queue of Pumice knows no flavors, so the amounts of all flavors
are added up. The versions of Kueue's API call some fields by different names; all of them are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from kubebase.field_error import FieldError
from kubebase.quantity import NANOS, QuantityError, parse
from kubebase.resource_vector import Registry
from pumice.input_errors import BadInput, Problem
from pumice.kube.decode.api_types import Metadata, Wire
from pumice.kube.decode.struct_decode import read
from pumice.kube.resources import Document
from pumice.migrate.source_objects import KUEUE_GROUP, SourceObjects, display_name
from pumice.model.specs import ROOT

T = TypeVar("T")

CLUSTER_QUEUE, COHORT = "ClusterQueue", "Cohort"
Amounts = dict[str, int]
"""Amounts by resource, in the units of ``Registry``."""


class ResourceQuota(Wire, frozen=True):
    """The quota of a flavor for one resource. A limit that is absent does not limit."""

    name: str
    nominal_quota: str | int | float = 0
    borrowing_limit: str | int | float | None = None
    lending_limit: str | int | float | None = None


class FlavorQuotas(Wire, frozen=True):
    """The quotas of a flavor."""

    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Wire, frozen=True):
    """Flavors that provide the same resources."""

    flavors: tuple[FlavorQuotas, ...] = ()


class FairSharing(Wire, frozen=True):
    """The weight among siblings."""

    weight: str | int | float = 1


class QuotaSpec(Wire, frozen=True):
    """The fields of a ClusterQueue or a Cohort that are converted; ``cohort`` and ``parent`` are older names."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    cohort: str = ""
    parent_name: str = ""
    parent: str = ""
    fair_sharing: FairSharing = FairSharing()


class QuotaObject(Wire, frozen=True):
    """A ClusterQueue or a Cohort."""

    spec: QuotaSpec = QuotaSpec()


class KueueObject(Wire, frozen=True):
    """An object of any kind of Kueue."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class QuotaNode:
    """A ClusterQueue, or a Cohort, which need not exist as an object."""

    kind: str
    name: str
    document: Document
    cohort: str = ""
    """The Cohort above; empty: none."""
    weight: Fraction = Fraction(1)
    nominal: Amounts = field(default_factory=dict)
    borrowing: Amounts = field(default_factory=dict)
    lending: Amounts = field(default_factory=dict)
    flavors: list[str] = field(default_factory=list)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    queue: str = ""
    """The name of the Queue of Pumice."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the object."""
        found = self.document.get("spec")
        return found if isinstance(found, Mapping) else {}

    def total(self) -> Amounts:
        """The nominal quota of the node and of all below it."""
        found = dict(self.nominal)
        for child in self.children:
            for resource, amount in child.total().items():
                found[resource] = found.get(resource, 0) + amount
        return found


def read_quota_nodes(objects: SourceObjects, registry: Registry) -> list[QuotaNode]:
    """All Cohorts and ClusterQueues, parents first; raises BadInput, also for other objects that cannot be read."""
    for (group, kind), documents in objects.objects.items():
        for document in documents if group == KUEUE_GROUP else ():
            _decoded(document, kind, KueueObject)
    cohorts = {one.name: one for one in _nodes(objects, COHORT, registry)}
    queues = list(_nodes(objects, CLUSTER_QUEUE, registry))
    for name in [one.cohort for one in (*cohorts.values(), *queues) if one.cohort]:
        cohorts.setdefault(name, QuotaNode(COHORT, name, {}))
    for one in (*cohorts.values(), *queues):
        one.parent = cohorts.get(one.cohort)
        if one.parent is not None:
            one.parent.children.append(one)
    _refuse_cycles(cohorts.values())
    taken = {one.name for one in queues}
    for one in (*queues, *cohorts.values()):
        clashes = one.name == ROOT or (one.kind == COHORT and one.name in taken)
        one.queue = f"{one.name}-{one.kind.lower()}" if clashes else one.name
    tops = [one for one in (*cohorts.values(), *queues) if one.parent is None]
    return list(_parents_first(tops))


def _decoded(document: Document, kind: str, shape: type[T]) -> T:
    try:
        return read(document, shape)
    except FieldError as error:
        about = document.get("metadata")
        name = display_name(document) if isinstance(about, Mapping) else "?"
        raise BadInput([Problem("", f"{kind}/{name}", error.field, error.message)]) from None


def _nodes(objects: SourceObjects, kind: str, registry: Registry) -> Iterator[QuotaNode]:
    for document in objects.of(KUEUE_GROUP, kind):
        spec = _decoded(document, kind, QuotaObject).spec
        cohort = spec.cohort_name or spec.cohort if kind == CLUSTER_QUEUE else spec.parent_name or spec.parent
        node = QuotaNode(kind, display_name(document), document, cohort)
        node.weight = Fraction(_nanos(node, "spec.fairSharing.weight", spec.fair_sharing.weight), NANOS)
        _read_quotas(node, spec, registry)
        yield node


def _read_quotas(node: QuotaNode, spec: QuotaSpec, registry: Registry) -> None:
    """Add up the flavors. A flavor without a limit leaves the sum without one."""
    unlimited: dict[str, set[str]] = {"borrowingLimit": set(), "lendingLimit": set()}
    sums = {"nominalQuota": node.nominal, "borrowingLimit": node.borrowing, "lendingLimit": node.lending}
    for i, group in enumerate(spec.resource_groups):
        for j, flavor in enumerate(group.flavors):
            node.flavors.append(flavor.name)
            for k, quota in enumerate(flavor.resources):
                given = (quota.nominal_quota, quota.borrowing_limit, quota.lending_limit)
                for (name, amounts), value in zip(sums.items(), given, strict=True):
                    if value is None:
                        unlimited[name].add(quota.name)
                        continue
                    _nanos(node, f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}].{name}", value)
                    amounts[quota.name] = amounts.get(quota.name, 0) + registry.amount(quota.name, value)
    for name, resources in unlimited.items():
        for resource in resources:
            sums[name].pop(resource, None)


def _nanos(node: QuotaNode, where: str, value: str | int | float) -> int:
    """A quantity in nanos; raises BadInput if it is none, or negative."""
    try:
        nano = parse(value).nano
    except QuantityError as error:
        raise BadInput([Problem("", f"{node.kind}/{node.name}", where, str(error))]) from None
    if nano < 0:
        raise BadInput([Problem("", f"{node.kind}/{node.name}", where, f"Invalid value: {value!r}: is negative")])
    return nano


def _refuse_cycles(cohorts: Iterable[QuotaNode]) -> None:
    for start in cohorts:
        seen = {start.name}
        above = start.parent
        while above is not None:
            if above.name in seen:
                message = f"Cohort '{above.name}' is its own ancestor; Kueue admits nothing there"
                raise BadInput([Problem("", f"{COHORT}/{start.name}", "spec.parentName", message)])
            seen.add(above.name)
            above = above.parent


def _parents_first(nodes: Iterable[QuotaNode]) -> Iterator[QuotaNode]:
    for node in nodes:
        yield node
        yield from _parents_first(node.children)
