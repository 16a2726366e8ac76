"""Whatever happens to a job's pods, whoever commands it, and wherever its controller dies: some things always hold."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.job_model import Cluster, job, task

EVENTS = (
    "*",
    "PodFailed",
    "PodFailed",
    "PodEvicted",
    "PodRunning",
    "PodPending",
    "Unknown",
    "TaskCompleted",
    "JobUpdated",
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
OVER = ("Completed", "Failed", "Terminated")
RESTS = (*OVER, "Aborted")

policies = st.lists(
    st.builds(
        lambda event, action, timeout: {"event": event, "action": action, **timeout},
        st.sampled_from(EVENTS),
        st.sampled_from(ACTIONS),
        st.sampled_from([{}, {}, {"timeout": "5s"}]),
    ),
    max_size=1,
    unique_by=lambda policy: policy["event"],
)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    first = task("a", draw(st.integers(1, 3)), policies=draw(policies))
    second = task("b", draw(st.integers(1, 2)), policies=draw(policies))
    if draw(st.booleans()):
        second["dependsOn"] = {"name": ["a"]}
    if draw(st.booleans()):
        first["minAvailable"] = 1
    if draw(st.booleans()):
        first["partitionPolicy"] = {"partitionSize": 2}
    spec: dict[str, Any] = {"policies": draw(policies), "maxRetry": draw(st.integers(0, 4))}
    if draw(st.booleans()):
        spec["minSuccess"] = 1
    if draw(st.booleans()):
        spec["plugins"] = {"svc": [], "ssh": []}
    return job(first, second, **spec)


class OfJob(RuleBasedStateMachine):
    cluster: Cluster
    over: str
    made: int

    @initialize(document=jobs(), running=st.booleans())
    def begin(self, document: dict[str, Any], running: bool) -> None:
        self.cluster = Cluster(document)
        if running:
            self.cluster.started()
        self.over, self.made, self.version, self.retries = "", 0, 0, 0

    # ---- what happens -----------------------------------------------------------------------------------------

    @rule(writes=st.integers(0, 6))
    def look_and_die(self, writes: int) -> None:
        self.cluster.look(writes)

    @rule(times=st.integers(1, 3))
    def look(self, times: int) -> None:
        for _ in range(times):
            self.cluster.look()

    @rule(phase=st.sampled_from(["Inqueue", "Running", "Unknown"]))
    def enter(self, phase: str) -> None:
        self.cluster.enter(phase)

    @rule(place=st.integers(0, 4), phase=st.sampled_from(["Running", "Succeeded", "Failed", "Failed", "Unknown"]))
    def move(self, place: int, phase: str) -> None:
        self.cluster.become(self.name(place), phase)

    @rule(phase=st.sampled_from(["Running", "Succeeded"]))
    def move_all(self, phase: str) -> None:
        for name in list(self.cluster.pods):
            self.cluster.become(name, phase)
        self.cluster.look()

    @rule(place=st.integers(0, 4), at_once=st.booleans())
    def lose(self, place: int, at_once: bool) -> None:
        (self.cluster.vanish if at_once else self.cluster.evict)(self.name(place))

    @rule()
    def thrive(self) -> None:
        """Everything goes well for a while."""
        self.cluster.settle()
        self.cluster.sweep()
        self.cluster.started()

    @rule()
    def sweep(self) -> None:
        self.cluster.sweep()

    @precondition(lambda self: len(self.cluster.commands) < 3)
    @rule(action=st.sampled_from(ACTIONS))
    def command(self, action: str) -> None:
        self.cluster.command(action)

    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        assert self.cluster.job is not None
        self.cluster.job["spec"]["tasks"][0]["replicas"] = replicas
        self.cluster.job["metadata"]["generation"] += 1

    @rule(seconds=st.integers(1, 10))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds

    @rule()
    def settle(self) -> None:
        """With nodes that do their part, there is an end to the writing: then every look is a quiet one."""
        for _ in range(30):
            before = len(self.cluster.made)
            self.cluster.settle()
            self.cluster.sweep()
            if not self.cluster.look() and len(self.cluster.made) == before:
                break
        else:
            raise AssertionError("pods are made and deleted for ever")
        assert not self.cluster.commands
        assert self.cluster.phase not in {"Restarting", "Aborting", "Completing", "Terminating"}
        assert self.cluster.plan().writes == [] or self.cluster.look() == 0
        versions = {pod["metadata"]["annotations"]["volcano.sh/job-version"] for pod in self.cluster.pods.values()}
        assert versions <= {str(self.cluster.status["version"])}
        if self.cluster.phase in {"Pending", "Running"} and (self.cluster.group or {}).get("status"):
            assert self.cluster.job is not None
            names = {f"j-a-{index}" for index in range(self.cluster.job["spec"]["tasks"][0]["replicas"])}
            assert {name for name in self.cluster.pods if name.startswith("j-a-")} == names
        if self.cluster.phase in RESTS:
            phases = {pod["status"]["phase"] for pod in self.cluster.pods.values()}
            assert phases <= {"Succeeded", "Failed"}
            assert self.cluster.group is None or self.cluster.phase == "Completed"

    def name(self, place: int) -> str:
        names = sorted(self.cluster.pods)
        return names[place % len(names)] if names else ""

    # ---- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def pods_have_places(self) -> None:
        """No more pods than replicas: names say the places. Those of a task that shrank may still be leaving."""
        assert self.cluster.job is not None
        for name in self.cluster.pods:
            _, role, index = name.split("-")
            assert role in {"a", "b"} and int(index) < 3

    @invariant()
    def no_more_retries_than_allowed(self) -> None:
        assert self.cluster.job is not None
        retries = self.cluster.status.get("retryCount", 0)
        assert self.retries <= retries <= self.cluster.job["spec"]["maxRetry"]
        assert self.version <= self.cluster.status.get("version", 0)
        self.retries, self.version = retries, self.cluster.status.get("version", 0)

    @invariant()
    def what_is_over_stays_over_and_makes_nothing(self) -> None:
        if self.over:
            assert self.cluster.phase == self.over
            assert len(self.cluster.made) == self.made
        if self.cluster.phase in OVER:
            self.over, self.made = self.cluster.phase, len(self.cluster.made)


OfJob.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestJobs = OfJob.TestCase
