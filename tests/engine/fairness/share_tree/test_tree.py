"""The share tree: what is kept by the difference equals what a rebuild finds, bit for bit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.orders.serving_order import FlatDrfOrder
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode, latest_owed_start, latest_start
from tests.support.groves import GPU, ITEMS, WIDTH, Grove, asks, below, groves


def assert_sums_hold(grove: Grove) -> None:
    """Every account against the tasks below it."""
    for node in grove.tree.root.walk():
        jobs = below(node)
        mine = [(items, stamp, owed) for leaf, items, stamp, owed in grove.running if leaf in jobs]
        held = [0] * WIDTH
        for items, _, _ in mine:
            for j, amount in items:
                held[j] += amount
        assert node.held == held
        assert latest_start(node) == max((stamp for _, stamp, _ in mine), default=0)
        assert latest_owed_start(node) == max((stamp for _, stamp, owed in mine if owed), default=0)


@given(groves(), st.data())
def test_accounts_follow_random_starts_and_ends(grove: Grove, data: st.DataObject) -> None:
    assert_sums_hold(grove)
    for stamp in range(20):
        if grove.running and data.draw(st.booleans()):
            grove.end(grove.tree, data.draw(st.integers(0, len(grove.running) - 1)))
        else:
            leaf = data.draw(st.sampled_from(grove.jobs))
            grove.start(grove.tree, leaf, data.draw(asks), data.draw(st.integers(0, stamp)), data.draw(st.booleans()))
        # Sometimes nobody asks in between: values that are out of date pile up.
        if data.draw(st.booleans()):
            assert_sums_hold(grove)
    assert_sums_hold(grove)
    while grove.running:
        grove.end(grove.tree, 0)
    assert_sums_hold(grove)


@given(groves(), st.sampled_from([FlatDrfOrder, TargetOrder]), st.data())
def test_candidates_are_counted_on_every_level(grove: Grove, kind: type, data: st.DataObject) -> None:
    order = kind(grove.tree, grove.capacity)
    for stamp in range(25):
        leaf = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["offer", "offer", "start", "end", "targets"])):
            case "offer":
                order.set_candidate(leaf, data.draw(st.none() | asks), data.draw(st.booleans()))
            case "start":
                grove.start(order, leaf, data.draw(asks), stamp)
            case "end" if grove.running:
                grove.end(order, data.draw(st.integers(0, len(grove.running) - 1)))
            case "targets":
                order.refresh_targets(demand_changed=data.draw(st.booleans()))
        for node in grove.tree.root.walk():
            able = [job for job in below(node) if job.able and job.ask is not None]
            assert list(node.able_asks) == _counted(_asked(able))
            assert isinstance(node, JobNode) or node.able_count == _asking(node, "able_asks")
            if kind is TargetOrder:
                owed = [job for job in able if order.is_owed(job, job.ask)]
                assert list(node.owed_asks) == _counted(_asked(owed))
                assert isinstance(node, JobNode) or node.owed_count == _asking(node, "owed_asks")


@given(groves(), st.data())
def test_jobs_that_wait_with_one_unit_are_counted_together(grove: Grove, data: st.DataObject) -> None:
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    units = [ITEMS[0], ITEMS[1]]
    for _ in range(data.draw(st.integers(1, 6))):
        unit, able = data.draw(st.sampled_from(units)), data.draw(st.booleans())
        order.set_candidates(data.draw(st.lists(st.sampled_from(grove.jobs), unique=True)), unit, able)
        leaf = data.draw(st.sampled_from(grove.jobs))
        order.set_candidate(leaf, data.draw(st.none() | st.sampled_from(units)), data.draw(st.booleans()))
        for node in grove.tree.root.walk():
            waiting = [job for job in below(node) if job.able and job.ask is not None]
            owed = [job for job in waiting if order.is_owed(job, job.ask)]
            counts = _asked(waiting), _asked(owed)
            asking = _asking(node, "able_asks"), _asking(node, "owed_asks")
            assert isinstance(node, JobNode) or (node.able_count, node.owed_count) == asking
            assert (list(node.able_asks), list(node.owed_asks)) == tuple(map(_counted, counts))
        named = [job for job in grove.jobs if job.owed_asks] or [job for job in grove.jobs if job.able_asks]
        served = order.next_job()
        assert (served in named) if named else served is None


def _asking(node: ShareNode, which: str) -> list[int]:
    return [sum(1 for child in node.children.values() if j in getattr(child, which)) for j in range(WIDTH)]


def _asked(jobs: list[object]) -> list[int]:
    return [sum(1 for job in jobs if any(j == k for k, _ in job.ask)) for j in range(WIDTH)]


def _counted(counts: list[int]) -> list[int]:
    return [j for j, count in enumerate(counts) if count]


@given(groves())
def test_a_resource_named_late_is_a_zero_everywhere(grove: Grove) -> None:
    held = {node: list(node.held) for node in grove.tree.root.walk()}
    grove.tree.widen(WIDTH + 2)
    for node, before in held.items():
        assert node.held == [*before, 0, 0]
    grove.tree.charge(grove.jobs[0], ((WIDTH + 1, 7),), 99)
    assert grove.tree.root.held[WIDTH + 1] == 7 == grove.jobs[0].held[WIDTH + 1]


def test_only_what_is_empty_goes() -> None:
    grove = Grove([10, 10, 10, 10])
    team = grove.group()
    job = grove.job(team)
    grove.tree.remove(job)
    grove.tree.remove(team)
    assert list(grove.tree.root.walk()) == [grove.tree.root] and not grove.tree.jobs
    # The same name again is a new node.
    assert grove.tree.child(grove.tree.root, NodeKind.QUEUE, team.name) is not team


def test_paths_read_as_people_write_them() -> None:
    grove = Grove([1, 1, 1, 1])
    inner = grove.group(grove.group())
    assert inner.path == "root/g1/g2" and grove.job(inner, name="ns/train").path == "root/g1/g2/ns/train"


def test_walk_meets_parents_first() -> None:
    grove = Grove([1, 1, 1, 1])
    for _ in range(3):
        grove.group(grove.groups[-1])
        grove.group(grove.groups[-2])
    seen: set[ShareNode] = set()
    for node in grove.tree.root.walk():
        assert node.parent is None or node.parent in seen
        seen.add(node)
    assert len(seen) == 7


# --- demand --------------------------------------------------------------------------------------------------


def test_tasks_that_are_alike_are_one_piece() -> None:
    demand = Demand(((((CPU, 2), (GPU, 1)), 5),), (), ())
    assert demand.alike and demand.pieces == ((((CPU, 2), (GPU, 1)), 5),)
    assert demand.total == ((CPU, 10), (GPU, 5))


def test_unlike_tasks_are_pieces_in_order() -> None:
    parts = ((((CPU, 1),), 3), (((CPU, 2), (MEMORY, 2)), 2))
    demand = Demand(parts, (), ())
    assert not demand.alike and demand.pieces == parts and demand.total == ((CPU, 7), (MEMORY, 4))


def test_demand_floor_beyond_tasks_is_last_piece() -> None:
    part = (((CPU, 2),), 3)
    assert Demand((part,), ((CPU, 6),), ()).alike
    higher = Demand((part,), ((CPU, 7),), ())
    assert not higher.alike and higher.pieces == (part, (((CPU, 1),), 1)) and higher.total == ((CPU, 7),)
    other = Demand((part,), ((MEMORY, 1),), ())
    assert other.reserve == ((MEMORY, 1),) and other.total == ((CPU, 6), (MEMORY, 1))
    assert Demand((), ((CPU, 4),), ()).pieces == ((((CPU, 4),), 1),)  # pods that do not exist yet
    assert Demand((), (), ()).pieces == ()
