"""A cluster at a glance."""

from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.sim.run_overview import overview_of_run, overview_of_targets
from pumice.sim.run_report import entitle_report
from tests.sim.samples import job, node, opened, queue, queue_at, ran, scenario

# 8 cpu, weights 3 and 1: 6 and 2.
DOCUMENTS = (
    node("n1", cpu=8),
    queue_at("production", "root/eng/prod", "1/1/3"),
    queue_at("dev", "root/eng/dev", "1/1/1"),
    job("a", "production", 8, cpu=1),
    job("b", "dev", 8, cpu=1),
)


def test_a_run_line_by_line():
    simulation = ran(*DOCUMENTS)
    overview = overview_of_run(simulation)
    assert [(line.name, line.depth) for line in overview.nodes if line.kind is NodeKind.QUEUE] == [
        ("root", 0),
        ("eng", 1),
        ("prod (production)", 2),
        ("dev", 2),
    ]
    eng, prod = overview.nodes[1], overview.nodes[2]
    assert (eng.running, eng.pending, eng.used, eng.state) == (8, 8, 1.0, "")
    assert (prod.weight, prod.used, prod.entitled, prod.allocated, prod.state) == (3, 0.75, 0.75, "cpu 6", "Open")
    first = overview.jobs[0]
    assert (first.key, first.queue, first.running, first.pending, first.target) == ("default/a", "production", 6, 2, 6)
    assert first.reason == simulation.cluster.engine.context.decided.conditions["default/a"] != ""


def test_targets_without_a_run():
    engine = opened(*DOCUMENTS).cluster.engine
    entitle_report(engine)
    overview = overview_of_targets(engine)
    assert [job.target for job in overview.jobs] == [6.0, 2.0]
    assert overview.nodes[2].entitled_amounts == "cpu 6"


def test_siblings_stand_in_the_order_of_the_file():
    overview = overview_of_run(ran(node(cpu=1), queue("z"), queue("a"), queue("m")))
    assert [line.name for line in overview.nodes] == ["root", "z", "a", "m"]


def test_a_mean_has_three_figures():
    simulation = ran(
        scenario(churn={"seed": 2, "completions": 3}),
        node(cpu=1, memory="1234567890"),
        queue("q"),
        job("j", "q", 3, cpu=1, memory="1234567890"),
    )
    assert overview_of_run(simulation).jobs[0].allocated == "cpu 1, memory 1230M"
