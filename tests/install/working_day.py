"""A day in the life of a cluster: everything that our components ever ask a server for happens in it once.

There is nobody but us: no controller manager, no kubelet. What they would do the administrator does.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from pumice.install.rbac import CONTROLLERS, SCHEDULER, WEBHOOKS
from tests.support.installed import HOME, Component, Real, everything, until
from tests.support.kubectl import Namespace

Object = dict[str, Any]
Use = tuple[str, str, str]
"""Verb, group, and resource with its subresource."""

QUICK = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}, {name: overcommit}]
configurations:
- {name: reclaim, arguments: {reclaim.patience: 0, reclaim.minRuntime: 0}}
"""
FLOW_GROUP = "flow.volcano.sh/v1alpha1"
QUEUE_GROUP, JOB_GROUP, BUS_GROUP = (
    "scheduling.volcano.sh/v1beta1",
    "batch.volcano.sh/v1alpha1",
    "bus.volcano.sh/v1alpha1",
)


def uses(real: Real, component: str) -> set[Use]:
    """What a component has asked for, and was allowed."""
    user = f"system:serviceaccount:{HOME}:pumice-{component}"
    return {use(event) for event in real.asked() if event["user"]["username"] == user}


def use(event: Object) -> Use:
    """What an entry of the audit log is about."""
    about = event["objectRef"]
    resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
    return event["verb"], about.get("apiGroup", ""), resource


class Day:
    """The steps; each waits for what it is about."""

    def __init__(self, real: Real, namespace: str = "default") -> None:
        self.real = real
        self.kubectl = real.kubectl(namespace)

    def all(self) -> None:
        """Everything."""
        self.node("n")
        self.deny_unlucky()
        for kind, version in (("Job", "batch/v1"), ("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1")):
            self.owned_pod(kind, version)
        self.leave_a_group_behind()
        self.refused_binding()
        self.job_from_start_to_end()
        self.aborted_job()
        self.job_with_volumes()
        self.flow()
        self.cron_job()
        self.commands_for_nobody()
        self.hierarchy()
        self.reclaim()
        self.same_event_twice()
        self.somebody_elses_job()
        self.broken_certificate()

    # ---- the cluster ----------------------------------------------------------------------------------------

    def make(self, made: Object) -> None:
        self.kubectl("create", "-f", "-", given=made)

    def node(self, name: str, cpu: int = 4) -> None:
        has = {"cpu": str(cpu), "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        self.make({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})

    def deny_unlucky(self) -> None:
        """A policy of the cluster that refuses to bind one pod."""
        group = "admissionregistration.k8s.io/v1"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.metadata.name != 'unlucky'"}],
        }
        about = {"metadata": {"name": "unlucky"}}
        self.make({"apiVersion": group, "kind": "ValidatingAdmissionPolicy", **about, "spec": spec})
        bound = {"policyName": "unlucky", "validationActions": ["Deny"]}
        self.make({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", **about, "spec": bound})

    # ---- pods -----------------------------------------------------------------------------------------------

    def pod(self, name: str, *, cpu: str = "100m", owner: Object | None = None, **about: Any) -> Object:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, **about, **({"ownerReferences": [owner]} if owner else {})}
        spec = {"schedulerName": "pumice", "containers": [container], "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def owned_pod(self, kind: str, version: str) -> None:
        name = kind.lower()
        template = {"metadata": {"labels": {"app": name}}, "spec": self.pod(name)["spec"]}
        spec: Object = {"template": template}
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
        else:
            spec |= {"selector": {"matchLabels": {"app": name}}, "replicas": 1}
        self.make({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
        self.make(self.pod(f"{name}-0", owner=self.owner(kind, version)))
        self.await_bound(f"{name}-0")

    def owner(self, kind: str, version: str) -> Object:
        name = kind.lower()
        uid = self.kubectl("get", f"{name}s.{version.partition('/')[0]}", name, "-o", "jsonpath={.metadata.uid}")
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}

    def await_bound(self, name: str) -> None:
        until(lambda: self.node_of(name), what=f"pod {name} is bound")

    def node_of(self, name: str) -> str:
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}", "--ignore-not-found")

    def leave_a_group_behind(self) -> None:
        self.kubectl("delete", "pod", "replicaset-0", "--grace-period=0", "--force")
        self.await_use(CONTROLLERS, ("delete", "scheduling.volcano.sh", "podgroups"))

    def refused_binding(self) -> None:
        self.make(self.pod("unlucky"))
        self.await_use(SCHEDULER, ("get", "", "pods"))
        self.kubectl("delete", "pod", "unlucky", "--grace-period=0", "--force")

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """What a kubelet would say of a pod."""
        self.kubectl("patch", "pod", name, "--subresource=status", "-p", f'{{"status":{{"phase":"{phase}"}}}}')

    # ---- jobs -----------------------------------------------------------------------------------------------

    def job(self, name: str, replicas: int = 2, *, queue: str = "default", cpu: str = "100m", **spec: Any) -> Object:
        template = {"spec": {"restartPolicy": "Never", **self.pod("x", cpu=cpu)["spec"]}}
        task = {"name": "work", "replicas": replicas, "template": template}
        about = {"name": name, "annotations": spec.pop("annotations", {})}
        whole = {"queue": queue, "minAvailable": replicas, "schedulerName": "pumice", "tasks": [task], **spec}
        return {"apiVersion": JOB_GROUP, "kind": "Job", "metadata": about, "spec": whole}

    def pods_of(self, job: str) -> list[str]:
        chosen = f"volcano.sh/job-name={job}"
        return self.kubectl("get", "pods", "-l", chosen, "-o", "jsonpath={.items[*].metadata.name}").split()

    def await_job(self, name: str, pods: int) -> None:
        until(
            lambda: len(self.pods_of(name)) == pods and all(self.node_of(pod) for pod in self.pods_of(name)),
            what=f"job {name} has {pods} pods, all bound",
        )

    def job_from_start_to_end(self) -> None:
        """With what its plugins make, grown by one on the way, and gone when it is complete."""
        plugins = {"mpi": ["--master=work", "--worker=work"], "env": []}
        self.make(self.job("long", plugins=plugins, ttlSecondsAfterFinished=0))
        self.await_job("long", 2)
        made = "configmap/long-svc service/long networkpolicy.networking.k8s.io/long secret/long-ssh"
        self.kubectl("get", *made.split())
        grown = {"spec": {"minAvailable": 3, "tasks": self.job("long", 3)["spec"]["tasks"]}}
        self.patch("jobs.batch.volcano.sh", "long", grown)
        self.await_job("long", 3)
        self.await_use(CONTROLLERS, ("patch", "scheduling.volcano.sh", "podgroups"))
        self.await_use(CONTROLLERS, ("patch", "", "configmaps"))
        for pod in self.pods_of("long"):
            self.finish(pod)
        self.await_use(CONTROLLERS, ("delete", "batch.volcano.sh", "jobs"))

    def patch(self, resource: str, name: str, patch: Object) -> None:
        self.kubectl("patch", resource, name, "--type=merge", "-p", json.dumps(patch))

    def aborted_job(self) -> None:
        self.make(self.job("short", 1))
        self.await_job("short", 1)
        self.command("Job", JOB_GROUP, "short", "AbortJob")
        self.await_use(CONTROLLERS, ("delete", "", "pods"))
        self.await_use(CONTROLLERS, ("delete", "bus.volcano.sh", "commands"))

    def job_with_volumes(self) -> None:
        """One claim takes a volume that exists, another needs one to be made. Nobody makes it, so the job waits."""
        for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "disk.example.com")):
            about = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
            self.make({**about, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
        has = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
        spec = {**has, "hostPath": {"path": "/x"}}
        self.make({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "free"}, "spec": spec})
        status = json.dumps({"status": {"phase": "Available"}})
        self.kubectl("patch", "pv", "free", "--subresource=status", "-p", status)
        claims = [
            {"mountPath": f"/{name}", "volumeClaim": self.claim(storage_class=name)} for name in ("local", "made")
        ]
        self.make(self.job("writes", 1, volumes=claims))
        self.await_use(SCHEDULER, ("patch", "", "persistentvolumes"))
        self.await_use(SCHEDULER, ("patch", "", "persistentvolumeclaims"))
        self.kubectl("delete", "jobs.batch.volcano.sh", "writes")
        self.kubectl("delete", "pods", "-l", "volcano.sh/job-name=writes", "--grace-period=0", "--force")

    def claim(self, storage_class: str) -> Object:
        asks = {"requests": {"storage": "1Gi"}}
        return {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": asks}

    def flow(self) -> None:
        template = {**self.job("step", 1), "apiVersion": FLOW_GROUP, "kind": "JobTemplate"}
        self.make(template)
        flow = {"apiVersion": FLOW_GROUP, "kind": "JobFlow", "metadata": {"name": "flow"}}
        self.make({**flow, "spec": {"flows": [{"name": "step"}]}})
        self.await_job("flow-step", 1)
        self.await_use(CONTROLLERS, ("update", "flow.volcano.sh", "jobflows/status"))
        self.await_use(CONTROLLERS, ("update", "flow.volcano.sh", "jobtemplates/status"))

    def cron_job(self) -> None:
        spec = {
            "schedule": "@every 1s",
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": self.job("x", 1)["spec"]},
        }
        self.make({"apiVersion": JOB_GROUP, "kind": "CronJob", "metadata": {"name": "cron"}, "spec": spec})
        self.await_use(CONTROLLERS, ("update", "batch.volcano.sh", "cronjobs/status"))
        self.patch("cronjobs.batch.volcano.sh", "cron", {"spec": {"suspend": True}})

    def command(self, kind: str, version: str, name: str, action: str) -> None:
        target = {"apiVersion": version, "kind": kind, "name": name}
        resource = f"{kind.lower()}s.{version.partition('/')[0]}"
        status, uid = self.kubectl.tried("get", resource, name, "-o", "jsonpath={.metadata.uid}")
        target["uid"] = uid if status == 0 else "00000000-0000-0000-0000-000000000000"
        about = {"generateName": f"{name}-"}
        self.make({"apiVersion": BUS_GROUP, "kind": "Command", "metadata": about, "action": action, "target": target})

    def commands_for_nobody(self) -> None:
        self.command("Job", JOB_GROUP, "nobody", "AbortJob")
        self.await_use(CONTROLLERS, ("get", "batch.volcano.sh", "jobs"))
        self.command("Queue", QUEUE_GROUP, "nobody", "CloseQueue")
        self.await_use(CONTROLLERS, ("get", "scheduling.volcano.sh", "queues"))

    def group(self, name: str, queue: str = "default") -> Object:
        spec = {"minMember": 1, "queue": queue}
        return {"apiVersion": QUEUE_GROUP, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}

    # ---- queues ---------------------------------------------------------------------------------------------

    def queue(self, name: str, **spec: Any) -> Object:
        return {"apiVersion": QUEUE_GROUP, "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    def hierarchy(self) -> None:
        """Expanded, and deleted with everything below it."""
        self.make(self.queue("org", hierarchy=[{"name": "eng"}, {"name": "ops"}]))
        until(lambda: self.kubectl.tried("get", "queue", "eng", "ops")[0] == 0, what="queues are expanded")
        self.kubectl("delete", "queue", "org", "--wait=false")
        until(lambda: self.kubectl.tried("get", "queue", "org")[0] != 0, what="the queue is gone")

    def reclaim(self) -> None:
        """Who has all of the cluster gives half of it to another."""
        for name in ("rich", "poor"):
            self.make(self.queue(name, weight=1))
        self.make(self.job("greedy", 3, queue="rich", cpu="1", minAvailable=1))
        self.await_job("greedy", 3)
        for pod in self.pods_of("greedy"):
            self.finish(pod, "Running")
        self.budget(self.pods_of("greedy"))
        self.make(self.job("needy", 2, queue="poor", cpu="1", minAvailable=1))
        self.await_use(SCHEDULER, ("create", "", "pods/eviction"))
        self.await_use(SCHEDULER, ("delete", "", "pods"))

    def budget(self, pods: list[str]) -> None:
        """A budget over some pods, which holds off evictions of them, but not the scheduler."""
        self.kubectl("label", "pod", *pods, "budget=all")
        spec = {"minAvailable": "100%", "selector": {"matchLabels": {"budget": "all"}}}
        self.make({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec})

    def same_event_twice(self) -> None:
        """On a larger node a pod of a group finds room, the next one none; and again, once the first has ended."""
        owner = self.owner("StatefulSet", "apps/v1")
        self.make(self.pod("statefulset-1", cpu="50", owner=owner))
        said = ("get", "events", "--field-selector=reason=Unschedulable", "-o", "jsonpath={.items[*].message}")
        until(lambda: "cpu 50" in self.kubectl(*said), what="it is said that no node is large enough")
        self.await_use(SCHEDULER, ("patch", "", "pods/status"))
        self.node("large", cpu=64)
        self.await_bound("statefulset-1")
        self.make(self.pod("statefulset-2", cpu="50", owner=owner))
        until(lambda: "one task (cpu 50)" in self.kubectl(*said), what="it is said that there is no room now")
        self.finish("statefulset-1", "Succeeded")
        self.await_bound("statefulset-2")
        self.make(self.pod("statefulset-3", cpu="50", owner=owner))
        self.await_use(SCHEDULER, ("patch", "", "events"))

    # ---- webhooks -------------------------------------------------------------------------------------------

    def somebody_elses_job(self) -> None:
        self.make(self.job("hers", 1, annotations={"volcano.sh/user": "carla"}))
        user = r"jsonpath={.metadata.annotations.volcano\.sh/user}"
        assert self.kubectl("get", "jobs.batch.volcano.sh", "hers", "-o", user) == "carla"  # an administrator may
        self.await_use(WEBHOOKS, ("create", "authorization.k8s.io", "subjectaccessreviews"))

    def broken_certificate(self) -> None:
        Namespace(self.real.admin, HOME)("patch", "secret", "pumice-webhooks", "-p", '{"data":{"ca.crt":""}}')
        self.await_use(WEBHOOKS, ("update", "", "secrets"))

    def await_use(self, component: str, wanted: Use) -> None:
        until(lambda: wanted in uses(self.real, component), what=f"{component} asks to {' '.join(wanted)}")


@contextlib.contextmanager
def at_work(real: Real, port: int) -> Iterator[dict[str, Component]]:
    """All components, with a scheduler that does not hesitate."""
    (real.folder / "scheduler.yaml").write_text(QUICK)
    patch = json.dumps({"data": {"scheduler.yaml": QUICK}})
    real.kubectl(HOME)("patch", "configmap", "pumice-scheduler", "--type=merge", "-p", patch)
    settings = ["--config", str(real.folder / "scheduler.yaml"), "--config-map", "pumice-scheduler"]
    with everything(real, port, scheduler=settings) as components:
        yield components
