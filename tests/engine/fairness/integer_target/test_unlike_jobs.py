"""Jobs of unlike tasks, found by request, are those that a look at every job finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.integer_target.deficits import Deficits
from pumice.engine.fairness.integer_target.task_line import line_of
from pumice.engine.fairness.integer_target.unlike_jobs import UnlikeJobs, may_pass_over
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from tests.support.groves import ITEMS, Grove, all_parts, below, groves


@given(groves(), st.data())
def test_the_jobs_below_a_node_that_ask_for_what_fits(grove: Grove, data: st.DataObject) -> None:
    unlike, kept = UnlikeJobs(), {}
    for _ in range(data.draw(st.integers(1, 8))):
        job = data.draw(st.sampled_from(grove.jobs))
        if data.draw(st.booleans()):
            grove.ask_for(job, data.draw(all_parts()))
            job.line = line_of(job)
            unlike.add(job, job.line)
            kept[job] = {run.items for run in job.line}
        else:
            unlike.discard(job)
            kept.pop(job, None)
        deficits = Deficits(grove.capacity)
        for node in grove.groups:
            node.entitle([data.draw(st.integers(0, 4)) * amount * EXACT for amount in (60, 60, 1, 90)])
            slow = [
                leaf
                for leaf in below(node)
                if may_pass_over(leaf) and any(deficits.holds(node, items) for items in kept.get(leaf, ()))
            ]
            assert set(unlike.below(node, deficits)) == set(slow)
            assert unlike.are_below(node) == any(leaf in kept for leaf in below(node))


@given(groves(), st.data())
def test_no_other_job_is_owed_anything(grove: Grove, data: st.DataObject) -> None:
    order = TargetOrder(grove.tree, grove.capacity)
    for stamp in range(data.draw(st.integers(1, 8))):
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["start", "end", "round", "pass on"])):
            case "start":
                grove.start(order, job, data.draw(st.sampled_from(ITEMS)), stamp)
            case "end" if grove.running:
                grove.end(order, data.draw(st.integers(0, len(grove.running) - 1)))
            case "round":
                order.refresh_targets(demand_changed=True)
            case "pass on":
                items = data.draw(st.sampled_from(ITEMS))
                if all(job.integer_target[j] >= amount for j, amount in items):
                    order.transfer_entitlement(job, data.draw(st.sampled_from(grove.jobs)), items)
        may_be_owed = order.may_be_owed()
        assert may_be_owed is not None
        for leaf in grove.jobs:
            assert leaf in may_be_owed or not any(order.is_owed(leaf, items) for items in ITEMS)
