"""Jobs from beginning to end, and pods that may not be evicted, over a wire to a real Kubernetes API that fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.end_to_end import BY_SHARE, Object, gang, job_of, queue
from tests.support.faults import CONTROLLERS, SCHEDULER, Cluster, Trial, at_work, cluster
from tests.support.faulty_wire import CUT, faulty_wire
from tests.support.gang_load import QUEUES
from tests.support.witness import PODS

pytestmark = pytest.mark.kube

MANIFESTS = Path(__file__).parent / "manifests"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
WRITES = "[cupd]*"
"""create, update, patch, delete."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("jobs")) as installed:
        yield installed


def apply(trial: Trial, *objects: Object) -> None:
    """With kubectl, all at once."""
    trial.real.kubectl()("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})


def written(place: Path, config: str) -> list[str]:
    """How the scheduler is told of a configuration."""
    (place / "scheduler.yaml").write_text(config)
    return ["--config", str(place / "scheduler.yaml")]


def pods(trial: Trial) -> dict[str, str]:
    """The phase of each."""
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in trial.client.list(PODS).items}


def wait(trial: Trial, seconds: float) -> float:
    """Let time pass; since when."""
    began = time.monotonic()
    trial.eventually(lambda: time.monotonic() >= began + seconds, "time passes")
    return began


# --- jobs ------------------------------------------------------------------------------------------------------------

FAULTS: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
    "refused": [(WRITES, 409, {})],
    "done and refused": [(WRITES, 409, {"done": True})],
    "later": [("*", 429, {"retry_after": 1})],
    "done and lost": [(WRITES, CUT, {"done": True})],
    "lost": [(WRITES, CUT, {}), ("watch *", 0, {"torn": 10_000})],
}
"""What happens to every second request about a thing, the first included, of the scheduler and of the controllers."""
ENDS = {"mpi": "Completed", "hopeless": "Failed", "broken": "Terminated"}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_jobs_come_to_the_end_that_they_must_come_to(
    installed: Cluster, tmp_path: Path, faults: list[tuple[str, int, dict[str, Any]]]
) -> None:
    # Nothing is taken from anybody: it might be a pod that has just come to its end.
    config = written(tmp_path, BY_SHARE.replace(", reclaim, preempt", ""))
    with faulty_wire(installed.real.endpoint.url) as wire, at_work(installed, nodes=2) as trial, ExitStack() as stack:
        for component, more in ((SCHEDULER, config), (CONTROLLERS, [])):
            trial.part(component, *more, server=wire.url).start_ready()
        met = [stack.enter_context(wire.fault(what, code, every=2, **more)) for what, code, more in faults]
        wire.cut_watches()
        apply(trial, *manifest("queue.yaml"))
        trial.eventually(lambda: trial.client.get(f"{QUEUES}/test").get("status", {}).get("state") == "Open", "open")
        apply(trial, *manifest("podgroup.yaml"), *manifest("jobs.yaml"))
        # Steps has come to its end and left nothing behind.
        trial.eventually(lambda: phases(trial) == ENDS, f"the jobs are over: {phases(trial)}")
        left = {
            "qj-1-a": "Succeeded",
            "qj-1-b": "Succeeded",
            "mpi-master-0": "Succeeded",
            "hopeless-worker-0": "Failed",
            "broken-checker-0": "Failed",
        }
        trial.eventually(lambda: pods(trial) == left, f"what is left of them: {pods(trial)}")
        assert trial.client.get(f"{JOBS}/hopeless")["status"]["retryCount"] == 2
        assert all(fault.met > 5 for fault in met), [fault.met for fault in met]
        for part in trial.parts:
            assert "Traceback" not in part.said(), part.said()


def manifest(name: str) -> list[Object]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


def phases(trial: Trial) -> dict[str, str]:
    found = trial.client.list(JOBS).items
    return {job["metadata"]["name"]: job.get("status", {}).get("state", {}).get("phase", "") for job in found}


def test_pods_whose_names_are_taken_are_not_asked_for_all_the_time(installed: Cluster) -> None:
    # Four of them: each says that the job should be looked at again in 5 s, which is done once for all of them.
    with faulty_wire(installed.real.endpoint.url) as wire, at_work(installed, nodes=2) as trial:
        for component in (SCHEDULER, CONTROLLERS):
            trial.part(component, server=wire.url).start_ready()
        apply(trial, *gang("taken-worker", "default", 4)[1:])
        job = next(job for job in manifest("jobs.yaml") if job["metadata"]["name"] == "hopeless")
        job["metadata"]["name"], job["spec"]["queue"], job["spec"]["tasks"][0]["replicas"] = "taken", "default", 4
        apply(trial, job)
        trial.eventually(lambda: wire.count("create pods") >= 4, "it tries")
        began = wait(trial, 22)
        looks = wire.count("create pods", since=began) / 4
        assert 3 <= looks <= 6, f"{looks} looks in 22 s"


# --- pods that may not go --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [None, 0], ids=["unknown", "used-up"])
def test_a_budget_keeps_no_share_from_others(installed: Cluster, tmp_path: Path, allowed: int | None) -> None:
    # 4 cpu, all a's; b is to have 2 of them. The Eviction API lets no pod go, because of a budget that does not count
    # without the plugin pdb: each victim is asked for once and then deleted.
    config = written(tmp_path, BY_SHARE)
    with faulty_wire(installed.real.endpoint.url) as wire, at_work(installed, nodes=1, cpu=4) as trial:
        for component, more in ((SCHEDULER, config), (CONTROLLERS, [])):
            trial.part(component, *more, server=wire.url).start_ready()
        trial.real.kubectl()("delete", "poddisruptionbudget", "a", "--ignore-not-found")  # with what it says
        apply(trial, queue("a"), queue("b"), BUDGET, *gang("a", "a", 4))
        trial.eventually(lambda: running(trial) == {"a": 4}, "a has it all")
        if allowed is not None:
            allow(trial, allowed)
        apply(trial, *gang("b", "b", 2))
        trial.eventually(lambda: running(trial) == {"a": 2, "b": 2}, "b has its part", 45)
        asked = wire.those(EVICT)
        assert len(asked) == 2 and {each.code for each in asked} == {429}
        assert sorted(each.name for each in wire.those("delete pods")) == sorted(each.name for each in asked)


EVICT = "create pods/eviction"
BUDGET: Object = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "a"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"queue": "a"}}},
}


def allow(trial: Trial, disruptions: int) -> None:
    """What a controller would say of the budget."""
    healthy = {"currentHealthy": 4, "desiredHealthy": 2, "expectedPods": 4, "observedGeneration": 1}
    trial.client.merge(f"{BUDGETS}/a/status", {"status": {**healthy, "disruptionsAllowed": disruptions}})


def running(trial: Trial) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in trial.client.list(PODS).items:
        if pod["status"]["phase"] == "Running":
            found[job_of(pod)] = found.get(job_of(pod), 0) + 1
    return found
