"""What happens to a cluster while it runs."""

import pytest

from pumice.model.specs import QueueState
from tests.sim.samples import counts, group, job, node, pod, queue, ran, scenario


def happening(*events, cycles=None):
    spec = {"events": [{"cycle": 2, **event} for event in events]}
    return scenario(**spec, **({"cycles": cycles} if cycles else {}))


def refusals(simulation):
    return [(error.object, error.field) for error in simulation.errors]


def running(simulation):
    return [task.key for task in simulation.cluster.running_tasks()]


class TestFinish:
    def test_the_tasks_that_have_run_longest_end_first(self):
        # a-t-0 and a-t-1 start in cycle 1, there is room for no more. b is finished before cycle 2, so a-t-2
        # starts then. Before cycle 3 two tasks of a finish: the two that have run since cycle 1.
        simulation = ran(
            scenario(
                cycles=3,
                events=[
                    {"cycle": 2, "finish": {"pods": ["default/b-t-0"]}},
                    {"cycle": 3, "finish": {"job": "default/a", "tasks": 2}},
                ],
            ),
            node(cpu=3),
            queue("q"),
            queue("r"),
            job("a", "q", 3, cpu=1),
            job("b", "r", 1, cpu=1),
        )
        assert not simulation.errors
        assert running(simulation) == ["default/a-t-2"]
        assert counts(simulation)["default/a"] == (1, 0)

    def test_ties_go_by_name(self):
        simulation = ran(
            happening({"finish": {"job": "default/a", "tasks": 2}}),
            node(cpu=3),
            queue("q"),
            job("a", "q", 3, cpu=1),
        )
        assert running(simulation) == ["default/a-t-2"]

    def test_finished_tasks_free_their_capacity(self):
        simulation = ran(
            happening({"finish": {"job": "default/a", "tasks": 1}}), node(cpu=2), queue("q"), job("a", "q", 5, cpu=1)
        )
        assert counts(simulation) == {"default/a": (2, 2)}

    @pytest.mark.parametrize(
        ("finish", "field"),
        [
            ({"job": "default/a", "tasks": 3}, "spec.events[0].finish.tasks"),
            ({"job": "default/b", "tasks": 1}, "spec.events[0].finish.tasks"),
            ({"pods": ["a-t-0", "a-t-9"]}, "spec.events[0].finish.pods"),
        ],
    )
    def test_finish_event_with_non_running_task_is_rejected_whole(self, finish, field):
        simulation = ran(happening({"finish": finish}), node(cpu=2), queue("q"), job("a", "q", 5, cpu=1))
        assert refusals(simulation) == [("Scenario/try", field)]
        assert counts(simulation) == {"default/a": (2, 3)}


class TestApply:
    def test_a_new_job_is_scheduled(self):
        simulation = ran(happening({"apply": job("a", "q", 2, cpu=1)}), node(cpu=4), queue("q"))
        assert counts(simulation) == {"default/a": (2, 0)}

    def test_a_job_with_fewer_replicas_loses_the_others_and_keeps_what_runs(self):
        simulation = ran(
            happening({"apply": job("a", "q", 1, cpu=1)}), node(cpu=2), queue("q"), job("a", "q", 4, cpu=1)
        )
        assert counts(simulation) == {"default/a": (1, 0)}
        assert running(simulation) == ["default/a-t-0"]

    def test_a_weight_moves_what_is_entitled(self):
        # 12 cpu, weights 1 : 1 -> 6 and 6; with weight 2 for a: 8 and 4.
        documents = (node(cpu=12), queue("a"), queue("b"), job("j", "a", 12, cpu=1), job("k", "b", 12, cpu=1))
        simulation = ran(happening({"apply": queue("a", weight=2)}), *documents)
        entitled = {leaf.name: leaf.entitled[0] for leaf in simulation.cluster.engine.tree.jobs.values()}
        assert entitled == {"default/j": 8000, "default/k": 4000}

    def test_a_queue_keeps_its_state_and_its_age(self):
        simulation = ran(
            happening({"command": {"queue": "a", "action": "PauseQueue"}}, {"apply": queue("a", weight=2)}),
            node(cpu=1),
            queue("a"),
        )
        found = simulation.cluster.objects.queues["a"]
        assert (found.state, found.created, found.weight) == (QueueState.PAUSED, 2_000_000, 2)

    def test_a_pod_that_runs_goes_on_running(self):
        changed = pod("p", "g", cpu=1)
        changed["metadata"]["labels"] = {"new": "label"}
        simulation = ran(
            happening({"apply": changed}), node(cpu=1), queue("q"), group("g", queue="q"), pod("p", "g", cpu=1)
        )
        assert running(simulation) == ["default/p"]
        assert simulation.cluster.objects.tasks["default/p"].labels == {"new": "label"}

    @pytest.mark.parametrize(
        ("document", "subject", "field"),
        [
            (queue("x", parent="nope"), "Queue/x", "spec.parent"),
            (queue("x", weight=0), "Queue/x", "spec.weight"),
            (queue("x", parent="q"), "Queue/x", "spec.parent"),
            (queue("q", parent="r"), "Queue/q", "spec.parent"),
            (queue("u", hierarchy=[{"name": "q"}]), "Queue/u", "spec.hierarchy"),
            (queue("u", hierarchy=[{"name": "t"}]), "Queue/u", "spec.hierarchy"),
            (queue("s", parent="t"), "Queue/s", "spec.parent"),
            (job("x", "nope", 1, cpu=1), "Job/default/x", "spec.queue"),
            (pod("x", "nope", cpu=1), "Pod/default/x", "metadata.annotations[scheduling.k8s.io/group-name]"),
            (node("m", cpu="4GB"), "Node/m", "status.allocatable.cpu"),
            ({"kind": "Nod"}, "Nod/?", "kind"),
        ],
    )
    def test_refused_event_is_reported_and_the_run_continues(self, document, subject, field):
        simulation = ran(
            happening({"apply": document}, {"apply": job("k", "r", 1, cpu=1)}),
            node(cpu=4),
            queue("q"),
            queue("r"),
            queue("s"),
            queue("t", parent="s"),
            job("j", "q", 2, cpu=1),
        )
        assert refusals(simulation) == [(subject, field)]
        assert counts(simulation) == {"default/j": (2, 0), "default/k": (1, 0)}

    def test_a_hierarchy_that_is_edited_adds_changes_and_withdraws_queues(self):
        before = queue("root", hierarchy=[{"name": "a"}, {"name": "b", "hierarchy": [{"name": "c"}, {"name": "d"}]}])
        weight = {"name": "weight", "value": 3}
        after = queue(
            "root",
            hierarchy=[
                {"name": "a", "parameters": [weight]},
                {"name": "b", "hierarchy": [{"name": "d"}]},
                {"name": "e"},
            ],
        )
        simulation = ran(
            scenario(
                cycles=4,
                events=[{"cycle": 2, "apply": after}, {"cycle": 4, "finish": {"job": "default/j", "tasks": 1}}],
            ),
            node(cpu=2),
            before,
            job("j", "c", 2, cpu=1),
        )
        assert not simulation.errors
        # c has a job: it is closed, not deleted, and starts nothing more.
        queues = simulation.cluster.objects.queues
        assert queues["a"].weight == 3
        assert queues["e"].parent == "root"
        assert queues["c"].state is QueueState.CLOSING
        simulation.cluster.finish_task(simulation.cluster.running_tasks()[0])
        simulation.cluster.cycle()
        assert simulation.cluster.objects.queues.keys() == {"root", "a", "b", "d", "e"}

    def test_children_that_are_all_taken_out_go(self):
        before = queue("root", hierarchy=[{"name": "a", "hierarchy": [{"name": "b"}]}])
        simulation = ran(happening({"apply": queue("root", hierarchy=[{"name": "a"}])}, cycles=3), node(cpu=1), before)
        assert simulation.cluster.objects.queues.keys() == {"root", "a"}

    def test_queue_withdrawn_from_hierarchy_can_be_deleted_with_children(self):
        before = queue("root", hierarchy=[{"name": "a", "hierarchy": [{"name": "b"}]}, {"name": "c"}])
        simulation = ran(
            scenario(
                cycles=4,
                events=[
                    {"cycle": 2, "apply": queue("root", hierarchy=[{"name": "c"}])},
                    {"cycle": 3, "delete": {"kind": "Queue", "name": "a"}},
                ],
            ),
            node(cpu=1),
            before,
            job("j", "b", 1, cpu=1),
        )
        assert not simulation.errors
        assert simulation.cluster.objects.queues.keys() == {"root", "c"}
        assert not simulation.cluster.objects.tasks

    def test_a_parameter_that_is_taken_out_goes_back_to_the_manifest_or_to_its_default(self):
        def named(*parameters):
            return queue("root", hierarchy=[{"name": "a", "parameters": parameters}, {"name": "b"}])

        weight, priority = {"name": "weight", "value": 7}, {"name": "priority", "value": 2}
        simulation = ran(
            scenario(events=[{"cycle": 2, "apply": named()}, {"cycle": 3, "apply": named(weight)}]),
            node(cpu=1),
            queue("a", priority=4),
            named(weight, priority),
        )
        # The manifest of a says priority 4 and nothing of its weight; in the end the hierarchy says 7 again.
        assert refusals(simulation) == []
        found = simulation.cluster.objects.queues["a"]
        assert (found.weight, found.priority) == (7, 4)

    def test_queues_below_one_that_is_named_no_more_go_with_the_entry(self):
        below = {"name": "hand", "parameters": [{"name": "weight", "value": 3}], "hierarchy": [{"name": "below"}]}
        simulation = ran(
            scenario(events=[{"cycle": 2, "apply": queue("root", hierarchy=[{"name": "other"}])}]),
            node(cpu=1),
            queue("hand", weight=2),
            queue("root", hierarchy=[below, {"name": "other"}]),
        )
        assert "below" not in simulation.cluster.objects.queues

    def test_a_queue_that_went_by_itself_can_not_be_deleted_again(self):
        simulation = ran(
            scenario(
                events=[
                    {"cycle": 2, "apply": queue("root", hierarchy=[])},
                    {"cycle": 3, "delete": {"kind": "Queue", "name": "a"}},
                ],
            ),
            node(cpu=1),
            queue("root", hierarchy=[{"name": "a"}]),
            queue("a"),
        )
        assert refusals(simulation) == [("Scenario/try", "spec.events[1].delete.name")]

    def test_pods_that_wait_for_their_group_do_not_stand_in_the_way_of_others(self):
        simulation = ran(
            scenario(
                events=[{"cycle": 2, "apply": group("other", queue="q")}, {"cycle": 3, "apply": group("g", queue="q")}]
            ),
            node(cpu=1),
            queue("q"),
            pod("p", "g", cpu=1),
        )
        assert not simulation.errors
        assert counts(simulation) == {"default/g": (1, 0), "default/other": (0, 0)}


class TestAdmission:
    def test_a_job_is_routed_by_what_the_queues_hold_at_that_time(self):
        # i runs 2 of the 4 cpu that are a's by weight, k 3 of the 4 of b: the first goes to a. Then k ends: b is idle.
        queues = (queue("p"), queue("a", parent="p"), queue("b", parent="p"))
        documents = (node(cpu=8), *queues, job("i", "a", 2, cpu=1), job("k", "b", 3, cpu=1))
        first = {"cycle": 2, "apply": job("first", "p", 3, cpu=1)}
        done = {"cycle": 3, "finish": {"job": "default/k", "tasks": 3}}
        second = {"cycle": 4, "apply": job("second", "p", 1, cpu=1)}
        simulation = ran(scenario(events=[first, done, second]), *documents)
        assert not simulation.errors
        jobs = simulation.cluster.objects.jobs
        assert (jobs["default/first"].queue, jobs["default/second"].queue) == ("a", "b")

    def test_a_queue_takes_jobs_as_long_as_it_is_open(self):
        def submit(cycle, name):
            return {"cycle": cycle, "apply": job(name, "a", 1, cpu=1)}

        def command(cycle, action):
            return {"cycle": cycle, "command": {"queue": "a", "action": action}}

        events = [command(2, "CloseQueue"), submit(2, "no"), command(3, "OpenQueue"), submit(3, "yes")]
        simulation = ran(scenario(events=events), node(cpu=2), queue("a"))
        assert [(error.object, error.reason) for error in simulation.errors] == [
            (
                "Job/default/no",
                "spec.queue: queue 'a' accepts no jobs, because it is Closed; open it or use another queue",
            )
        ]
        assert counts(simulation) == {"default/yes": (1, 0)}

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("root", "queue 'root' stands for the cluster and cannot be deleted"),
            ("default", "queue 'default' cannot be deleted; close it to stop new jobs"),
            (
                "eng",
                "'prod' is protected (annotation pumice.dev/protected), so nothing was deleted; "
                "this would have gone: queue prod, queue eng, Job default/j",
            ),
        ],
    )
    def test_root_default_and_protected_queues_cannot_be_deleted(self, name, message):
        precious = queue("prod", parent="eng")
        precious["metadata"]["annotations"] = {"pumice.dev/protected": "true"}
        documents = (node(cpu=1), queue("eng"), precious, job("j", "prod", 1, cpu=1))
        simulation = ran(happening({"delete": {"kind": "Queue", "name": name}}), *documents)
        first = simulation.errors[0]
        assert (first.object, first.reason) == (f"Queue/{name}", message)
        assert counts(simulation) == {"default/j": (1, 0)}

    def test_job_update_that_changes_tasks_is_rejected(self):
        simulation = ran(
            happening({"apply": job("j", "q", 1, cpu=2)}), node(cpu=4), queue("q"), job("j", "q", 1, cpu=1)
        )
        (error,) = simulation.errors
        assert error.reason.startswith("spec: Forbidden: tasks may not change after creation; only minAvailable,")
        assert simulation.cluster.engine.tree.root.held[0] == 1000

    def test_promises_are_judged_by_the_nodes_there_are(self):
        promise = queue("a", guarantee={"resource": {"cpu": 6}})
        events = [
            {"cycle": 2, "apply": promise},
            {"cycle": 3, "apply": node("m", cpu=4)},
            {"cycle": 4, "apply": promise},
        ]
        simulation = ran(scenario(events=events), node(cpu=4), queue("a"))
        (error,) = simulation.errors
        assert error.field == "spec.guarantee.resource"
        assert error.message.endswith("guarantee cpu 6 in total, more than the allocatable cpu 4 of the cluster")
        assert dict(simulation.cluster.objects.queues["a"].guarantee) == {0: 6000}

    def test_limits_of_users_come_back_to_a_queue_that_has_none_below_it_any_more(self):
        # A user of q may hold half of the 8 cpu. While r is below q that limits nobody.
        gone = {"cycle": 3, "delete": {"kind": "Queue", "name": "r"}}
        comes = {"cycle": 4, "apply": job("j", "q", 8, cpu=1)}
        events = [{"cycle": 2, "apply": queue("q", userLimitFactor=0.5)}, gone, comes]
        simulation = ran(scenario(events=events), node(cpu=8), queue("q"), queue("r", parent="q"))
        assert not simulation.errors
        assert counts(simulation) == {"default/j": (4, 4)}

    def test_a_refused_job_brings_no_default_queue(self):
        no_tasks = job("j", "", 1)
        no_tasks["spec"]["tasks"] = []
        simulation = ran(happening({"apply": no_tasks}), node(cpu=1), queue("a"))
        assert refusals(simulation) == [("Job/default/j", "spec.tasks")]
        assert simulation.cluster.objects.queues.keys() == {"a"}


class TestDelete:
    def test_a_queue_goes_with_everything_in_it(self):
        simulation = ran(
            happening({"delete": {"kind": "Queue", "name": "a"}}),
            node(cpu=2),
            queue("a"),
            queue("b"),
            job("j", "a", 2, cpu=1),
            job("k", "b", 2, cpu=1),
        )
        assert counts(simulation) == {"default/k": (2, 0)}

    @pytest.mark.parametrize("kind", ["Job", "Pod"])
    def test_an_object_goes_with_what_was_made_of_it(self, kind):
        document = job("j", "default", 2, cpu=1) if kind == "Job" else pod("j", cpu=1)
        simulation = ran(happening({"delete": {"kind": kind, "name": "j"}}), node(cpu=2), document)
        assert not simulation.errors
        assert not simulation.cluster.objects.tasks and not simulation.cluster.objects.jobs

    def test_room_that_goes_takes_nothing_with_it(self):
        simulation = ran(
            happening({"delete": {"kind": "Node", "name": "m"}}, {"finish": {"job": "default/j", "tasks": 1}}),
            node("n", cpu=1),
            node("m", cpu=1),
            queue("q"),
            job("j", "q", 4, cpu=1),
        )
        # Two ran, one ended; its place is taken only if it was on n. The one on m runs on.
        assert sum(task.node == "m" for task in simulation.cluster.running_tasks()) <= 1
        assert simulation.cluster.engine.state.nodes["n"].idle[0] == 0

    @pytest.mark.parametrize(
        ("delete", "field"),
        [
            ({"kind": "Queue", "name": "devv"}, "spec.events[0].delete.name"),
            ({"kind": "Job", "name": "j", "namespace": "other"}, "spec.events[0].delete.name"),
            ({"kind": "Quue", "name": "dev"}, "spec.events[0].delete.kind"),
        ],
    )
    def test_missing_object_cannot_be_deleted(self, delete, field):
        simulation = ran(happening({"delete": delete}), node(cpu=1), queue("dev"), job("j", "dev", 1, cpu=1))
        assert refusals(simulation) == [("Scenario/try", field)]
        assert counts(simulation) == {"default/j": (1, 0)}


class TestCommand:
    @pytest.mark.parametrize(
        ("actions", "state", "started"),
        [
            (["PauseQueue"], QueueState.PAUSED, 1),
            (["CloseQueue"], QueueState.CLOSING, 1),
            (["PauseQueue", "ResumeQueue"], QueueState.OPEN, 2),
            (["CloseQueue", "OpenQueue"], QueueState.OPEN, 2),
            (["CloseQueue", "ResumeQueue"], QueueState.CLOSING, 1),
        ],
    )
    def test_a_queue_that_is_not_open_starts_nothing_more(self, actions, state, started):
        # One of two tasks runs, one waits. Before cycle 2 the commands come and a second place.
        commands = [{"command": {"queue": "dev", "action": action}} for action in actions]
        simulation = ran(
            happening(*commands, {"apply": node("m", cpu=1)}), node(cpu=1), queue("dev"), job("j", "dev", 2, cpu=1)
        )
        assert simulation.cluster.objects.queues["dev"].state is state
        assert counts(simulation)["default/j"] == (started, 2 - started)

    def test_for_a_queue_that_is_not_there(self):
        simulation = ran(happening({"command": {"queue": "dve", "action": "CloseQueue"}}), node(cpu=1), queue("dev"))
        assert refusals(simulation) == [("Scenario/try", "spec.events[0].command.queue")]


class TestConfig:
    def test_a_new_configuration_takes_over_between_cycles(self):
        first = "actions: enqueue\ntiers:\n- plugins:\n  - name: drf\n"
        then = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: drf\n"
        documents = (node(cpu=1), queue("q"), job("j", "q", 1, cpu=1))
        assert counts(ran(scenario(config=first), *documents)) == {"default/j": (0, 1)}
        simulation = ran(scenario(config=first, events=[{"cycle": 2, "config": then}]), *documents)
        assert counts(simulation) == {"default/j": (1, 0)}
        assert [cycle for cycle, decision in simulation.decisions if hasattr(decision, "node")] == [2]

    def test_a_bad_one_is_refused_and_the_old_one_stays(self):
        simulation = ran(
            happening({"config": "actions: alocate\n"}, {"apply": job("j", "q", 1, cpu=1)}), node(cpu=1), queue("q")
        )
        assert refusals(simulation) == [("Scenario/try", "spec.events[0].config")]
        assert counts(simulation) == {"default/j": (1, 0)}
