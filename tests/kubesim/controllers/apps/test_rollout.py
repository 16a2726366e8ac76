"""From one template to the next: single steps by hand, and whole ways played against a model of ReplicaSets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.controllers.apps.rollout import (
    initial_replicas,
    new_replica_set,
    plan_rollout,
    revision,
    surge_and_unavailable,
    template_hash,
    template_of,
)
from kubesim.kinds.apps import amount, amount_faults
from tests.support.workloads import deployment, replica_set

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
RECREATE = {"type": "Recreate"}


def rolling(surge: int | str, missing: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}


# ---- amounts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "total", "down", "up"),
    [
        (3, 10, 3, 3),
        ("25%", 10, 2, 3),  # 2.5 pods
        ("25%", 4, 1, 1),
        ("0%", 7, 0, 0),
        ("100%", 7, 7, 7),
        ("150%", 3, 4, 5),  # 4.5 pods
        ("1%", 1, 0, 1),
    ],
)
def test_parts_of_pods_are_rounded(value: int | str, total: int, down: int, up: int) -> None:
    assert amount(value, total) == down
    assert amount(value, total, up=True) == up


@pytest.mark.parametrize("value", ["%", "5", "", "-5%", "5.5%", "five%", "\u0665%", -1])
def test_malformed_int_or_percent_is_refused(value: int | str) -> None:
    assert list(amount_faults(value))


@pytest.mark.parametrize("value", [0, 7, "0%", "100%", "250%"])
def test_amounts(value: int | str) -> None:
    assert not list(amount_faults(value))


def test_overlong_percentage_is_refused() -> None:
    assert amount("9" * 5000 + "%", 10) == 0


@pytest.mark.parametrize(
    ("surge", "missing", "wanted", "expected"),
    [
        ("25%", "25%", 3, (1, 0)),  # 0.75 up, 0.75 down
        ("25%", "25%", 8, (2, 2)),
        (0, "25%", 3, (0, 1)),  # neither: one may be missing, or nothing would ever move
        (0, 5, 3, (0, 3)),  # no more can be missing than are wanted
        (2, 0, 3, (2, 0)),
    ],
)
def test_surge_and_unavailable(surge: int | str, missing: int | str, wanted: int, expected: tuple[int, int]) -> None:
    assert surge_and_unavailable(deployment(replicas=wanted, strategy=rolling(surge, missing))) == expected


def test_surge_and_unavailable_without_rolling_update() -> None:
    assert surge_and_unavailable(deployment(strategy=RECREATE)) == (0, 0)


# ---- which set is whose -----------------------------------------------------------------------------------


def test_the_set_of_the_present_template() -> None:
    old, new = replica_set("a", image="web:1", age=2), replica_set("b", image="web:2", age=1)
    assert new_replica_set(deployment(image="web:2"), [old, new]) is new
    assert new_replica_set(deployment(image="web:1"), [old, new]) is old
    assert new_replica_set(deployment(image="web:3"), [old, new]) is None
    twin = replica_set("c", image="web:2", age=0)
    assert new_replica_set(deployment(image="web:2"), [twin, new]) is new  # the older one
    assert template_of(new) == {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:2"}]},
    }


def test_pod_template_hash() -> None:
    one = deployment()
    assert template_hash(one) == template_hash(deployment(replicas=9))  # how many are wanted is no part of the template
    assert template_hash(one) != template_hash(deployment(image="web:2"))
    collided = {**one, "status": {"collisionCount": 1}}
    assert template_hash(one) != template_hash(collided)
    assert len(template_hash(one)) == 10 and template_hash(one).isalnum() and template_hash(one).islower()


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("", 0), ("x", 0), ("-1", 0), ("9" * 5000, 0), ("1e3", 0)])
def test_malformed_revision_annotation_counts_as_zero(text: str, number: int) -> None:
    assert revision({"metadata": {"annotations": {"deployment.kubernetes.io/revision": text}}}) == number
    assert revision({"metadata": {}}) == 0


# ---- steps ------------------------------------------------------------------------------------------------


def test_first_replica_set_gets_all_replicas() -> None:
    one = deployment(replicas=3)
    assert plan_rollout(one, [], 0).create
    assert initial_replicas(one, []) == 3


def test_new_replica_set_starts_with_the_surge() -> None:
    # 4 wanted, one more allowed, 4 there: room for 1
    one = deployment(replicas=4, image="web:2", strategy=ROLLING)
    old = replica_set("a", 4, "web:1", available=4)
    assert plan_rollout(one, [old], 4).create
    assert initial_replicas(one, [old]) == 1


def test_rollout_removes_unavailable_old_pods_first() -> None:
    # 4 wanted, all must stay available: 5 told, one of the new ones is unborn. Of the broken set 2 pods do nothing, but
    # what is told of (2 + 2 + 1) less what must be (4) and the unborn (1) leaves nothing to spare
    one = deployment(replicas=4, image="web:3", strategy=ROLLING)
    broken, old = replica_set("b", 2, "web:2", age=1), replica_set("a", 2, "web:1", available=2, age=2)
    new = replica_set("c", 1, "web:3", available=0)
    assert plan_rollout(one, [broken, old, new], 4).scale == {}
    # once the new one is available there is one to spare, and it is one of the broken
    new = replica_set("c", 1, "web:3", available=1)
    assert plan_rollout(one, [broken, old, new], 4).scale == {"b": 1}


def test_a_paused_deployment_is_scaled_but_not_rolled() -> None:
    one = deployment(replicas=5, image="web:2", paused=True)
    old = replica_set("a", 3, "web:1", available=3)
    plan = plan_rollout(one, [old], 3)
    assert not plan.create
    assert plan.scale == {"a": 5}
    half = replica_set("b", 1, "web:2")
    assert plan_rollout(one, [old, half], 4).scale == {}  # in the middle of the way: neither is touched
    assert not plan_rollout(deployment(paused=True), [], 0).create


def test_rollout_deletes_replica_sets_beyond_history_limit() -> None:
    sets = [replica_set(f"r{age}", 0, f"web:{age}", there=0, age=age) for age in range(1, 5)]
    new = replica_set("r0", 3, "web:0", available=3)
    one = deployment(image="web:0", revisionHistoryLimit=2)
    assert plan_rollout(one, [*sets, new], 0).delete == ["r4", "r3"]  # the lowest revisions
    late = replica_set("r0", 3, "web:0", available=2)
    assert plan_rollout(one, [*sets, late], 0).delete == []
    busy = replica_set("r4", 0, "web:4", there=1, age=4)  # its pods are not all gone
    assert plan_rollout(one, [*sets[:3], busy, new], 0).delete == ["r3"]


# ---- whole ways -------------------------------------------------------------------------------------------


class Model:
    """ReplicaSets that do as they are told, later, and pods that become available, later still."""

    def __init__(self, one: dict[str, Any], sets: list[dict[str, Any]]) -> None:
        self.deployment = one
        self.sets = sets
        self.pods: dict[str, list[bool]] = {}  # whether each is available
        self.leaving: dict[str, int] = {}
        for each in sets:
            ready = each["status"]["availableReplicas"]
            self.pods[each["metadata"]["name"]] = [n < ready for n in range(each["spec"]["replicas"])]

    def __repr__(self) -> str:
        spec = self.deployment["spec"]
        sets = [(one["metadata"]["name"], one["spec"]["replicas"], one["status"]) for one in self.sets]
        return f"{spec['replicas']} wanted, {spec['strategy']}, {sets}, {self.pods}"

    @property
    def told(self) -> int:
        return sum(each["spec"]["replicas"] for each in self.sets)

    @property
    def available(self) -> int:
        return sum(sum(pods) for pods in self.pods.values())

    @property
    def reported(self) -> int:
        """How many are known to be available, and will stay: that is all the rollout can go by."""
        return sum(min(each["spec"]["replicas"], each["status"].get("availableReplicas", 0)) for each in self.sets)

    def look(self) -> bool:
        """The controller of Deployments looks. True if it had something to do."""
        new = new_replica_set(self.deployment, self.sets)
        old_pods = sum(
            len(self.pods[each["metadata"]["name"]]) + self.leaving.get(each["metadata"]["name"], 0)
            for each in self.sets
            if each is not new
        )
        plan = plan_rollout(self.deployment, self.sets, old_pods)
        if plan.create:
            size = initial_replicas(self.deployment, self.sets)
            made = replica_set("new", size, self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])
            made["status"] = {"replicas": 0}
            self.sets.append(made)
            self.pods["new"] = []
        for each in self.sets:
            name = each["metadata"]["name"]
            each["spec"]["replicas"] = plan.scale.get(name, each["spec"]["replicas"])
        return bool(plan.create or plan.scale)

    def sync(self, number: int) -> bool:
        """The controller of ReplicaSets looks at one of them: first those that do nothing go."""
        each = self.sets[number % len(self.sets)] if self.sets else None
        if each is None:
            return False
        name, wanted = each["metadata"]["name"], each["spec"]["replicas"]
        pods = sorted(self.pods[name], reverse=True)
        self.leaving[name] = self.leaving.get(name, 0) + max(0, len(pods) - wanted)
        self.pods[name] = pods[:wanted] + [False] * (wanted - len(pods))
        before = each["status"]
        each["status"] = {"replicas": wanted, "availableReplicas": sum(self.pods[name])}
        return bool(each["status"] != before)

    def run(self, number: int) -> bool:
        """A pod becomes available, or one that was told to go is gone."""
        names = sorted(self.pods)
        if not names:
            return False
        name = names[number % len(names)]
        if self.leaving.get(name):
            self.leaving[name] -= 1
            return True
        if False in self.pods[name]:
            self.pods[name][self.pods[name].index(False)] = True
            return True
        return False

    def settle(self) -> int:
        """Everybody works until nobody has anything to do. How many rounds that took."""
        for rounds in range(2000):
            moved = self.look()
            for number in range(len(self.sets)):
                moved |= self.sync(number)
            for number in range(len(self.pods)):
                moved |= self.run(number)
            if not moved:
                return rounds
        raise AssertionError("the rollout never ends")


amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map("{}%".format))
steps = st.lists(st.tuples(st.sampled_from(["look", "sync", "run"]), st.integers(0, 5)), max_size=60)


@st.composite
def ways(draw: st.DrawFn, strategy: dict[str, Any] | None = None) -> Model:
    """A Deployment whose template has changed, with the sets of earlier ones, not all of them well."""
    wanted = draw(st.integers(0, 12))
    how = strategy or rolling(draw(amounts), draw(amounts))
    one = deployment(replicas=wanted, image="web:0", strategy=how)
    sets, left = [], wanted + surge_and_unavailable(one)[0]
    for age in range(draw(st.integers(0, 4)), 0, -1):
        size = draw(st.integers(0, left))
        left -= size
        sets.append(replica_set(f"old-{age}", size, f"web:{age}", available=draw(st.integers(0, size)), age=age))
    return Model(one, sets)


def play(model: Model, way: list[tuple[str, int]]) -> None:
    for step, number in way:
        if step == "look":
            model.look()
        elif step == "sync":
            model.sync(number)
        else:
            model.run(number)


@given(ways(), steps)
def test_a_rollout_ends_with_the_new_set_alone(model: Model, way: list[tuple[str, int]]) -> None:
    play(model, way)
    model.settle()
    wanted = model.deployment["spec"]["replicas"]
    sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in model.sets}
    assert sizes.pop("new") == wanted
    assert not any(sizes.values())
    assert model.available == wanted


@given(ways(), steps)
def test_a_rollout_keeps_within_its_bounds_at_every_step(model: Model, way: list[tuple[str, int]]) -> None:
    wanted = model.deployment["spec"]["replicas"]
    surge, missing = surge_and_unavailable(model.deployment)
    for step in way:
        before = model.reported
        play(model, [step])
        assert model.told <= wanted + surge
        assert model.available >= model.reported >= min(before, wanted - missing)


@given(ways(RECREATE), steps)
def test_recreate_never_has_pods_of_two_templates(model: Model, way: list[tuple[str, int]]) -> None:
    for step in [*way, *[(what, number) for number in range(12) for what in ("look", "sync", "run")] * 3]:
        play(model, [step])
        old = sum(len(pods) + model.leaving.get(name, 0) for name, pods in model.pods.items() if name != "new")
        assert not (old and model.pods.get("new"))
    model.settle()
    assert len(model.pods["new"]) == model.deployment["spec"]["replicas"]


@given(ways(), steps)
def test_a_paused_deployment_makes_no_new_set(model: Model, way: list[tuple[str, int]]) -> None:
    model.deployment["spec"]["paused"] = True
    play(model, way)
    model.settle()
    assert "new" not in model.pods


@given(ways(), steps, st.integers(0, 12), st.sampled_from(["web:0", "web:1", "web:9"]), steps)
def test_rollout_interrupted_by_another_template_completes(
    model: Model, way: list[tuple[str, int]], wanted: int, image: str, more: list[tuple[str, int]]
) -> None:
    """Another number and another template (perhaps an old one) while the first change is under way."""
    play(model, way)
    model.deployment = deployment(replicas=wanted, image=image, strategy=model.deployment["spec"]["strategy"])
    if any(each["metadata"]["name"] == "new" for each in model.sets):  # the next one needs another name
        for each in model.sets:
            if each["metadata"]["name"] == "new":
                each["metadata"]["name"] = "former"
        model.pods["former"], model.leaving["former"] = model.pods.pop("new"), model.leaving.pop("new", 0)
    play(model, more)
    model.settle()
    chosen = new_replica_set(model.deployment, model.sets)
    assert chosen is not None
    assert {each["metadata"]["name"]: each["spec"]["replicas"] for each in model.sets if each["spec"]["replicas"]} == (
        {chosen["metadata"]["name"]: wanted} if wanted else {}
    )
