"""Validation of a pod's spec after defaulting, in pods and in templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.api.metadata import check_annotations, check_label_key, check_labels
from kubesim.kinds.pods import names
from kubesim.kinds.pods.containers import check_containers
from kubesim.kinds.pods.placement import check_placement
from kubesim.kinds.pods.resources import check_pod_resources
from kubesim.kinds.pods.security import check_pod_security
from kubesim.kinds.pods.volumes import check_volumes
from kubesim.registry.registry import Object

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
SYSTEMS: Final = ("linux", "windows")
LONGEST_DEADLINE: Final = 2**31 - 1
_DNS_LIMITS: Final = {"nameservers": 3, "searches": 32}


def check_pod_spec(spec: Object, field: str = "spec") -> Iterator[FieldProblem]:
    """The problems of a pod's spec."""
    if "volumes" in spec:
        yield from check_volumes(spec["volumes"], f"{field}.volumes", account=bool(spec.get("serviceAccountName")))
    yield from check_containers(spec, field)
    if spec["restartPolicy"] not in RESTART_POLICIES:
        yield unsupported(f"{field}.restartPolicy", spec["restartPolicy"], RESTART_POLICIES)
    if spec["dnsPolicy"] not in DNS_POLICIES:
        yield unsupported(f"{field}.dnsPolicy", spec["dnsPolicy"], DNS_POLICIES)
    yield from check_placement(spec, field)
    yield from check_pod_security(spec, f"{field}.securityContext")
    yield from _check_dns(spec, field)
    yield from _check_names(spec, field)
    yield from _check_limits(spec, field)


def check_template(template: Object, field: str) -> Iterator[FieldProblem]:
    """The problems of a pod in another object. Its labels are named as if they stood beside its spec."""
    about = template.get("metadata") or {}
    yield from check_labels(about.get("labels") or {}, f"{field}.labels")
    yield from check_annotations(about.get("annotations") or {}, f"{field}.annotations")
    yield from check_pod_spec(template["spec"], f"{field}.spec")
    if template["spec"].get("ephemeralContainers"):
        yield forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _check_dns(spec: Object, field: str) -> Iterator[FieldProblem]:
    found = spec.get("dnsConfig")
    where = f"{field}.dnsConfig"
    if spec["dnsPolicy"] == "None":
        if found is None:
            yield required(where, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not found.get("nameservers"):
            yield required(f"{where}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    if found is None:
        return
    for name, most in _DNS_LIMITS.items():
        if len(found.get(name, ())) > most:
            words = "nameservers" if name == "nameservers" else "search paths"
            yield invalid(f"{where}.{name}", found[name], f"must not have more than {most} {words}")
    for index, address in enumerate(found.get("nameservers", ())):
        yield from names.check_address(address, f"{where}.nameservers[{index}]")
    for index, domain in enumerate(found.get("searches", ())):
        yield from names.check_search(domain, f"{where}.searches[{index}]")
    for index, option in enumerate(found.get("options", ())):
        if not option.get("name"):
            yield required(f"{where}.options[{index}]", "must not be empty")


def _check_names(spec: Object, field: str) -> Iterator[FieldProblem]:
    for name in ("nodeName", "serviceAccountName", "priorityClassName", "runtimeClassName"):
        if spec.get(name):
            yield from names.check_subdomain(spec[name], f"{field}.{name}")
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from names.check_label(spec[name], f"{field}.{name}")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        yield from names.check_address(alias.get("ip", ""), f"{field}.hostAliases[{index}].ip")
        for at, hostname in enumerate(alias.get("hostnames", ())):
            yield from names.check_subdomain(hostname, f"{field}.hostAliases[{index}].hostnames[{at}]")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        yield from check_label_key(gate.get("conditionType", ""), f"{field}.readinessGates[{index}].conditionType")
    if "os" in spec:
        system = spec["os"].get("name", "")
        if not system:
            yield required(f"{field}.os.name", "cannot be empty")
        else:
            yield from names.check_choice(system, f"{field}.os", SYSTEMS)


def _check_limits(spec: Object, field: str) -> Iterator[FieldProblem]:
    if "activeDeadlineSeconds" in spec and not 1 <= spec["activeDeadlineSeconds"] <= LONGEST_DEADLINE:
        yield invalid(
            f"{field}.activeDeadlineSeconds",
            spec["activeDeadlineSeconds"],
            f"must be between 1 and {LONGEST_DEADLINE}, inclusive",
        )
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION_POLICIES:
        yield unsupported(f"{field}.preemptionPolicy", policy, PREEMPTION_POLICIES)
    if spec.get("hostUsers") is False:
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(host):
                yield forbidden(f"{field}.{host}", "when `hostUsers` is false")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield forbidden(f"{field}.nodeName", "cannot be set until all schedulingGates have been cleared")
    if spec.get("resources"):
        yield from check_pod_resources(spec["resources"], f"{field}.resources")
    for resource, amount in spec.get("overhead", {}).items():
        if amount.startswith("-"):
            yield invalid(f"{field}.overhead[{resource}]", amount, "must be greater than or equal to 0")
