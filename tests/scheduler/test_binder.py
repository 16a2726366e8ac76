"""What becomes of decisions whose answers get lost: nothing counts as not done unless the pod was seen without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pumice.cli.daemons.scheduler_command import scheduler
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.event_recorder import Subject
from pumice.scheduler import binder as module
from pumice.scheduler.binder import Binder
from pumice.scheduler.cluster_cache import ClusterCache
from tests.support.cluster_caches import mirror_of

BROKEN = UnreachableError("the connection broke")
CONFLICT = ApiError(409, "Conflict", "pod a is already assigned to node n1")
BUSY = ApiError(503, "ServiceUnavailable", "later")
WRONG = ApiError(500, "InternalError", "something went wrong")
ABSENT = ApiError(404, "NotFound", "there is no such pod")


class Cluster:
    """An API with one pod; each call does, and says, what is next on its list."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.node = ""
        self.uid = "u1"
        self.calls: list[str] = []
        self.annotations: dict[str, str] = {}

    def _next(self, call: str) -> Any:
        self.calls.append(call)
        answers = self.answers.get(call, [])
        return answers.pop(0) if answers else None

    async def bind(self, namespace: str, pod: str, node: str, *, uid: str, annotations: dict[str, str]) -> None:
        answer = self._next("bind")
        assert annotations.pop("pumice.dev/placed-by") == "pumice"
        self.annotations = annotations
        if callable(answer):  # it is done, whatever is said about it
            answer = answer(self, node)
        if answer is not None:
            raise answer
        if self.node or uid != self.uid:
            raise CONFLICT
        self.node = node

    async def get(self, resource: Any, name: str, namespace: str) -> dict[str, Any]:
        answer = self._next("get")
        if answer is not None:
            raise answer
        return {"metadata": {"uid": self.uid}, "spec": {"nodeName": self.node} if self.node else {}}

    async def evict(self, namespace: str, pod: str, *, uid: str) -> None:
        answer = self._next("evict")
        if answer is not None:
            raise answer

    async def delete(self, resource: Any, name: str, namespace: str, *, uid: str) -> None:
        assert uid == self.uid
        answer = self._next("delete")
        if answer is not None:
            raise answer

    async def patch(self, resource: Any, name: str, patch: Any, namespace: str) -> None:
        await asyncio.sleep(0)
        self.calls.append(f"says {patch['status']['phase']}")


class Silent:
    def record(self, subject: Subject, reason: str, message: str, *, kind: str = "Normal") -> None:
        pass


def arrives_unheard(cluster: Cluster, node: str) -> Exception:
    cluster.node = node
    return BROKEN


def carried_out(
    cluster: Cluster,
    *decisions: Decision,
    running: bool = False,
    then: Callable[[Binder], None] = lambda hands: None,
    budgets_count: bool = True,
) -> tuple[list[Event], Binder, ClusterCache]:
    reported: list[Event] = []
    mirror = mirror_of(running=running)

    async def run() -> Binder:
        def report(events: Iterable[Event]) -> None:
            reported.extend(events)

        hands = Binder(cluster, mirror, Silent(), report, budgets_count=lambda: budgets_count)  # type: ignore[arg-type]  # as much of them as is needed
        hands.execute(decisions)
        then(hands)
        async with asyncio.timeout(20):
            await hands.done()
        return hands

    return reported, asyncio.run(run()), mirror


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quick(module.Backoff):
        def next(self, least: float = 0.0) -> float:
            return super().next(least) / 100

    monkeypatch.setattr(module, "Backoff", Quick)


BIND = Bind("ns/a", "n1", "ns/g")


def test_a_bind_without_an_answer_is_asked_for_again_until_there_is_one() -> None:
    cluster = Cluster(bind=[BROKEN] * 7 + [BUSY])
    reported, hands, mirror = carried_out(cluster, BIND)
    assert (cluster.node, reported, hands.bound, hands.failed) == ("n1", [], 1, 0)
    assert cluster.calls == ["bind"] * 9
    assert mirror.open_assumptions == 1  # until it is seen


def test_a_bind_says_which_cards_the_pod_uses() -> None:
    cluster = Cluster()
    carried_out(cluster, Bind("ns/a", "n1", "ns/g", cards=(0, 3)))
    assert cluster.annotations.pop("volcano.sh/gpu-index") == "0,3"
    assert cluster.annotations.pop("volcano.sh/predicate-time").isdecimal()
    carried_out(other := Cluster(), BIND)
    assert other.annotations == {}


def test_bind_with_lost_response_counts_as_bound() -> None:
    cluster = Cluster(bind=[arrives_unheard])
    reported, hands, _ = carried_out(cluster, BIND)
    assert cluster.calls == ["bind", "bind", "get"]
    assert (reported, hands.bound, hands.failed) == ([], 1, 0)


def test_bind_with_lost_response_counts_after_failing_reads() -> None:
    cluster = Cluster(bind=[arrives_unheard], get=[BROKEN] * 9 + [ApiError(403, "Forbidden", "not now")])
    reported, hands, _ = carried_out(cluster, BIND)
    assert (reported, hands.bound, hands.failed) == ([], 1, 0)


def test_a_pod_that_is_elsewhere_was_not_bound_by_us() -> None:
    cluster = Cluster()
    cluster.node = "n2"
    reported, hands, mirror = carried_out(cluster, BIND)
    assert reported[0] == BindFailed("ns/a") and isinstance(reported[1], Changed)
    assert (hands.bound, hands.failed, mirror.open_assumptions) == (0, 1, 0)


@pytest.mark.parametrize("trouble", [WRONG, RuntimeError("a mistake of ours")])
def test_bind_with_internal_error_is_verified_once_and_reported_failed(trouble: Exception) -> None:
    cluster = Cluster(bind=[trouble])
    reported, hands, _ = carried_out(cluster, BIND)
    assert cluster.calls == ["bind", "get"]
    assert reported[0] == BindFailed("ns/a") and hands.failed == 1


def test_a_pod_that_is_gone_is_not_bound() -> None:
    reported, hands, _ = carried_out(Cluster(bind=[ABSENT], get=[ABSENT]), BIND)
    assert reported[0] == BindFailed("ns/a") and hands.failed == 1


def test_another_pod_of_that_name_is_not_the_one_that_was_bound() -> None:
    cluster = Cluster(bind=[BROKEN])
    cluster.node, cluster.uid = "n1", "u2"
    reported, hands, _ = carried_out(cluster, BIND)
    assert reported[0] == BindFailed("ns/a") and (hands.bound, hands.failed) == (0, 1)


def test_a_job_that_goes_says_so_before_its_pods_do() -> None:
    cluster = Cluster()
    evict = Evict("ns/a", "n1", "ns/g", "ns/preemptor", "reclaim")
    carried_out(
        cluster, evict, running=True, then=lambda hands: hands.write_podgroup_status("ns/g", {"phase": "Inqueue"})
    )
    assert cluster.calls == ["says Inqueue", "evict"]


def test_an_eviction_that_is_refused_comes_back() -> None:
    cluster = Cluster(evict=[ApiError(429, "TooManyRequests", "a budget does not allow it")])
    reported, hands, _ = carried_out(cluster, Evict("ns/a", "n1", "ns/g", "", "repair-gangs"), running=True)
    assert reported[0] == EvictFailed("ns/a") and hands.evicted == 0


BUDGET = ApiError(429, "TooManyRequests", "no", details={"causes": [{"reason": "DisruptionBudget"}]})
TWO_BUDGETS = ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported")


@pytest.mark.parametrize("refusal", [BUDGET, TWO_BUDGETS])
def test_budgets_hold_off_evictions_only_where_the_administrator_lets_them(refusal: ApiError) -> None:
    evict = Evict("ns/a", "n1", "ns/g", "ns/preemptor", "reclaim")
    cluster = Cluster(evict=[refusal])
    reported, hands, _ = carried_out(cluster, evict, running=True, budgets_count=False)
    assert (cluster.calls, reported, hands.evicted) == (["evict", "delete"], [], 1)
    cluster = Cluster(evict=[refusal])
    reported, hands, _ = carried_out(cluster, evict, running=True)
    assert reported[0] == EvictFailed("ns/a") and (cluster.calls, hands.evicted) == (["evict"], 0)


def test_overloaded_api_server_is_no_budget() -> None:
    cluster = Cluster(evict=[ApiError(429, "TooManyRequests", "too many requests")])
    reported, _, _ = carried_out(
        cluster, Evict("ns/a", "n1", "ns/g", "", "repair-gangs"), running=True, budgets_count=False
    )
    assert reported[0] == EvictFailed("ns/a") and "delete" not in cluster.calls


def test_an_eviction_without_an_answer_is_asked_for_again() -> None:
    cluster = Cluster(evict=[BROKEN] * 5 + [BUSY])
    reported, hands, _ = carried_out(cluster, Evict("ns/a", "n1", "ns/g", "", "relieve-nodes"), running=True)
    assert (cluster.calls, reported, hands.evicted, hands.failed) == (["evict"] * 7, [], 1, 0)


def test_binds_and_evictions_keep_to_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(round(seconds, 3))

    class Standing(module.TokenBucket):
        def __init__(self, rate: float, burst: int) -> None:
            super().__init__(rate, burst, now=lambda: 0.0, pause=pause)

    monkeypatch.setattr(module, "TokenBucket", Standing)
    binds = [Bind(f"ns/{number}", "n1", "ns/g") for number in range(13)]

    async def run() -> None:
        cluster = Cluster()
        hands = Binder(cluster, mirror_of(running=True), Silent(), lambda events: None, rate=10)  # type: ignore[arg-type]  # as much of them as is needed
        monkeypatch.setattr(cluster, "bind", _does_nothing)
        hands.execute([*binds, Evict("ns/a", "n1", "ns/g", "", "relieve-nodes")])
        await hands.done()

    asyncio.run(run())
    # Ten at once, three more at 10 a second; the eviction is counted apart.
    assert pauses == [0.1, 0.2, 0.3]


async def _does_nothing(*about: Any, **more: Any) -> None:
    pass


def test_the_command_says_the_rate_that_counts() -> None:
    option = next(option for option in scheduler.params if option.name == "write_rate")
    assert option.default == module.WRITE_RATE
