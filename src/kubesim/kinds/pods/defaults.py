"""Defaults of a pod's spec, in pods and in templates.

Fields that are present but empty (``nodeName: ""``, ``tolerations: []``, ``hostNetwork: false``) mean the same as
missing ones and are removed, so that two specs can be compared with ``==``.
"""

from __future__ import annotations

from typing import Final

from kubesim.kinds.pods import resources
from kubesim.kinds.pods.volumes import complete_reference, complete_volume
from kubesim.registry.registry import Object

POD: Final = "Pod"
GRACE: Final = 30
SCHEDULER: Final = "default-scheduler"
DEFAULT_ACCOUNT: Final = "default"
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")

_OFF_IS_UNSET: Final = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty"})
_PROBE: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MAPS: Final = frozenset({"nodeSelector", "overhead"})


def default_pod_spec(spec: Object, kind: str = POD) -> None:
    """Complete a pod's spec. ``kind`` is what the spec is part of: some defaults of pods are none of templates."""
    _tidy(spec)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", SCHEDULER)
    if spec.setdefault("terminationGracePeriodSeconds", GRACE) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if "overhead" in spec:
        resources.canonical(spec["overhead"], kind)
    if "resources" in spec:
        for amounts in ("requests", "limits"):
            resources.canonical(spec["resources"].get(amounts), kind)
    if "tolerations" in spec:
        for toleration in spec["tolerations"]:
            _tidy(toleration)
    host_network = "hostNetwork" in spec
    for containers in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(containers, ()):
            _default_container(container, kind, host_network=host_network)
    for volume in spec.get("volumes", ()):
        complete_volume(volume, kind)
    if kind == POD:
        spec.setdefault("enableServiceLinks", True)


def _tidy(found: Object) -> None:
    """Remove empty fields."""
    empty = [
        key
        for key, value in found.items()
        if value in ("", []) or (value is False and key in _OFF_IS_UNSET) or (value == {} and key in _MAPS)
    ]
    for key in empty:
        del found[key]


def _default_container(container: Object, kind: str, *, host_network: bool) -> None:
    _tidy(container)
    container.setdefault("name", "")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources.complete(container, kind)
    if kind == POD:
        resources.ask_for_limits(container)
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
        elif port.get("hostPort") == 0:
            del port["hostPort"]
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            complete_reference(variable["valueFrom"], kind)
    for name in PROBES:
        if name in container:
            _default_probe(container[name])
    if "lifecycle" in container:
        for handler in ("postStart", "preStop"):
            _default_request(container["lifecycle"].get(handler))


def pull_policy(image: str) -> str:
    """Whether an image is pulled again: only if its tag may have moved."""
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in {"", "latest"} else "IfNotPresent"


def _default_probe(probe: Object) -> None:
    for field, value in _PROBE.items():
        if not probe.get(field):
            probe[field] = value
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    _default_request(probe)


def _default_request(handler: Object | None) -> None:
    request = handler.get("httpGet") if handler else None
    if request is not None:
        request["path"] = request.get("path") or "/"
        request["scheme"] = request.get("scheme") or "HTTP"
