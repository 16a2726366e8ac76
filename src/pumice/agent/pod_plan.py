"""From a pod of the API to the plan of its shim: commands, environment, mounts, limits, devices."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubebase.quantity import parse
from pumice.agent.cgroups import Cgroups, ContainerLimits, PodCgroups
from pumice.agent.environment import Referenced, container_environment, expand
from pumice.agent.job_hosts import SSH, SVC, JobHosts, host_name, plugin_volumes
from pumice.agent.machine import GPU
from pumice.agent.shim.process_table import boot_id
from pumice.agent.shim.records import ContainerPlan, Identity, PodPlan, ProbePlan
from pumice.agent.volumes import container_mounts, make_volumes
from pumice.kube.resources import Document

LOG_BYTES, LOG_FILES = 10 << 20, 5
"""The size of a log file, and how many of them a run of a container may have: as kubelets have it."""
DEFAULT_GRACE = 30
OUTPUT = "pumice.dev/output"
"""The annotation of a pod that names a file for a copy of its output."""
JOB_NAME, TASK_INDEX, ARRAY_INDEX = "volcano.sh/job-name", "volcano.sh/task-index", "PUMICE_ARRAY_INDEX"
HOSTS_FOLDER = "PUMICE_HOSTS_FOLDER"
"""The variable that names the folder with the files of the plugin ``svc``: hosts of each task, one per line."""
_PERCENT = re.compile(r"%(.)")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan needs beside the pod."""

    folder: Path
    referenced: Referenced
    gpus: list[str]
    """The GPUs that are the pod's."""
    cgroups: Cgroups | None
    address: str
    notify: str
    hosts: JobHosts = field(default_factory=JobHosts)
    """The other pods of its job."""
    mounts: bool = True
    """Whether a process can see folders under other paths."""
    identity: Identity | None = None
    """As whom the pod runs; None: as the user of the agent."""


def make_cgroups(pod: Document, cgroups: Cgroups) -> PodCgroups:
    """Make the cgroups of a pod, as far as they are not there."""
    everything = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    return cgroups.create(pod["metadata"]["uid"], {each["name"]: container_limits(each) for each in everything})


def make_plan(pod: Document, context: PlanContext) -> PodPlan:
    """The plan of a pod. Makes its volumes and cgroups. ``MissingError`` if something it refers to is not there."""
    spec, about = pod["spec"], pod["metadata"]
    volumes = make_volumes(pod, context.folder, context.referenced, context.address, context.hosts, context.identity)
    plugins = plugin_volumes(pod)
    skipped = {name for name, plugin in plugins.items() if plugin == SSH or not context.mounts}
    hosts_folder = next(
        (str(volumes[name]) for name, plugin in plugins.items() if plugin == SVC and name in volumes), ""
    )
    everything = [(each, True) for each in spec.get("initContainers") or ()]
    everything += [(each, False) for each in spec["containers"]]
    limits = {container["name"]: container_limits(container) for container, _ in everything}
    left = list(context.gpus)
    plans = []
    for container, init in everything:
        count = gpu_count(container)
        devices = context.gpus[:count] if init else [left.pop(0) for _ in range(count)]
        environment = container_environment(
            pod, container, context.referenced, devices, context.address, context.identity
        )
        environment = context.hosts.rewrite_variables(environment)
        if hosts_folder:
            environment[HOSTS_FOLDER] = hosts_folder
        name = container["name"]
        plan: ContainerPlan = {
            "name": name,
            "init": init,
            "command": [
                context.hosts.rewrite(expand(word, environment))
                for word in [*container["command"], *(container.get("args") or ())]
            ],
            "folder": container.get("workingDir") or environment.get("HOME") or "/",
            "environment": environment,
            "mounts": container_mounts(pod, container, volumes, context.identity, skipped),
            "joined": [],
            "oom_counter": "",
            "data_limit": 0 if context.cgroups else limits[name].memory,
            "probes": {kind: _probe(container[kind], grace_of(pod)) for kind in PROBES if container.get(kind)},
            "output": "" if init else output_file(pod, environment),
            "identity": context.identity,
        }
        plans.append(plan)
    made = make_cgroups(pod, context.cgroups) if context.cgroups else PodCgroups()
    for plan in plans:  # last, because nothing can be missing any more
        plan["joined"] = made.joined.get(plan["name"], [])
        plan["oom_counter"] = made.oom_counters.get(plan["name"], "")
    return {
        "uid": about["uid"],
        "namespace": about["namespace"],
        "name": about["name"],
        "restart_policy": spec.get("restartPolicy") or "Always",
        "grace": float(grace_of(pod)),
        "deadline": float(spec.get("activeDeadlineSeconds") or 0),
        "containers": plans,
        "boot": boot_id(),
        "devices": {GPU: context.gpus} if context.gpus else {},
        "ports": sorted(context.hosts.ports.get(host_name(pod), {}).values()),
        "requests": {},
        "cgroups": made.folders,
        "notify": context.notify,
        "log_bytes": LOG_BYTES,
        "log_files": LOG_FILES,
    }


def output_file(pod: Document, environment: Mapping[str, str]) -> str:
    """The file for a copy of the output: ``%j`` is the job, ``%a`` the index in its array, ``%i`` the pod's index."""
    wanted = str((pod["metadata"].get("annotations") or {}).get(OUTPUT) or "")
    labels = pod["metadata"].get("labels") or {}
    index = str(labels.get(TASK_INDEX, "0"))
    values = {
        "j": str(labels.get(JOB_NAME) or pod["metadata"]["name"]),
        "a": environment.get(ARRAY_INDEX, index),
        "i": index,
        "%": "%",
    }
    return _PERCENT.sub(lambda match: values.get(match[1], match[0]), wanted)


def grace_of(pod: Document) -> int:
    """The seconds that the containers of a pod have to end by themselves."""
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if grace is None else int(grace)


def gpu_count(container: Document) -> int:
    """How many GPUs a container has."""
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(GPU) or (resources.get("requests") or {}).get(GPU) or 0
    return parse(amount).value()


def pod_gpu_count(pod: Document) -> int:
    """How many GPUs a pod needs: its containers have theirs at the same time, init containers one after another."""
    spec = pod["spec"]
    together = sum(map(gpu_count, spec["containers"]))
    return max([together, *map(gpu_count, spec.get("initContainers") or ())])


def container_limits(container: Document) -> ContainerLimits:
    """The limits of a container as its cgroup has them."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return ContainerLimits(
        memory=parse(limits.get("memory", "0")).value(),
        cpu=parse(limits.get("cpu", "0")).milli(),
        cpu_request=parse(requests.get("cpu", limits.get("cpu", "0"))).milli(),
    )


def _probe(probe: Document, pod_grace: int) -> ProbePlan:
    grace = probe.get("terminationGracePeriodSeconds")
    return {
        "grace": float(pod_grace if grace is None else grace),
        "command": [os.fspath(word) for word in probe["exec"]["command"]],
        "delay": float(probe.get("initialDelaySeconds") or 0),
        "period": float(probe.get("periodSeconds") or 10),
        "timeout": float(probe.get("timeoutSeconds") or 1),
        "successes": int(probe.get("successThreshold") or 1),
        "failures": int(probe.get("failureThreshold") or 3),
    }
