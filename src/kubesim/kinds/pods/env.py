"""Validation of a container's environment: variables and the sources of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kubebase.quantity import parse
from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.api.metadata import check_label_key
from kubesim.kinds.pods import names
from kubesim.registry.registry import Object

IN_VARIABLES: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
FIELDS: Final = frozenset(IN_VARIABLES) | {
    "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "spec.hostNetwork",
    "status.phase", "status.nominatedNodeName",
}  # fmt: skip
RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_MEMORY_DIVISORS: Final = frozenset(
    parse(text).nano for text in ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
)
_CPU_DIVISORS: Final = frozenset(parse(text).nano for text in ("1m", "1"))


def check_env(container: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of the environment of a container."""
    for index, variable in enumerate(container.get("env", ())):
        where = f"{field}.env[{index}]"
        if not variable.get("name"):
            yield required(f"{where}.name")
        else:
            yield from names.check_variable(variable["name"], f"{where}.name")
        if "valueFrom" in variable:
            yield from _check_source(variable, f"{where}.valueFrom")
    for index, source in enumerate(container.get("envFrom", ())):
        where = f"{field}.envFrom[{index}]"
        if source.get("prefix"):
            yield from names.check_variable(source["prefix"], f"{where}.prefix")
        references = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in references:
            yield from _check_reference(source[kind], f"{where}.{kind}")
        if not references:
            yield invalid(f"{field}.envFrom", "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(references) > 1:
            yield invalid(f"{field}.envFrom", "", "may not have more than one field specified at a time")


def _check_reference(reference: Object, field: str) -> Iterator[FieldProblem]:
    name = reference.get("name", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from names.check_subdomain(name, f"{field}.name")


def _check_source(variable: Object, field: str) -> Iterator[FieldProblem]:
    source: Object = variable["valueFrom"]
    if "fieldRef" in source:
        yield from check_field(source["fieldRef"], f"{field}.fieldRef", IN_VARIABLES)
    if "resourceFieldRef" in source:
        yield from check_resource(source["resourceFieldRef"], f"{field}.resourceFieldRef")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            reference = source[kind]
            yield from names.check_subdomain(reference.get("name", ""), f"{field}.{kind}.name")
            if not reference.get("key"):
                yield required(f"{field}.{kind}.key")
            else:
                yield from names.check_key(reference["key"], f"{field}.{kind}.key")
    if not source:
        yield invalid(
            field,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif variable.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid(field, "", "may not have more than one field specified at a time")


def check_field(reference: Object, field: str, known: Iterable[str]) -> Iterator[FieldProblem]:
    """The problems of a reference to a field of the pod itself."""
    path = reference.get("fieldPath", "")
    if not path:
        yield required(f"{field}.fieldPath")
        return
    entry = _SUBSCRIPT.fullmatch(path)
    if entry:
        key = entry[2].lower() if entry[1].endswith("annotations") else entry[2]
        yield from check_label_key(key, field, shown=entry[2])
    elif path not in FIELDS:
        yield invalid(f"{field}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}")
    elif path not in known:
        yield unsupported(f"{field}.fieldPath", path, known)


def check_resource(reference: Object, field: str, *, volume: bool = False) -> Iterator[FieldProblem]:
    """The problems of a reference to what a container may use."""
    resource = reference.get("resource", "")
    if volume and not reference.get("containerName"):
        yield required(f"{field}.containerName")
    elif not resource:
        yield required(f"{field}.resource")
    elif resource not in RESOURCES and not re.fullmatch(r"(limits|requests)\.hugepages-.*", resource):
        yield unsupported(f"{field}.resource", resource, RESOURCES)
    elif "divisor" in reference:
        nano = parse(reference["divisor"]).nano
        if resource.endswith(".cpu"):
            if nano and nano not in _CPU_DIVISORS:
                yield invalid(
                    f"{field}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource"
                )
        elif nano and nano not in _MEMORY_DIVISORS:
            yield invalid(
                f"{field}.divisor",
                resource,
                "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "
                f"{resource.partition('.')[2]} resource",
            )
