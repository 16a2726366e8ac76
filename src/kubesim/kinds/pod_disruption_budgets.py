"""The kind PodDisruptionBudget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.kinds.schema_dsl import LABEL_SELECTOR, expand_schema
from kubesim.kinds.selectors import check_selector
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

PERCENT: Final = re.compile(r"[0-9]+%")
PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")

SHAPES: Final = (
    LABEL_SELECTOR
    + """
PodDisruptionBudget
  spec! BudgetSpec
  status! BudgetStatus
BudgetSpec
  maxUnavailable int-or-text
  minAvailable int-or-text
  selector LabelSelector atomic
  unhealthyPodEvictionPolicy text
BudgetStatus
  conditions [Condition] by type
  currentHealthy! int32
  desiredHealthy! int32
  disruptedPods {time}
  disruptionsAllowed! int32
  expectedPods! int32
  observedGeneration int64
Condition
  lastTransitionTime time
  message! text
  observedGeneration int64
  reason! text
  status! text
  type! text
"""
)


class BudgetStrategy(Strategy):
    """minAvailable and maxUnavailable exclude each other."""

    has_generation = True
    unconditional = False

    def on_create(self, new: Object, context: Context) -> None:
        """Nothing is known of its pods yet."""
        new["status"] = dict.fromkeys(COUNTS, 0)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """One of the two bounds, a selector, and counts that can be."""
        spec = new["spec"]
        if "minAvailable" in spec and "maxUnavailable" in spec:
            yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
        for bound in ("minAvailable", "maxUnavailable"):
            if bound in spec:
                yield from _check_bound(spec[bound], f"spec.{bound}")
        yield from check_selector(spec.get("selector") or {}, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in POLICIES:
            yield unsupported("spec.unhealthyPodEvictionPolicy", policy, POLICIES)
        status = new["status"]
        for count in COUNTS:
            if status[count] < 0:
                yield invalid(f"status.{count}", status[count], "must be greater than or equal to 0")
        for index, condition in enumerate(status.get("conditions", ())):
            for field in ("type", "status", "lastTransitionTime", "reason"):
                if not condition.get(field):
                    yield required(f"status.conditions[{index}].{field}")


def _check_bound(bound: float | str, field: str) -> Iterator[FieldProblem]:
    if not isinstance(bound, str):
        if bound < 0:
            yield invalid(field, bound, "must be greater than or equal to 0")
    elif not PERCENT.fullmatch(bound):
        yield invalid(field, bound, PERCENT_RULE)
    elif len(bound) > 4 or int(bound[:-1]) > 100:
        yield invalid(field, bound, "must not be greater than 100%")


def pod_disruption_budgets() -> Resource:
    """The resource ``poddisruptionbudgets``."""
    return Resource(
        group="policy",
        version="v1",
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "PodDisruptionBudget")),
        strategy=BudgetStrategy(),
        columns=(
            NAME,
            TableColumn(
                "Min Available",
                lambda found: str(found["spec"].get("minAvailable", "N/A")),
                description="So many pods stay.",
            ),
            TableColumn(
                "Max Unavailable",
                lambda found: str(found["spec"].get("maxUnavailable", "N/A")),
                description="So many pods may be missing.",
            ),
            TableColumn(
                "Allowed Disruptions",
                lambda found: found["status"].get("disruptionsAllowed", 0),
                "integer",
                description="So many may be evicted now.",
            ),
            AGE,
        ),
        singular="poddisruptionbudget",
        short_names=("pdb",),
        subresources=frozenset({"status"}),
    )
