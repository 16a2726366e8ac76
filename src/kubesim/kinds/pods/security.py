"""Validation of security contexts. They are not enforced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, duplicate, invalid, required
from kubesim.kinds.pods import names
from kubesim.registry.registry import Object

LARGEST_ID: Final = 2**31 - 1
PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
SYSCTL: Final = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"


def check_container_security(context: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of the security context of a container."""
    yield from _check_ids(context, field, "runAsUser", "runAsGroup")
    if "procMount" in context:
        yield from names.check_choice(context["procMount"], f"{field}.procMount", ("Default", "Unmasked"))
    yield from _check_profiles(context, field)
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        yield invalid(field, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")


def check_pod_security(spec: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of the security context of a pod."""
    context: Object = spec.get("securityContext", {})
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        yield invalid(
            f"{field}.shareProcessNamespace", True, "ShareProcessNamespace and HostPID cannot both be enabled"
        )
    if not context:
        return
    yield from _check_ids(context, field, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        yield from _check_id(group, f"{field}.supplementalGroups[{index}]")
    for name, choices in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if name in context:
            yield from names.check_choice(context[name], f"{field}.{name}", choices)
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls", ())):
        where = f"{field}.sysctls[{index}].name"
        name = sysctl.get("name", "")
        if not name:
            yield required(where)
        elif len(name) > 253 or not re.fullmatch(SYSCTL, name):
            yield invalid(where, name, f"must have at most 253 characters and match regex {SYSCTL}")
        elif name in seen:
            yield duplicate(where, name)
        seen.add(name)
    yield from _check_profiles(context, field)


def _check_ids(context: Object, field: str, *ids: str) -> Iterator[FieldProblem]:
    for name in ids:
        if name in context:
            yield from _check_id(context[name], f"{field}.{name}")


def _check_id(number: int, field: str) -> Iterator[FieldProblem]:
    if not 0 <= number <= LARGEST_ID:
        yield invalid(field, number, f"must be between 0 and {LARGEST_ID}, inclusive")


def _check_profiles(context: Object, field: str) -> Iterator[FieldProblem]:
    for name, words in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = context.get(name)
        if profile is None:
            continue
        kind = profile.get("type", "")
        local = profile.get("localhostProfile", "")
        if not kind:
            yield required(f"{field}.{name}.type", f"type is required when {name} is set")
        else:
            yield from names.check_choice(kind, f"{field}.{name}.type", PROFILES)
        if kind == "Localhost" and not local:
            yield required(f"{field}.{name}.localhostProfile", f"must be set when {words} type is Localhost")
        elif kind == "Localhost" and local != local.strip():
            yield invalid(f"{field}.{name}.localhostProfile", local, "must not be padded with whitespace")
        elif kind != "Localhost" and local:
            yield invalid(f"{field}.{name}.localhostProfile", local, f"can only be set when {words} type is Localhost")
