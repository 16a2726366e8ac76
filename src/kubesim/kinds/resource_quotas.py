"""The kind ResourceQuota: limits of a namespace, and its weight among namespaces.

This module defines schema and validation. ``kubesim.api.quota_ledger`` counts what a namespace uses and rejects writes
that would exceed a quota.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubebase.quantity import NANOS, parse
from kubesim.api import metadata
from kubesim.api.field_errors import FieldProblem, invalid, required
from kubesim.kinds.pods.resources import canonical_amount
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

SHAPES: Final = """
ResourceQuota
  spec! ResourceQuotaSpec
  status! ResourceQuotaStatus
ResourceQuotaSpec
  hard {quantity}
  scopeSelector ScopeSelector atomic
  scopes [text]
ResourceQuotaStatus
  hard {quantity}
  used {quantity}
ScopeSelector
  matchExpressions [ScopeRequirement]
ScopeRequirement
  operator! text
  scopeName! text
  values [text]
"""

COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)
PRESENCE_SCOPES: Final = frozenset(
    {"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"}
)
SCOPES: Final = PRESENCE_SCOPES | {"PriorityClass", "VolumeAttributesClass"}
OPPOSITES: Final = ({"Terminating", "NotTerminating"}, {"BestEffort", "NotBestEffort"})
PRESENCE_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(Strategy):
    """Amounts are kept in their canonical form; the scopes of a quota never change."""

    returns_deleted = True

    def on_create(self, new: Object, context: Context) -> None:
        """Nothing is used yet."""
        new["status"] = {}
        _canonical(new["spec"])

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """The same amounts, however they are written."""
        _canonical(new["spec"])

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """The status has amounts too."""
        _canonical(new["status"])

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Resources, amounts and scopes."""
        spec = new["spec"]
        for part, amounts in (
            ("spec.hard", spec.get("hard")),
            ("status.hard", new["status"].get("hard")),
            ("status.used", new["status"].get("used")),
        ):
            for name, amount in sorted((amounts or {}).items()):
                yield from _check_resource(name, f"{part}[{name}]")
                yield from _check_amount(amount, f"{part}[{name}]", whole=_is_whole(name))
        yield from _check_scopes(spec.get("scopes") or [], spec.get("hard") or {})
        for requirement in (spec.get("scopeSelector") or {}).get("matchExpressions", ()):
            yield from _check_requirement(requirement)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The scopes are immutable."""
        if sorted(new["spec"].get("scopes") or ()) != sorted(old["spec"].get("scopes") or ()):
            yield invalid("spec.scopes", new["spec"].get("scopes"), "field is immutable")


def _canonical(part: Object) -> None:
    for amounts in ("hard", "used"):
        if amounts in part:
            part[amounts] = {name: canonical_amount(amount, "ResourceQuota") for name, amount in part[amounts].items()}


def _base(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def _is_standard(name: str) -> bool:
    base = _base(name)
    if base in COMPUTE or base.startswith("hugepages-"):
        return True
    return name in COUNTED or name == "requests.storage"


def _is_whole(name: str) -> bool:
    """Whether a resource is counted in whole units: objects are, and devices."""
    return name in COUNTED or ("/" in name and not name.startswith("requests.") and "kubernetes.io/" not in name)


def _check_resource(name: str, field: str) -> Iterator[FieldProblem]:
    found = list(metadata.check_label_key(name, field))
    yield from found
    if not found and "/" not in name and not _is_standard(name):
        yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for quota")


def _check_amount(amount: str, field: str, *, whole: bool) -> Iterator[FieldProblem]:
    nano = parse(amount).nano
    if nano < 0:
        yield invalid(field, amount, "must be greater than or equal to 0")
    if whole and nano % NANOS:
        yield invalid(field, amount, "must be an integer")


def _check_scopes(scopes: list[str], hard: Object) -> Iterator[FieldProblem]:
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        elif not all(_counts_under(scope, name) for name in hard):
            yield invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in OPPOSITES):
        yield invalid("spec.scopes", scopes, "conflicting scopes")


def _counts_under(scope: str, name: str) -> bool:
    """Whether a resource may be limited under a scope. All with a domain (devices, ``count/``) may."""
    if not _is_standard(name):
        return True
    if scope == "VolumeAttributesClass":
        return name in {"persistentvolumeclaims", "requests.storage"}
    return name == "pods" or (scope != "BestEffort" and _base(name) in {"cpu", "memory"})


def _check_requirement(requirement: Object) -> Iterator[FieldProblem]:
    where = "spec.scopeSelector.matchExpressions"
    scope, operator, values = requirement["scopeName"], requirement["operator"], requirement.get("values")
    if scope not in SCOPES:
        yield invalid(f"{where}.scopeName", scope, "unsupported scope")
    elif scope in PRESENCE_SCOPES and operator != "Exists":
        yield invalid(f"{where}.operator", operator, PRESENCE_ONLY)
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{where}.values", detail)
        case "Exists" | "DoesNotExist":
            if values:
                detail = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector"
                yield invalid(f"{where}.values", values, detail)
        case _:
            yield invalid(f"{where}.operator", operator, "not a valid selector operator")


def _used(found: Object, *, limits: bool) -> str:
    hard, used = found["status"].get("hard") or {}, found["status"].get("used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def resource_quotas() -> Resource:
    """The resource ``resourcequotas``."""
    return Resource(
        group="",
        version="v1",
        plural="resourcequotas",
        kind="ResourceQuota",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "ResourceQuota")),
        strategy=ResourceQuotaStrategy(),
        columns=(
            NAME,
            TableColumn("Request", lambda found: _used(found, limits=False), description="Requested of what may be."),
            TableColumn("Limit", lambda found: _used(found, limits=True), description="Limits set of what may be."),
            AGE,
        ),
        singular="resourcequota",
        short_names=("quota",),
        subresources=frozenset({"status"}),
    )
