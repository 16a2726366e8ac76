"""The plain values that ``-o json`` prints."""

import pytest

from pumice.sim.run_report import entitle_report, run_report
from tests.sim.samples import group, job, node, opened, pod, queue, queue_at, ran, scenario

# 10 cpu and 10G; sci and eng weigh the same. sci asks for 10 tasks of 1 cpu and 1G, eng for 2: 2 for eng, and
# the other 8 for sci.
TREE = (
    node("n", cpu=10, memory="10G"),
    queue_at("root-sci", "root/sci", "1/50"),
    queue_at("eng-prod", "root/eng/prod", "1/50/2"),
    job("pg1", "root-sci", 10, cpu=1, memory="1G"),
    job("pg2", "eng-prod", 2, ns="ns", cpu=1, memory="1G"),
)


def test_run_report_contains_all_results():
    report = run_report(ran(scenario(cycles=1), *TREE))
    assert (report["scenario"], report["cycles"], report["seconds"]) == ("try", 1, 1)
    sci = {
        "weight": 50,
        "allocated": {"cpu": "8", "memory": "8G"},
        "share": 0.8,
        "entitled": {"cpu": "8", "memory": "8G"},
    }
    assert report["tree"]["root/sci"] == {"kind": "queue", "object": "root-sci", **sci}
    assert report["tree"]["root/sci/default"] == {"kind": "namespace", **sci, "weight": 1}
    assert "object" not in report["tree"]["root"] and "object" not in report["tree"]["root/eng"]
    assert report["queues"].keys() == {"root-sci", "eng-prod"}
    assert report["queues"]["root-sci"] == {
        **sci,
        "path": "root/sci",
        "state": "Open",
        "effectiveState": "Open",
        "deserved": {},
        "guarantee": {},
        "capability": {},
        "realCapability": {"cpu": "10", "memory": "10G", "pods": "1G"},  # the cluster, as nobody limits it further
        "conditions": [],
        "jobs": {"pending": 0, "inqueue": 0, "running": 1},
    }
    assert report["jobs"]["default/pg1"] == {
        "queue": "root-sci",
        "user": "default",
        "phase": "Running",
        "running": 8,
        "pending": 2,
        "wholeTarget": 8,
        "allocated": {"cpu": "8", "memory": "8G"},
        "share": 0.8,
    }
    binds = [one for one in report["decisions"] if one["type"] == "bind"]
    assert len(binds) == 10
    assert {"cycle": 1, "type": "bind", "pod": "ns/pg2-t-0", "node": "n"} in binds
    assert {"cycle": 1, "type": "enqueue", "job": "default/pg1"} in report["decisions"]
    assert report["errors"] == []


def test_a_decision_carries_its_path_when_it_is_traced():
    simulation = opened(*TREE)
    simulation.cluster.engine.context.tracing = True
    simulation.run()
    first = next(one for one in run_report(simulation)["decisions"] if one["type"] == "bind")
    # Nobody has anything yet: both branches miss all of their part, and the older one goes first.
    assert first["path"][0] == {"node": "root/sci", "key": 1.0, "runnerUp": "root/eng", "runnerUpKey": 1.0}
    assert [level["node"] for level in first["path"]][1:] == ["root/sci/default", "root/sci/default/default/pg1"]


def test_a_job_that_waits_has_a_condition():
    report = run_report(ran(node(cpu=1), queue("q"), job("j", "q", 4, least=2, cpu=1)))
    (condition,) = [one for one in report["decisions"] if one["type"] == "condition"]
    assert condition["job"] == "default/j"
    assert condition["condition"] == "Unschedulable"
    assert condition["cycle"] == 1
    assert report["queues"]["q"]["jobs"] == {"pending": 0, "inqueue": 1, "running": 0}


def test_a_queue_counts_the_jobs_of_the_queues_below_it():
    report = run_report(
        ran(
            node(cpu=2),
            queue("a"),
            queue("b", parent="a"),
            queue("c", parent="a"),
            job("j", "b", 1, cpu=1),
            job("k", "c", 1, cpu=1),
            job("l", "c", 3, least=3, cpu=1),
        )
    )
    assert report["queues"]["a"]["jobs"] == {"pending": 0, "inqueue": 1, "running": 2}
    assert report["queues"]["a"]["allocated"] == {"cpu": "2"}
    assert report["tree"]["root"]["share"] == 1.0


def test_queue_configuration_is_shown():
    limits = {"deserved": {"cpu": 2}, "capability": {"cpu": "4500m"}, "guarantee": {"resource": {"memory": "1Gi"}}}
    shown = run_report(ran(node(cpu=8, memory="8Gi"), queue("q", **limits)))["queues"]["q"]
    assert (shown["deserved"], shown["capability"], shown["guarantee"]) == (
        {"cpu": "2"},
        {"cpu": "4500m"},
        {"memory": "1Gi"},
    )


def test_weights_that_disagree_are_a_condition_of_the_queue():
    report = run_report(ran(node(cpu=1), queue_at("a", "root/x/a", "1/2/1"), queue_at("b", "root/x/b", "1/3/1")))
    ((condition,),) = (q["conditions"] for q in report["queues"].values() if q["conditions"])
    assert "root/x" in condition["message"]
    assert report["tree"]["root/x"]["weight"] == 3


def test_weights_below_one_are_numbers_and_the_user_is_the_annotation():
    document = group("g", queue="a")
    document["metadata"]["annotations"] = {"volcano.sh/user": "ada"}
    report = run_report(ran(node(cpu=1), queue_at("a", "root/a", "1/0.5"), document, pod("p", "g", cpu=1)))
    assert report["tree"]["root/a"]["weight"] == 0.5
    assert report["jobs"]["default/g"]["user"] == "ada"


def test_the_whole_target_of_unlike_tasks_is_counted_in_task_order():
    documents = (queue("q"), group("g", queue="q"), pod("a", "g", cpu=1), pod("b", "g", cpu=2))
    assert run_report(ran(node(cpu=2), *documents))["jobs"]["default/g"]["wholeTarget"] == 1


def test_a_job_that_can_never_run_has_a_target_of_nothing():
    assert run_report(ran(node(cpu=1), queue("q"), job("j", "q", 1, cpu=2)))["jobs"]["default/j"]["wholeTarget"] == 0


def test_objects_that_were_refused_are_reported():
    simulation = ran(scenario(events=[{"cycle": 2, "apply": queue("x", parent="nope")}]), node(cpu=1))
    (error,) = run_report(simulation)["errors"]
    assert error["object"] == "Queue/x"
    assert error["message"].startswith("spec.parent: Not found: 'nope'")


def test_under_churn_figures_are_numbers():
    report = run_report(ran(scenario(churn={"seed": 1, "completions": 4}), *TREE))
    found = report["jobs"]["default/pg1"]
    assert (found["running"], found["pending"]) == (8.0, 2.0)
    assert found["allocated"] == {"cpu": 8.0, "memory": 8e9}
    assert isinstance(found["running"], float) and isinstance(found["allocated"]["cpu"], float)
    assert report["tree"]["root/sci"]["entitled"] == {"cpu": "8", "memory": "8G"}


def test_seconds_follow_the_length_of_a_cycle():
    assert run_report(ran(scenario(cycles=3, cycleSeconds=0.5), node(cpu=1)))["seconds"] == 1.5
    assert run_report(ran(scenario(cycles=2, cycleSeconds=30), node(cpu=1)))["seconds"] == 60


class TestEntitle:
    def test_targets_are_divisible(self):
        # 10 cpu over three queues of weight 1, all of which want 10: 10/3 tasks each.
        documents = [queue(name) for name in "abc"] + [job(name, name, 10, cpu=1) for name in "abc"]
        report = entitle_report(opened(node(cpu=10), *documents).cluster.engine)
        assert report["jobs"]["default/a"] == {
            "tasks": pytest.approx(10 / 3, abs=1e-6),
            "entitled": {"cpu": "3333m"},
            "share": pytest.approx(1 / 3, abs=1e-9),
        }
        assert report["queues"]["a"] == {"entitled": {"cpu": "3333m"}, "share": pytest.approx(1 / 3, abs=1e-9)}

    def test_nodes_without_an_object_go_by_their_path(self):
        report = entitle_report(opened(*TREE).cluster.engine)
        assert report["queues"].keys() == {"root-sci", "root/eng", "eng-prod"}
        assert report["queues"]["root/eng"] == {"entitled": {"cpu": "2", "memory": "2G"}, "share": 0.2}

    def test_entitle_report_schedules_nothing(self):
        simulation = opened(*TREE)
        entitle_report(simulation.cluster.engine)
        assert simulation.cluster.running_tasks() == []

    def test_unlike_tasks_are_entitled_in_task_order(self):
        # Three tasks that ask for 1, 1 and 2 cpu, where there are 3: the first two, and half of the third.
        documents = (
            queue("q"),
            group("g", queue="q"),
            pod("a", "g", cpu=1),
            pod("b", "g", cpu=1),
            pod("c", "g", cpu=2),
        )
        report = entitle_report(opened(node(cpu=3), *documents).cluster.engine)
        assert report["jobs"]["default/g"] == {"tasks": 2.5, "entitled": {"cpu": "3"}, "share": 1.0}

    def test_a_group_whose_pods_are_not_there_gets_a_part_of_its_minimum(self):
        # Two with minResources of 8 cpu for 4 tasks each, where there are 12: three quarters of it each.
        groups = [group(name, queue="q", minMember=4, minResources={"cpu": 8}) for name in ("g", "h")]
        report = entitle_report(opened(node(cpu=12), queue("q"), *groups).cluster.engine)
        assert report["jobs"]["default/g"]["tasks"] == report["jobs"]["default/h"]["tasks"] == 3.0

    def test_a_group_whose_minimum_the_cluster_does_not_have_gets_nothing(self):
        documents = (queue("q"), group("g", queue="q", minMember=4, minResources={"cpu": 8}))
        report = entitle_report(opened(node(cpu=6), *documents).cluster.engine)
        assert report["jobs"]["default/g"]["tasks"] == 0
