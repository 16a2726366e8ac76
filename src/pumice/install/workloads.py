"""The workloads: a Deployment for each component, with Services, budgets, network policies and the configuration.

Containers run as a non-root user with a read-only root filesystem, except ``/tmp``, which is in memory. One replica of
the scheduler and of the controllers leads, by a Lease; all webhooks answer. The web page has one replica, because its
documents and its stream have versions of their own.
"""

from __future__ import annotations

from typing import Any

from pumice.install.install_options import INSTALL_NAME, VOLCANO_ACCOUNTS, InstallOptions, labels
from pumice.install.rbac import CERTIFICATE_SECRET, CONFIG_MAP, CONTROLLERS, SCHEDULER, UI, WEBHOOKS, components
from pumice.install.webhook_configurations import WEBHOOK_SERVICE

Object = dict[str, Any]

METRICS, LISTEN, PAGE = 8080, 9443, 8443
"""Ports: of ``/metrics``, the probes and the history, of the webhooks, and of the web page."""
_PUBLIC_PORTS = {WEBHOOKS: (LISTEN,), UI: (PAGE,)}
NON_ROOT_USER = 65532
SETTINGS, SETTINGS_FILE = "/etc/pumice", "scheduler.yaml"
DATA, HISTORY_FILE, DECISION_LOG = "/var/lib/pumice", "history.db", "decisions"
LEADER_ELECT = "--leader-elect"
PRE_STOP_SECONDS = 5
"""Seconds for which a terminating webhook still answers, until the Service no longer routes requests to it."""

STARTUP_SECONDS = 120
"""Seconds that a component may take until it answers its probes for the first time, on a slow node."""


def arguments(component: str, choices: InstallOptions) -> list[str]:
    """The command line of a component."""
    names = [part for name in choices.schedulers for part in ("--scheduler-name", name)]
    common = [component, f"--metrics-address=:{METRICS}", *names]
    if component == SCHEDULER:
        settings = [f"--config={SETTINGS}/{SETTINGS_FILE}", f"--config-map={CONFIG_MAP}"]
        kept = [f"--history={DATA}/{HISTORY_FILE}"] if choices.ui else []
        recorded = [f"--decision-log={DATA}/{DECISION_LOG}", "--trace"] if choices.decision_log else []
        return [*common, LEADER_ELECT, *settings, *kept, *recorded]
    if component == CONTROLLERS:
        return [*common, LEADER_ELECT, *(["--no-jobs"] if choices.beside_volcano else [])]
    if component == UI:
        history = f"http://{INSTALL_NAME}-{SCHEDULER}:{METRICS}/history"
        listen = [f"--listen=:{PAGE}", "--self-signed", "--cluster-auth"]
        recorded = [f"--decision-log={DATA}/{DECISION_LOG}"] if choices.decision_log else []
        return [UI, f"--metrics-address=:{METRICS}", *listen, f"--history={history}", *recorded]
    others = [f"--acts-for-others={VOLCANO_ACCOUNTS}"] if choices.beside_volcano else []
    return [*common, f"--listen=:{LISTEN}", f"--service={WEBHOOK_SERVICE}", f"--secret={CERTIFICATE_SECRET}", *others]


def config_map(choices: InstallOptions) -> Object:
    """The scheduler's configuration. It is the administrator's from then on."""
    about = {"name": CONFIG_MAP, "namespace": choices.namespace, "labels": labels(SCHEDULER)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {SETTINGS_FILE: choices.configuration}}


def deployment(component: str, choices: InstallOptions) -> Object:
    """The processes of a component."""
    about = {"name": f"{INSTALL_NAME}-{component}", "namespace": choices.namespace, "labels": labels(component)}
    alone = component == UI or _writes_claim(component, choices)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": about,
        "spec": {
            "replicas": 1 if alone else choices.replicas,
            **({"strategy": {"type": "Recreate"}} if _writes_claim(component, choices) else {}),
            "selector": {"matchLabels": labels(component)},
            "template": {"metadata": _pod_metadata(component, choices), "spec": _pod(component, choices)},
        },
    }


def _writes_claim(component: str, choices: InstallOptions) -> bool:
    return component == SCHEDULER and bool(choices.data_claim)


def _has_data(component: str, choices: InstallOptions) -> bool:
    """Whether a component has the volume with the history and the decision log."""
    return choices.decision_log if component == UI else component == SCHEDULER and (choices.ui or choices.decision_log)


def _data_volume(choices: InstallOptions) -> Object:
    claim = {"persistentVolumeClaim": {"claimName": choices.data_claim}}
    return {"name": "data", **(claim if choices.data_claim else {"emptyDir": {"sizeLimit": "256Mi"}})}


def _pod_metadata(component: str, choices: InstallOptions) -> Object:
    found: Object = {"labels": {**labels(component), **choices.pods.pod_labels}}
    return {**found, "annotations": choices.pods.pod_annotations} if choices.pods.pod_annotations else found


def _pod(component: str, choices: InstallOptions) -> Object:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels(component)},
    }
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    if component == SCHEDULER:
        volumes.append({"name": "settings", "configMap": {"name": CONFIG_MAP}})
    if _has_data(component, choices):
        volumes.append(_data_volume(choices))
    owner = {"fsGroup": NON_ROOT_USER} if choices.data_claim and _has_data(component, choices) else {}
    return {
        "serviceAccountName": f"{INSTALL_NAME}-{component}",
        **choices.pods.pod_fields(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NON_ROOT_USER,
            "runAsGroup": NON_ROOT_USER,
            **owner,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(component, choices)],
        "volumes": volumes,
    }


def _container(component: str, choices: InstallOptions) -> Object:
    ports = [{"name": "metrics", "containerPort": METRICS, "protocol": "TCP"}]
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}]
    found: Object = {
        "name": component,
        "image": choices.image,
        "args": arguments(component, choices),
        "resources": choices.pods.resources[component],
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=STARTUP_SECONDS),
        "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=2),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if component == SCHEDULER:
        mounts.append({"name": "settings", "mountPath": SETTINGS, "readOnly": True})
    if _has_data(component, choices):
        mounts.append({"name": "data", "mountPath": DATA, **({"readOnly": True} if component == UI else {})})
    if component == UI:
        ports.append({"name": "page", "containerPort": PAGE, "protocol": "TCP"})
    if component == WEBHOOKS:
        ports.append({"name": "webhooks", "containerPort": LISTEN, "protocol": "TCP"})
        found["lifecycle"] = {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}}
    return {**found, "ports": ports, "volumeMounts": mounts}


def _probe(path: str, **timing: int) -> Object:
    return {"httpGet": {"path": path, "port": "metrics", "scheme": "HTTP"}, "timeoutSeconds": 5, **timing}


def disruption_budget(component: str, choices: InstallOptions) -> Object:
    """Not all replicas go at once. With a single one a node can still be drained."""
    about = {"name": f"{INSTALL_NAME}-{component}", "namespace": choices.namespace, "labels": labels(component)}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels(component)}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": spec}


def network_policy(component: str, choices: InstallOptions) -> Object:
    """Who may connect to a component: pods to its metrics and probes, everyone to its webhooks or its page.

    The API server and browsers are outside of the cluster's pods, so their addresses are not known here; nor is the
    address of the API server, to which the components connect, so what goes out is not limited.
    """
    about = {"name": f"{INSTALL_NAME}-{component}", "namespace": choices.namespace, "labels": labels(component)}
    rules: list[Object] = [
        {"from": [{"namespaceSelector": {}}], "ports": [{"port": METRICS, "protocol": "TCP"}]},
        *({"ports": [{"port": port, "protocol": "TCP"}]} for port in _PUBLIC_PORTS.get(component, ())),
    ]
    spec = {"podSelector": {"matchLabels": labels(component)}, "policyTypes": ["Ingress"], "ingress": rules}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": about, "spec": spec}


def services(choices: InstallOptions) -> list[Object]:
    """The Services of the metrics, for Prometheus; of the webhooks, for the API server; of the page and its history."""
    found = [_service(f"{INSTALL_NAME}-metrics", labels(), "metrics", METRICS, METRICS, choices)]
    found[0]["spec"]["clusterIP"] = "None"
    if choices.webhooks:
        found.append(_service(WEBHOOK_SERVICE, labels(WEBHOOKS), "webhooks", 443, LISTEN, choices))
    if choices.ui:
        found.append(_service(f"{INSTALL_NAME}-{UI}", labels(UI), "page", 443, PAGE, choices))
        found.append(_service(f"{INSTALL_NAME}-{SCHEDULER}", labels(SCHEDULER), "history", METRICS, METRICS, choices))
    return found


def _service(name: str, chosen: dict[str, str], port: str, number: int, inside: int, choices: InstallOptions) -> Object:
    """A Service for one port of the pods that the selector matches."""
    component = {"webhooks": WEBHOOKS, "page": UI, "history": UI}.get(port, port)
    about = {"name": name, "namespace": choices.namespace, "labels": labels(component)}
    ports = [{"name": port, "port": number, "protocol": "TCP", "targetPort": inside}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"selector": chosen, "ports": ports}}


def service_monitor(choices: InstallOptions) -> Object:
    """The ServiceMonitor by which the Prometheus operator finds the metrics of all components."""
    about = {"name": INSTALL_NAME, "namespace": choices.namespace, "labels": labels("metrics")}
    spec = {
        "selector": {"matchLabels": labels("metrics")},
        "jobLabel": "app.kubernetes.io/name",
        "endpoints": [{"port": "metrics", "interval": "15s"}],
    }
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": about, "spec": spec}


def all_workloads(choices: InstallOptions) -> list[Object]:
    """All workloads, each after the objects that it needs."""
    installed = components(choices)
    found = [config_map(choices), *services(choices)]
    found += [disruption_budget(component, choices) for component in installed]
    found += [network_policy(component, choices) for component in installed]
    found += [deployment(component, choices) for component in installed]
    return [*found, service_monitor(choices)] if choices.service_monitor else found
