"""Tasks that end at random."""

import pytest

from tests.sim.samples import counts, job, node, opened, queue, queue_at, ran, scenario

# Complementary demands: cpus are wanted in both branches, gpus in one (examples/rescaling.yaml).
# 10 cpu are halved between n1 and n2; n22 alone wants the 10 gpu.
COMPLEMENTARY = (
    node(cpu=10, gpu=10),
    queue_at("n1", "root/n1", "1/1"),
    queue_at("n21", "root/n2/n21", "1/1/1"),
    queue_at("n22", "root/n2/n22", "1/1/1"),
    job("n11", "n1", 15, cpu=1),
    job("n21", "n21", 15, cpu=1),
    job("n22", "n22", 15, **{"nvidia.com/gpu": 1}),
)


CONFIG = """\
actions: enqueue, allocate
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
    arguments: {drf.rule: %s}
"""


@pytest.mark.parametrize("rule", ["steer", "paper"])
def test_queues_keep_their_share_under_churn(rule):
    simulation = ran(scenario(config=CONFIG % rule, churn={"seed": 3, "completions": 300}), *COMPLEMENTARY)
    found = counts(simulation)
    assert found["default/n11"][0] == pytest.approx(5, abs=0.3)
    assert found["default/n21"][0] == pytest.approx(5, abs=0.3)
    assert found["default/n22"][0] == pytest.approx(10, abs=0.3)


def test_the_same_seed_gives_the_same_run_and_another_another():
    def decisions(seed):
        return ran(scenario(churn={"seed": seed, "completions": 40}), *COMPLEMENTARY).decisions

    assert decisions(1) == decisions(1)
    assert decisions(1) != decisions(2)


def test_churn_ends_one_task_per_cycle_and_keeps_demand():
    simulation = ran(scenario(churn={"seed": 1, "completions": 25}), *COMPLEMENTARY)
    # The fill is one cycle, and one in which nothing changes.
    assert simulation.cluster.cycles == 2 + 25
    placed = [cycle for cycle, decision in simulation.decisions if hasattr(decision, "node")]
    assert placed.count(1) == 20
    assert placed[20:] == list(range(3, 28))
    assert all(sum(both) == 15 for both in counts(simulation).values())


def test_figures_are_means_over_the_last_half():
    # q has the pool for itself until cycle 6; then r comes, with the same weight. 4 cpu: 4 and 0, then 2 and 2.
    # Completions happen in cycles 3 to 12: the last five are in cycles 8 to 12, when all is settled.
    simulation = ran(
        scenario(churn={"seed": 5, "completions": 10}, events=[{"cycle": 4, "apply": job("k", "r", 9, cpu=1)}]),
        node(cpu=4),
        queue("q"),
        queue("r"),
        job("j", "q", 9, cpu=1),
    )
    assert not simulation.errors
    seen = []
    again = opened(
        scenario(churn={"seed": 5, "completions": 10}, events=[{"cycle": 4, "apply": job("k", "r", 9, cpu=1)}]),
        node(cpu=4),
        queue("q"),
        queue("r"),
        job("j", "q", 9, cpu=1),
    )
    again.run(lambda now: seen.append(now.cluster.engine.tree.jobs["default/j"].job.running))
    assert len(seen) == 12
    assert seen[0] == 4
    mean = sum(seen[-5:]) / 5
    assert counts(simulation)["default/j"] == (mean, 9 - mean)
    leaf = simulation.cluster.engine.tree.jobs["default/j"]
    assert simulation.usage_of(leaf)[0] == 1000 * mean


def test_an_idle_cluster_churns_without_anybody():
    simulation = ran(scenario(churn={"seed": 1, "completions": 3}), node(cpu=1), queue("q"))
    assert simulation.cluster.cycles == 4
    assert counts(simulation) == {}
