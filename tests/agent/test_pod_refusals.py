"""What a process cannot have: each field is refused with its name, and what asks for nothing is not."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.kinds.podspec import SHAPES
from pumice.agent import pod_refusals
from pumice.agent.pod_refusals import Abilities, refusals

SHELL = {"name": "main", "image": "host", "command": ["sh"]}
SERVED = {
    "PodSpec": {
        *("activeDeadlineSeconds", "containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds"),
        *("securityContext", "volumes", "hostUsers", "os"),  # judged by what they ask for
        *("hostIPC", "hostNetwork", "hostPID", "shareProcessNamespace"),  # as all processes have it
        *("hostname", "subdomain"),  # names of job plugins
        *("affinity", "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority", "priorityClassName"),
        *("schedulerName", "schedulingGates", "schedulingGroup", "tolerations", "topologySpreadConstraints"),
        *("dnsPolicy", "enableServiceLinks", "imagePullSecrets", "serviceAccount", "serviceAccountName"),
    },
    "Container": {
        *("args", "command", "env", "envFrom", "name", "workingDir", "volumeMounts", "resources", "securityContext"),
        *("livenessProbe", "readinessProbe", "startupProbe", "ports", "restartPolicy"),
        *("terminationMessagePath", "terminationMessagePolicy"),
        *("image", "imagePullPolicy", "stdinOnce"),  # images are not pulled; there is no standard input
    },
}
"""Fields that the agent carries out, or of which no process has anything."""


def told(spec: dict[str, Any], **container: Any) -> list[str]:
    """The fields that are refused of a pod on an agent that may mount."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [SHELL | container], **spec}}
    return [each.partition(": ")[0] for each in refusals(pod, Abilities(mounts=True, user=1000))]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ephemeralContainers", [{}]),
        ("hostAliases", [{"ip": "10.0.0.1"}]),
        ("dnsConfig", {"nameservers": ["10.0.0.1"]}),
        ("runtimeClassName", "gvisor"),
        ("resourceClaims", [{"name": "a"}]),
        ("resources", {"limits": {"cpu": "1"}}),
        ("readinessGates", [{"conditionType": "a"}]),
        ("setHostnameAsFQDN", True),
        ("hostnameOverride", "a"),
        ("automountServiceAccountToken", True),
        ("hostUsers", False),
        ("os", {"name": "windows"}),
    ],
)
def test_fields_of_pods(field: str, value: Any) -> None:
    assert told({field: value}) == [f"spec.{field}"]


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("command", [], "command"),
        ("command", ["sh", "-c", "a\0b"], "command"),
        ("args", ["a\0b"], "args"),
        ("env", [{"name": "A", "value": "a\0b"}], "env"),
        ("workingDir", "/a\0b", "workingDir"),
        ("lifecycle", {"preStop": {}}, "lifecycle"),
        ("stdin", True, "stdin"),
        ("tty", True, "tty"),
        ("volumeDevices", [{"name": "a"}], "volumeDevices"),
        ("resizePolicy", [{"resourceName": "cpu"}], "resizePolicy"),
        ("restartPolicyRules", [{"action": "Restart"}], "restartPolicyRules"),
        ("restartPolicy", "Always", "restartPolicy"),
        ("ports", [{"containerPort": 80}], "ports"),
        ("livenessProbe", {"httpGet": {"port": 80}}, "livenessProbe"),
        ("readinessProbe", {"tcpSocket": {"port": 80}}, "readinessProbe"),
        ("startupProbe", {"grpc": {"port": 80}}, "startupProbe"),
        ("terminationMessagePath", "/tmp/end", "terminationMessagePath"),
        ("terminationMessagePolicy", "FallbackToLogsOnError", "terminationMessagePolicy"),
        ("resources", {"limits": {"ephemeral-storage": "1Gi"}}, "resources.limits[ephemeral-storage]"),
        ("resources", {"claims": [{"name": "a"}]}, "resources.claims"),
        ("env", [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "a"}}}], "env[0].valueFrom.fileKeyRef"),
        ("securityContext", {"privileged": True}, "securityContext.privileged"),
        ("securityContext", {"runAsUser": 0}, "securityContext.runAsUser"),
        ("securityContext", {"runAsGroup": 0}, "securityContext.runAsGroup"),
        ("securityContext", {"capabilities": {"add": ["NET_ADMIN"]}}, "securityContext.capabilities"),
        ("securityContext", {"readOnlyRootFilesystem": True}, "securityContext.readOnlyRootFilesystem"),
        ("securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}, "securityContext.seccompProfile"),
    ],
)
def test_fields_of_containers(field: str, value: Any, where: str) -> None:
    assert told({}, **{field: value}) == [f"spec.containers[0].{where}"]
    first = {"name": "first", "image": "host", "command": ["sh"], field: value}
    assert told({"initContainers": [first]}) == [f"spec.initContainers[0].{where}"]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"nfs": {"server": "a", "path": "/"}}, "nfs"),
        ({"projected": {"sources": []}}, "projected"),
        ({"persistentVolumeClaim": {"claimName": "a"}}, "persistentVolumeClaim"),
        ({"emptyDir": {"medium": "Memory"}}, "emptyDir.medium"),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, "emptyDir.sizeLimit"),
    ],
)
def test_volumes(source: dict[str, Any], where: str) -> None:
    assert told({"volumes": [{"name": "v", **source}]}) == [f"spec.volumes[0].{where}"]


@pytest.mark.parametrize(
    ("mount", "where"),
    [
        ({"mountPath": "/"}, "mountPath"),
        ({"mountPath": "/proc/sys"}, "mountPath"),
        ({"mountPath": "/mnt/../dev"}, "mountPath"),
        ({"mountPath": "mnt"}, "mountPath"),
        ({"mountPath": "/mnt", "subPath": "a/../../b"}, "subPath"),
        ({"mountPath": "/mnt", "subPathExpr": "$(A)"}, "subPath"),
        ({"mountPath": "/mnt", "mountPropagation": "Bidirectional"}, "mountPropagation"),
        ({"mountPath": "/mnt", "readOnly": True, "recursiveReadOnly": "Enabled"}, "recursiveReadOnly"),
    ],
)
def test_mounts(mount: dict[str, Any], where: str) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    found = told({"volumes": volumes}, volumeMounts=[{"name": "v", **mount}])
    assert found == [f"spec.containers[0].volumeMounts[0].{where}"]


def test_what_asks_for_nothing_is_not_refused() -> None:
    harmless = {"privileged": False, "allowPrivilegeEscalation": True, "runAsUser": 1000, "runAsNonRoot": True}
    usual = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "stdin": False}
    spec = {"hostNetwork": True, "shareProcessNamespace": True, "os": {"name": "linux"}, "hostUsers": True}
    mounts = [{"name": "v", "mountPath": "/mnt", "mountPropagation": "None"}]
    probes = {"livenessProbe": {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 1}}
    more = {"securityContext": harmless, "ports": [{"containerPort": 80}], "volumeMounts": mounts, **usual, **probes}
    assert told({**spec, "volumes": [{"name": "v", "emptyDir": {}}]}, **more) == []


@pytest.mark.parametrize(("shape", "refused"), [("PodSpec", "UNSERVED"), ("Container", "CONTAINER_UNSERVED")])
def test_every_field_of_the_api_is_either_served_or_refused(shape: str, refused: str) -> None:
    """A field that a later version of the API has is not ignored before somebody has thought about it."""
    _, _, after = SHAPES.partition(f"\n{shape}\n")
    fields = {line.split()[0].rstrip("!") for line in after.partition("\n\n")[0].splitlines() if line.startswith("  ")}
    assert len(fields) > 20
    known = SERVED[shape] | set(getattr(pod_refusals, refused))
    assert fields - known == set()
