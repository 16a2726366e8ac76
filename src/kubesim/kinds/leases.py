"""The kind Lease, used for leader election and node heartbeats. Updates require a resourceVersion."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

SHAPES: Final = """
Lease
  spec! LeaseSpec
LeaseSpec
  acquireTime time
  holderIdentity text
  leaseDurationSeconds int32
  leaseTransitions int32
  preferredHolder text
  renewTime time
  strategy text
"""


class LeaseStrategy(Strategy):
    """A lease is only ever taken over knowingly."""

    creates_on_update = True

    unconditional = False

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Durations last, and transitions are counted up."""
        spec = new["spec"]
        if spec.get("leaseDurationSeconds", 1) <= 0:
            yield invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
        if spec.get("leaseTransitions", 0) < 0:
            yield invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def leases() -> Resource:
    """The resource ``leases``."""
    return Resource(
        group="coordination.k8s.io",
        version="v1",
        plural="leases",
        kind="Lease",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Lease")),
        strategy=LeaseStrategy(),
        columns=(
            NAME,
            TableColumn(
                "Holder", lambda found: found["spec"].get("holderIdentity", ""), description="The holder of the lease."
            ),
            AGE,
        ),
        singular="lease",
    )
