"""Equal jobs are grouped as a grouping from scratch would, whatever happened before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from tests.support.groves import Grove, all_parts, asks, groves


def assert_grouped(grove: Grove) -> None:
    expected: dict[tuple[ShareNode, object], list[JobNode]] = {}
    for job in grove.jobs:
        expected.setdefault((job.parent, (job.rank_class, job.demand, job.user)), []).append(job)
    found = {
        (node, equality): equals for node in grove.tree.root.walk() for equality, equals in node.equal_jobs.items()
    }
    assert found.keys() == expected.keys()
    for key, members in expected.items():
        equals = found[key]
        assert list(equals.members) and set(equals.members.values()) == set(members)
        assert equals.first() == min(job.serial for job in members)
        assert not equals.joined
        for job in members:
            assert job.equals is equals and job.demand is equals.demand
            assert job.exact is equals.exact and job.entitled is equals.entitled and job.due is equals.due
    for node in grove.tree.root.walk_inner():
        total = [sum(column) for column in zip(*(child.exact for child in node.children.values()), strict=True)]
        assert node.exact == (total or [0] * grove.tree.width)
        assert list(node.branches.values()) == [c for c in node.children.values() if not isinstance(c, JobNode)]
    inner = [node for node in grove.tree.root.walk() if not isinstance(node, JobNode)]
    assert list(grove.tree.root.walk_inner()) == inner


@given(groves(holdings=False), st.data())
def test_jobs_join_and_leave_their_equals(grove: Grove, data: st.DataObject) -> None:
    set_targets(grove.tree, grove.capacity)
    assert_grouped(grove)
    for _ in range(data.draw(st.integers(1, 6))):
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["demand", "twin", "user", "class", "leave", "come", "branch", "widen"])):
            case "demand":
                grove.ask_for(job, data.draw(all_parts()))
            case "twin":
                other = data.draw(st.sampled_from(grove.jobs))
                grove.ask_for(job, other.demand.parts, gang=other.gang)
            case "user":
                job.user = data.draw(st.sampled_from(["", "ann"]))
                grove.tree.regroup[job] = None
            case "class":
                job.rank_class = (data.draw(st.integers(0, 1)),)
                for other in grove.jobs:
                    other.rank_class = other.rank_class or (0,)
                    grove.tree.regroup[other] = None
            case "leave" if len(grove.jobs) > 1:
                parent = job.parent
                grove.tree.remove(job)
                grove.jobs.remove(job)
                if parent is not None and parent.kind is NodeKind.NAMESPACE and not parent.children:
                    grove.tree.remove(parent)
            case "branch":
                queue = data.draw(st.sampled_from([node for node in grove.groups if node.kind is NodeKind.QUEUE]))
                namespace = grove.group(queue, weight=2.0, kind=NodeKind.NAMESPACE)
                grove.job(namespace, [(data.draw(asks), 3)], rank_class=job.rank_class)
            case "come":
                grove.job(job.parent, [(data.draw(asks), 3)], rank_class=job.rank_class)
            case "widen":
                grove.tree.widen(grove.tree.width + 1)
                grove.capacity.append(0)
        set_targets(grove.tree, grove.capacity)
        assert_grouped(grove)
    found = {node: (list(node.exact), list(node.due)) for node in grove.tree.root.walk()}
    grove.tree.reshaped = True  # nothing is taken over from the solves before
    set_targets(grove.tree, grove.capacity)
    assert found == {node: (list(node.exact), list(node.due)) for node in grove.tree.root.walk()}


def test_a_job_keeps_its_entitlement_until_targets_are_solved() -> None:
    grove = Grove([1000, 0, 0, 0])
    group = grove.group()
    first, second = (grove.job(group, [(((0, 100),), 6)]) for _ in range(2))
    set_targets(grove.tree, grove.capacity)
    assert first.equals is second.equals and first.entitled == [500, 0, 0, 0]
    grove.ask_for(second, [(((0, 100),), 1)])
    assert second.entitled == [500, 0, 0, 0]
    set_targets(grove.tree, grove.capacity)
    assert (first.entitled[0], second.entitled[0]) == (600, 100)
    assert first.equals is not second.equals


def test_a_long_life_leaves_no_trace_in_a_group() -> None:
    grove = Grove([1000, 0, 0, 0])
    group = grove.group()
    stays, moves = (grove.job(group, [(((0, 100),), 6)]) for _ in range(2))
    for count in [1, 6] * 100:
        grove.ask_for(moves, [(((0, 100),), count)])
        set_targets(grove.tree, grove.capacity)
    assert stays.equals is not None
    assert len(stays.equals._arrivals) <= 2 * 2 + 64 + 1
