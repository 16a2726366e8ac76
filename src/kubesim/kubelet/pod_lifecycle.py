"""A pod's life on its node: what comes next, and when. Pure; times are moments on the wall.

    new ── admit ──> starting ── start ──> running ── exit ──> over
                        │                   ^    │
                 (bad annotation)       restart  │ exit, to be restarted later
                        v                   │    v
                   misconfigured           backing off

At any time the pod's own deadline may expire, or somebody may delete it: then its containers are stopped, with grace,
and it is removed. Where a pod is can be told from its status alone; ``entered`` says since when, more precisely than
the whole seconds that a status has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kubesim.clock import Clock, parse_time, stamp
from kubesim.controllers.conditions import is_condition_true
from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.kubelet import container_status
from kubesim.kubelet.pod_behavior import PodBehavior, PodBehaviorError, read_behavior
from kubesim.registry.registry import Object

FIRST_BACKOFF, LAST_BACKOFF = 10.0, 300.0
BACKOFF_RESET_SECONDS = 600.0  # a container that ran this long is restarted without delay
CONFIG_ERROR = "CreateContainerConfigError"
CRASH_LOOP = "CrashLoopBackOff"


class PodStage(Enum):
    """The stage of a pod on its node."""

    NEW = "new"
    STARTING = "starting"
    MISCONFIGURED = "misconfigured"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    OVER = "over"


class PodAction(Enum):
    """An action of a kubelet on a pod."""

    ADMIT = "admit"
    START = "start"
    EXIT = "exit"
    RESTART = "restart"
    EXPIRE = "expire"
    CONFIRM = "confirm"  # report readiness again after a controller marked the pod not ready
    STOP = "stop"  # and remove
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class PodStep:
    """An action, and when it is due."""

    action: PodAction
    due: float


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The configuration of all simulated kubelets."""

    identity: ServerIdentity = KUBESIM
    """In its domain are the annotations that pods describe their behaviour with; its name is the container runtime."""
    start_seconds: float = 0.1
    missing_programs: frozenset[str] = frozenset()
    """Programs that no image has: commands that run them exit with 127."""


def pod_stage(pod: Object) -> PodStage:
    """The stage of a bound pod, by its status."""
    status = pod.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"}:
        return PodStage.OVER
    if not status.get("startTime"):
        return PodStage.NEW
    entries = status.get("containerStatuses") or ()
    state = (entries[0].get("state") or {}) if entries else {}
    if "running" in state:
        return PodStage.RUNNING
    reason = (state.get("waiting") or {}).get("reason", "")
    return {CRASH_LOOP: PodStage.BACKING_OFF, CONFIG_ERROR: PodStage.MISCONFIGURED}.get(reason, PodStage.STARTING)


def stage_start(pod: Object) -> float:
    """When a pod entered its stage, by its status."""
    status = pod.get("status") or {}
    match pod_stage(pod):
        case PodStage.RUNNING:
            return parse_time(status["containerStatuses"][0]["state"]["running"]["startedAt"])
        case PodStage.BACKING_OFF:
            ends = status["containerStatuses"][0]["lastState"].get("terminated") or {}
            return parse_time(ends.get("finishedAt") or status["startTime"])
        case PodStage.STARTING | PodStage.MISCONFIGURED:
            return parse_time(status["startTime"])
    return parse_time(pod["metadata"]["creationTimestamp"])


def next_step(
    pod: Object, entered: float, deleted: float | None, clock: Clock, config: KubeletConfig
) -> PodStep | None:
    """The next step of a pod. ``deleted``: when its deletion was observed, more precise than its timestamp."""
    here = pod_stage(pod)
    if "deletionTimestamp" in pod["metadata"]:
        return _deletion_step(pod, here, entered, deleted, clock, config)
    if here is PodStage.OVER:
        return None
    if here is PodStage.NEW:
        return PodStep(PodAction.ADMIT, entered)
    if here is PodStage.RUNNING and not is_condition_true(pod["status"], "Ready"):
        return PodStep(PodAction.CONFIRM, entered)
    steps = [_deadline_step(pod, clock), _next_stage_step(pod, here, entered, clock, config)]
    return min((step for step in steps if step), key=lambda step: step.due, default=None)


def _next_stage_step(
    pod: Object, here: PodStage, entered: float, clock: Clock, config: KubeletConfig
) -> PodStep | None:
    try:
        plan = read_behavior(pod, config.identity, config.missing_programs)
    except PodBehaviorError:
        # It is reported at the start; a pod that already runs continues as without annotations.
        return PodStep(PodAction.START, entered) if here is PodStage.STARTING else None
    match here:
        case PodStage.STARTING:
            return PodStep(PodAction.START, entered + clock.real(config.start_seconds))
        case PodStage.MISCONFIGURED:
            return PodStep(PodAction.START, entered)
        case PodStage.BACKING_OFF:
            return PodStep(PodAction.RESTART, entered + clock.real(restart_backoff(restarts(pod))))
    return None if plan.seconds is None else PodStep(PodAction.EXIT, entered + clock.real(plan.seconds))


def _deadline_step(pod: Object, clock: Clock) -> PodStep | None:
    deadline = pod["spec"].get("activeDeadlineSeconds")
    if deadline is None:
        return None
    return PodStep(PodAction.EXPIRE, parse_time(pod["status"]["startTime"]) + clock.real(deadline))


def _deletion_step(
    pod: Object, here: PodStage, entered: float, deleted: float | None, clock: Clock, config: KubeletConfig
) -> PodStep | None:
    about = pod["metadata"]
    grace = about.get("deletionGracePeriodSeconds") or 0
    asked = parse_time(about["deletionTimestamp"]) - grace
    since = asked if deleted is None else deleted
    if here is PodStage.OVER:
        return PodStep(PodAction.REMOVE, since) if grace else None  # without grace only finalizers hold it
    if here is not PodStage.RUNNING:
        return PodStep(PodAction.STOP, since)
    plan = _behavior_or_default(pod, config)
    stop = grace if plan.stop_seconds is None else min(plan.stop_seconds, grace)
    end = PodStep(PodAction.STOP, since + clock.real(stop))
    if plan.seconds is None:
        return end
    return min(PodStep(PodAction.EXIT, entered + clock.real(plan.seconds)), end, key=lambda step: step.due)


def _behavior_or_default(pod: Object, config: KubeletConfig) -> PodBehavior:
    """The behaviour of running containers; with malformed annotations they run until they are stopped."""
    try:
        return read_behavior(pod, config.identity, config.missing_programs)
    except PodBehaviorError:
        return PodBehavior()


def restart_backoff(count: int, ran: float = 0.0) -> float:
    """Seconds until the next start of a container after this many restarts and a run of ``ran`` seconds."""
    if count == 0 or ran >= BACKOFF_RESET_SECONDS:
        return 0.0
    return min(LAST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(count - 1, 10))


def restarts(pod: Object) -> int:
    """How often the containers have been restarted."""
    entries = (pod.get("status") or {}).get("containerStatuses") or ()
    return int(entries[0].get("restartCount", 0)) if entries else 0


def config_error(pod: Object) -> str:
    """The configuration error of a pod's containers; empty if there is none."""
    if pod_stage(pod) is not PodStage.MISCONFIGURED:
        return ""
    return str(pod["status"]["containerStatuses"][0]["state"]["waiting"].get("message", ""))


# ---- the status after an action ---------------------------------------------------------------------------


def admit(pod: Object, at: float, host: str, address: str, identity: ServerIdentity) -> None:
    """The kubelet admits the pod and creates its containers."""
    status, now = pod.setdefault("status", {}), stamp(at)
    status |= {"phase": "Pending", "startTime": now, "hostIP": host, "hostIPs": [{"ip": host}]}
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    first = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
    container_status.set_init_container_states(pod, now, identity, done=False)
    container_status.set_container_states(pod, lambda old, container_id: container_status.waiting(first), identity)
    container_status.set_pod_conditions(pod, now)


def reject(pod: Object, at: float, reason: str, message: str) -> None:
    """The kubelet rejects the pod."""
    status = pod.setdefault("status", {})
    status |= {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": stamp(at)}


def start(pod: Object, at: float, identity: ServerIdentity) -> None:
    """Start the containers, unless their annotations are malformed."""
    status, now = pod["status"], stamp(at)
    try:
        read_behavior(pod, identity)
    except PodBehaviorError as error:
        text = str(error)
        container_status.set_container_states(
            pod, lambda old, container_id: container_status.waiting(CONFIG_ERROR, text), identity
        )
    else:
        status["phase"] = "Running"
        container_status.set_init_container_states(pod, now, identity, done=True)
        container_status.set_container_states(pod, lambda old, container_id: container_status.running(now), identity)
    container_status.set_pod_conditions(pod, now)


def confirm(pod: Object, at: float) -> None:
    """Report running containers again, after the node controller marked the pod not ready."""
    container_status.set_pod_conditions(pod, stamp(at))


def restart(pod: Object, at: float, identity: ServerIdentity) -> None:
    """The containers start again."""
    now = stamp(at)
    container_status.set_container_states(
        pod, lambda old, container_id: container_status.running(now), identity, restarted=1
    )
    container_status.set_pod_conditions(pod, now)


def exit_containers(pod: Object, at: float, entered: float, clock: Clock, config: KubeletConfig) -> None:
    """The containers exit, and the pod ends unless they are to be restarted.

    Under the policy ``Always`` a real pod never ends. Annotations tell when the pod ends, and most manifests omit the
    policy, so the pod ends then; containers that end by their command are restarted.
    """
    identity = config.identity
    plan = read_behavior(pod, identity, config.missing_programs)
    code = plan.exit_code
    policy = pod["spec"].get("restartPolicy") or "Always"
    again = (code != 0 and policy == "OnFailure") or (plan.by_command and policy == "Always")
    if not again or "deletionTimestamp" in pod["metadata"]:
        _end(pod, at, code, identity)
        return
    now, wait = stamp(at), restart_backoff(restarts(pod), (at - entered) * clock.speed)
    _end_containers(pod, now, code, identity)
    for entry in pod["status"]["containerStatuses"]:
        entry["lastState"] = entry["state"]
    if not wait:
        restart(pod, at, identity)
        return
    about = pod["metadata"]

    def crashed(old: Object | None, _: str) -> container_status.State:
        name = (old or {}).get("name", "")
        where = f"{about['name']}_{about.get('namespace', '')}({about['uid']})"
        text = f"back-off {_duration(wait)} restarting failed container={name} pod={where}"
        return container_status.waiting(CRASH_LOOP, text)

    container_status.set_container_states(pod, crashed, identity)
    container_status.set_pod_conditions(pod, now)


def expire(pod: Object, at: float, identity: ServerIdentity) -> None:
    """The pod has exceeded its active deadline."""
    _end(pod, at, container_status.KILLED, identity, failed=True)
    text = "Pod was active on the node longer than the specified deadline"
    pod["status"] |= {"reason": "DeadlineExceeded", "message": text}


def stop(pod: Object, at: float, identity: ServerIdentity) -> None:
    """The containers are stopped because the pod is being deleted."""
    about = pod["metadata"]
    grace = about.get("deletionGracePeriodSeconds") or 0
    seconds = _behavior_or_default(pod, KubeletConfig(identity)).stop_seconds
    obeys = seconds is not None and seconds < grace
    _end(pod, at, container_status.STOPPED if obeys else container_status.KILLED, identity, failed=True)


def _end(pod: Object, at: float, code: int, identity: ServerIdentity, *, failed: bool = False) -> None:
    status, now = pod.setdefault("status", {}), stamp(at)
    ran = pod_stage(pod) in {PodStage.RUNNING, PodStage.BACKING_OFF}
    status["phase"] = "Failed" if failed or code else "Succeeded"
    if ran:
        _end_containers(pod, now, code, identity)
        container_status.set_init_container_states(pod, now, identity, done=True, over=True)
    container_status.set_pod_conditions(pod, now)


def _end_containers(pod: Object, now: str, code: int, identity: ServerIdentity) -> None:
    def ended(old: Object | None, container_id: str) -> container_status.State:
        if old is not None and "waiting" in old["state"] and old.get("lastState"):
            return dict(old["lastState"])
        return container_status.terminated(code, container_status.started_at(old, now), now, container_id)

    container_status.set_container_states(pod, ended, identity)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
