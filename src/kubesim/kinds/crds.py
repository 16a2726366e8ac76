"""The kind CustomResourceDefinition: schema, defaults and validation.

Rejected although kube-apiserver accepts it: conversion by webhook between several versions, because this server does
not call conversion webhooks (with a single version there is nothing to convert, so it is accepted); and more than
``MOST_PATTERNS`` patterns, because compiling them would keep other requests waiting.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from kubebase.go_regexp import patterns_of
from kubesim.api import metadata
from kubesim.api.field_errors import FieldErrorType, FieldProblem, invalid, required, unsupported
from kubesim.kinds import custom_resources
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema, SchemaError
from kubesim.tables import NAME

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
APPROVED: Final = "api-approved.kubernetes.io"
PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")

LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
LONGEST_LABEL: Final = 63
SCOPES: Final = ("Cluster", "Namespaced")
COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
SELECTABLE_TYPES: Final = ("boolean", "integer", "string")
MOST_SELECTABLE: Final = 8
MOST_PATTERNS: Final = 1000
"""Different patterns in a version: each takes a fifth of a millisecond to compile, and memory."""
MOST_EXAMINED: Final = 64
"""Schemas whose examination is remembered."""

SHAPES: Final = """
CustomResourceDefinition
  spec! Spec
  status Status
Spec
  conversion Conversion
  group! text
  names! Names
  preserveUnknownFields bool
  scope! text
  versions [Version]
Conversion
  strategy! text
  webhook any
Names
  categories [text]
  kind! text
  listKind text
  plural! text
  shortNames [text]
  singular text
Version
  additionalPrinterColumns [Column]
  deprecated bool
  deprecationWarning text
  name! text
  schema Validation
  selectableFields [SelectableField]
  served! bool
  storage! bool
  subresources Subresources
Validation
  openAPIV3Schema any
Subresources
  scale Scale
  status any
Scale
  labelSelectorPath text
  specReplicasPath! text
  statusReplicasPath! text
Column
  description text
  format text
  jsonPath! text
  name! text
  priority int32
  type! text
SelectableField
  jsonPath! text
Status
  acceptedNames Names
  conditions [Condition] by type
  observedGeneration int64
  storedVersions [text]
Condition
  lastTransitionTime time
  message text
  observedGeneration int64
  reason text
  status! text
  type! text
"""


class DefinitionStrategy(Strategy):
    """A finalizer keeps a deleted definition until none of its objects is left."""

    reads_cluster = True
    has_generation = True
    unconditional = False

    def prepare(self, new: Object) -> None:
        """Examine the schemas."""
        for _ in _without_effect(new["spec"].get("versions", ())):
            pass

    def on_create(self, new: Object, context: Context) -> None:
        """Fill in the names that follow from others, and decide whether they are free."""
        new["status"] = {}
        self._complete(new, context)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """The same again: an edit may have resolved a conflict."""
        self._complete(new, context)

    def on_deletion(self, new: Object, context: Context) -> None:
        """Its objects go first."""
        if custom_resources.is_established(new):
            finalizers = new["metadata"].setdefault("finalizers", [])
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)
            words = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
            custom_resources.set_condition(
                new["status"], "Terminating", "True", "InstanceDeletionPending", words, context.now
            )

    def _complete(self, new: Object, context: Context) -> None:
        names = dict(new["spec"]["names"])
        if names["kind"]:
            names["singular"] = names.get("singular") or names["kind"].lower()
            names["listKind"] = names.get("listKind") or f"{names['kind']}List"
        context.warnings += _without_effect(new["spec"].get("versions", ()))
        new["spec"] = {"conversion": {"strategy": "None"}, **new["spec"], "names": names}
        custom_resources.accept(new, context.list(custom_resources.QUALIFIED, ""), context.now)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Names, scope, versions and their schemas."""
        spec, name = new["spec"], new["metadata"].get("name", "")
        is_new = "resourceVersion" not in new["metadata"]  # later neither the name nor what it is made of can change
        if is_new and name != f"{spec['names']['plural']}.{spec['group']}":
            yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        yield from _check_group(spec["group"], new["metadata"].get("annotations", {}))
        if not spec["scope"]:
            yield required("spec.scope")
        elif spec["scope"] not in SCOPES:
            yield unsupported("spec.scope", spec["scope"], SCOPES)
        if spec.get("preserveUnknownFields"):
            instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            yield invalid("spec.preserveUnknownFields", True, f"cannot set to true, {instead}")
        yield from _check_versions(spec.get("versions", []))
        yield from _check_names(spec["names"])
        if spec["conversion"]["strategy"] != "None" and len(spec.get("versions", ())) > 1:
            yield unsupported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"])

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Objects are stored under these names."""
        now, before = new["spec"], old["spec"]
        if custom_resources.is_established(old):
            if now["scope"] != before["scope"]:
                yield invalid("spec.scope", now["scope"], "field is immutable")
            if now["names"]["kind"] != before["names"]["kind"]:
                yield invalid("spec.names.kind", now["names"]["kind"], "field is immutable")
        if now["group"] != before["group"]:
            yield invalid("spec.group", now["group"], "field is immutable")
        if now["names"]["plural"] != before["names"]["plural"]:
            yield invalid("spec.names.plural", now["names"]["plural"], "field is immutable")
        versions = {version["name"] for version in now.get("versions", ())}
        for index, name in enumerate(new.get("status", {}).get("storedVersions", ())):
            if name not in versions:
                detail = (
                    f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                    f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                    f"{name} from status.storedVersions"
                )
                yield invalid(f"status.storedVersions[{index}]", name, detail)


def _check_label(text: str, field: str, prefix: str = "") -> Iterator[FieldProblem]:
    if len(text) > LONGEST_LABEL:
        yield invalid(field, text, f"must be no more than {LONGEST_LABEL} bytes")
    elif not LABEL.fullmatch(text.lower() if prefix else text):
        yield invalid(field, text, prefix + LABEL_RULE)


def _check_group(group: str, annotations: Object) -> Iterator[FieldProblem]:
    if not group:
        yield required("spec.group")
        return
    for fault in metadata.name_faults(group):
        yield invalid("spec.group", group, fault)
    if "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if PROTECTED.fullmatch(group) and not annotations.get(APPROVED):
        detail = (
            f'protected groups must have approval annotation "{APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(f"metadata.annotations[{APPROVED}]", detail)


def _check_names(names: Object) -> Iterator[FieldProblem]:
    for name in ("plural", "singular", "kind", "listKind"):
        field = f"spec.names.{name}"
        if not names.get(name):
            yield required(field)
        elif name in {"kind", "listKind"}:
            yield from _check_label(names[name], field, "may have mixed case, but should otherwise match: ")
        else:
            yield from _check_label(names[name], field)
    for part in ("shortNames", "categories"):
        for index, name in enumerate(names.get(part, ())):
            yield from _check_label(name, f"spec.names.{part}[{index}]")
    if names["kind"] and names["kind"] == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_versions(versions: list[Object]) -> Iterator[FieldProblem]:
    names = [version["name"] for version in versions]
    for index, version in enumerate(versions):
        yield from _check_label(version["name"], f"spec.versions[{index}].name")
        yield from _check_version(version, f"spec.versions[{index}]")
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(version["storage"] for version in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")


def _check_version(version: Object, field: str) -> Iterator[FieldProblem]:
    if "deprecationWarning" in version and not version.get("deprecated"):
        words = "can only be set for deprecated versions"
        yield invalid(f"{field}.deprecationWarning", version["deprecationWarning"], words)
    openapi = version.get("schema", {}).get("openAPIV3Schema")
    if not openapi:
        yield required(f"{field}.schema.openAPIV3Schema")
        return
    problems, _ = _examine(openapi, f"{field}.schema.openAPIV3Schema")
    yield from problems
    if any(problem.fault is FieldErrorType.TOO_MANY for problem in problems):
        return
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        yield from _check_column(column, f"{field}.additionalPrinterColumns[{index}]")
    scale = version.get("subresources", {}).get("scale")
    for path in ("specReplicasPath", "statusReplicasPath"):
        if scale is not None and not scale[path]:
            yield required(f"{field}.subresources.scale.{path}")
    selectable = version.get("selectableFields", ())
    if len(selectable) > MOST_SELECTABLE:
        yield invalid(f"{field}.selectableFields", len(selectable), f"must have at most {MOST_SELECTABLE} items")
    for index, declared in enumerate(selectable):
        if not _is_selectable(openapi, declared["jsonPath"]):
            where = f"{field}.selectableFields[{index}].jsonPath"
            detail = "is an invalid path: must be the simple path of a string, integer or boolean of the schema"
            yield invalid(where, declared["jsonPath"], detail)


def _without_effect(versions: Iterable[Object]) -> Iterator[str]:
    """Fields of a definition that are accepted but have no effect."""
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        below = f"{where}.schema.openAPIV3Schema"
        openapi = version.get("schema", {}).get("openAPIV3Schema") or {"type": "object"}
        for path in _examine(openapi, below)[1]:
            yield f"{where}{path.removeprefix(below)}: rules in CEL are not evaluated here"


Examination = tuple[list[FieldProblem], list[str]]
"""The problems of a schema, and the paths of its rules that are not evaluated."""

_examined: OrderedDict[tuple[bytes, str], Examination] = OrderedDict()


def _examine(openapi: Object, where: str) -> Examination:
    """Examine a schema. Results are kept by content: one that is large is examined once, beside other requests."""
    digest = hashlib.blake2b(msgspec.json.encode(openapi), digest_size=16).digest()
    known = _examined.get((digest, where))
    if known is None:
        known = _problems_and_rules(openapi, where)
        _examined[digest, where] = known
        if len(_examined) > MOST_EXAMINED:
            _examined.popitem(last=False)
    return known


def _problems_and_rules(openapi: Object, where: str) -> Examination:
    if _has_too_many_patterns(openapi):
        detail = f"must have at most {MOST_PATTERNS} different patterns"
        return [FieldProblem(where, FieldErrorType.TOO_MANY, detail)], []
    try:
        return [], Schema(openapi, where).unevaluated
    except SchemaError as error:
        return error.problems, []


def _has_too_many_patterns(openapi: Object) -> bool:
    return len(set(patterns_of(openapi))) > MOST_PATTERNS


def _check_column(column: Object, field: str) -> Iterator[FieldProblem]:
    if not column["name"]:
        yield required(f"{field}.name")
    if not column["type"]:
        yield required(f"{field}.type")
    elif column["type"] not in COLUMN_TYPES:
        yield invalid(f"{field}.type", column["type"], f"must be one of {','.join(COLUMN_TYPES)}")
    if not column["jsonPath"]:
        yield required(f"{field}.jsonPath")
    elif not column["jsonPath"].startswith("."):
        yield invalid(f"{field}.jsonPath", column["jsonPath"], "must be a simple json path starting with .")


def _is_selectable(openapi: Object, path: str) -> bool:
    if not path.startswith("."):
        return False
    found: object = openapi
    for step in path[1:].split("."):
        properties = found.get("properties") if isinstance(found, dict) else None
        found = properties.get(step) if isinstance(properties, dict) else None
    return isinstance(found, dict) and found.get("type") in SELECTABLE_TYPES


def custom_resource_definitions() -> Resource:
    """The resource ``customresourcedefinitions``."""
    created = TableColumn(
        "Created At",
        lambda found: found["metadata"].get("creationTimestamp", ""),
        "date",
        description="When it was created.",
    )
    return Resource(
        group="apiextensions.k8s.io",
        version="v1",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "CustomResourceDefinition")),
        strategy=DefinitionStrategy(),
        columns=(NAME, created),
        singular="customresourcedefinition",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=frozenset({"status"}),
    )
