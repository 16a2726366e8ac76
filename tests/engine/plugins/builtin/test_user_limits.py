"""Limits of users: a percentage says who comes first and leaves nothing idle, a factor is never passed by a unit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Condition
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec
from tests.support.limited_users import PLENTY, both_rules, check_accounts, cycles, finished, held, make, submit
from tests.support.taking import Shell, taking_engine


class TestPercent:
    @both_rules
    @pytest.mark.parametrize(
        ("users", "each"),
        # 12 cpu in one queue: 12, 6, 4, 3. Eight may hold 3 each but have an eighth, a task or two.
        [(1, {12}), (2, {6}), (3, {4}), (4, {3}), (8, {1, 2})],
    )
    def test_users_who_all_want_everything(self, rule, users, each):
        engine = make(12, Queue("q", min_user_limit_percent=25), rule=rule)
        for i in range(users):
            submit(engine, f"j{i}", "q", f"user{i}", 20)
        cycles(engine)
        assert set(held(engine).values()) == each

    @both_rules
    @pytest.mark.parametrize("users", [1, 2, 3, 4, 8])
    def test_satisfied_user_withholds_nothing_from_other_users(self, rule, users):
        engine = make(12, Queue("q", min_user_limit_percent=25), rule=rule)
        submit(engine, "big", "q", "greedy", 20)
        for i in range(users - 1):
            submit(engine, f"j{i}", "q", f"user{i}", 1)
        cycles(engine)
        assert held(engine) == {"greedy": 13 - users} | {f"user{i}": 1 for i in range(users - 1)}

    def test_limit_counts_users_not_jobs_or_namespaces(self):
        # bob has three jobs in two namespaces and the same half as alice with one.
        engine = make(12, Queue("q", min_user_limit_percent=10))
        submit(engine, "a", "q", "alice", 20)
        for i, namespace in enumerate(("ns", "ns", "other")):
            spec = JobSpec(namespace, f"b{i}", "q", created=i, phase=JobPhase.INQUEUE, user="bob")
            engine.apply(Changed(spec))
            for k in range(20):
                engine.apply(Changed(TaskSpec(namespace, f"b{i}-t-{k}", (1000, 0, 1), job=spec.key)))
        cycles(engine)
        assert held(engine) == {"alice": 6, "bob": 6}

    def test_namespace_counts_as_user_for_job_without_user(self):
        engine = make(12, Queue("q", min_user_limit_percent=25))
        for namespace in ("x", "y"):
            engine.apply(Changed(JobSpec(namespace, "j", "q", phase=JobPhase.INQUEUE)))
            for k in range(20):
                engine.apply(Changed(TaskSpec(namespace, f"j-t-{k}", (1000, 0, 1), job=f"{namespace}/j")))
        cycles(engine)
        assert held(engine) == {"x": 6, "y": 6}

    def test_user_limit_counts_per_queue(self):
        # alice may hold half of each: there is a bob in both.
        engine = make(12, Queue("q", min_user_limit_percent=25), Queue("r", min_user_limit_percent=25))
        for queue in ("q", "r"):
            submit(engine, f"a-{queue}", queue, "alice", 20)
            submit(engine, f"b-{queue}", queue, "bob", 20)
        cycles(engine)
        assert held(engine, "q") == held(engine, "r") == {"alice": 3, "bob": 3}

    def test_user_without_jobs_no_longer_counts(self):
        engine = make(12, Queue("q", min_user_limit_percent=25))
        for user in ("alice", "bob", "carol"):
            submit(engine, user, "q", user, 20)
        cycles(engine)
        assert held(engine) == {"alice": 4, "bob": 4, "carol": 4}
        for i in range(20):
            engine.apply(Gone(TaskSpec, f"ns/carol-t-{i}"))
        engine.apply(Gone(JobSpec, "ns/carol"))
        cycles(engine)
        assert held(engine) == {"alice": 6, "bob": 6}

    def test_new_user_counts_from_arrival_without_evictions(self):
        engine = make(12, Queue("q", min_user_limit_percent=25))
        submit(engine, "a", "q", "alice", 20)
        cycles(engine)
        submit(engine, "b", "q", "bob", 20)
        cycles(engine)
        assert held(engine) == {"alice": 12, "bob": 0}
        # Of what ends alice starts nothing again until she holds less than half.
        for i in range(8):
            engine.apply(Changed(finished(engine, f"ns/a-t-{i}")))
        cycles(engine)
        assert held(engine) == {"alice": 6, "bob": 6}

    def test_user_with_only_unschedulable_tasks_does_not_count(self):
        engine = make(12, Queue("q", min_user_limit_percent=25))
        submit(engine, "a", "q", "alice", 20)
        submit(engine, "b", "q", "bob", 1, cpu=100)
        cycles(engine)
        assert held(engine) == {"alice": 12, "bob": 0}

    def test_a_job_that_changes_hands_counts_for_its_new_user(self):
        engine = make(12, Queue("q", min_user_limit_percent=25))
        submit(engine, "a", "q", "alice", 6)
        submit(engine, "b", "q", "bob", 20)
        cycles(engine)
        assert held(engine) == {"alice": 6, "bob": 6}
        spec = engine.state.jobs["ns/a"].spec
        assert spec is not None
        engine.apply(Changed(replace(spec, user="bob")))
        submit(engine, "c", "q", "carol", 20)
        engine.apply(Changed(finished(engine, "ns/b-t-0")))
        cycles(engine)
        assert held(engine) == {"bob": 11, "carol": 1}


class TestGrowing:
    def test_alone_a_user_may_have_what_others_leave(self):
        # 16 cpu, a third by weight: 5 1/3, no multiple of a task. Nobody else wants anything.
        engine = make(16, Queue("q", min_user_limit_percent=25), Queue("r"), Queue("s"))
        submit(engine, "a", "q", "alice", 30)
        cycles(engine)
        assert held(engine) == {"alice": 16}

    def test_two_share_what_others_leave(self):
        # 8 of 16 cpu by weight, and nobody wants the other 8. From 4 each the base grows with what is used.
        engine = make(16, Queue("q", min_user_limit_percent=25), Queue("r"))
        submit(engine, "a", "q", "alice", 30)
        submit(engine, "b", "q", "bob", 30)
        cycles(engine)
        assert held(engine) == {"alice": 8, "bob": 8}

    def test_beyond_it_who_is_behind_catches_up(self):
        # alice holds 8 of 16 when bob comes to a queue that has 8: he may hold half of what is used then, his own
        # included: 1 of 9, 2 of 10, ... 8 of 16.
        engine = make(16, Queue("q", min_user_limit_percent=25), Queue("r"))
        submit(engine, "a", "q", "alice", 8)
        cycles(engine)
        submit(engine, "b", "q", "bob", 30)
        cycles(engine)
        assert held(engine) == {"alice": 8, "bob": 8}

    def test_many_users_may_together_hold_more_than_the_queue_has(self):
        # 50 of 100 cpu by weight. Five users, a quarter each: the base grows with what is used, and nobody comes to
        # a quarter of it. From 10 each the next may hold 51 / 4, from 19 each 96 / 4.
        engine = make(100, Queue("q", min_user_limit_percent=25), Queue("r"))
        for i in range(5):
            submit(engine, f"j{i}", "q", f"user{i}", 30)
        cycles(engine)
        assert set(held(engine).values()) == {20}

    def test_a_limit_below_one_task_lets_one_task_start(self):
        # 2 of 4 cpu, four users: half a cpu each. Nobody holds that much, so each may start one task.
        engine = make(4, Queue("q", min_user_limit_percent=25), Queue("r"))
        for i in range(4):
            submit(engine, f"j{i}", "q", f"user{i}", 3)
        cycles(engine)
        assert set(held(engine).values()) == {1}

    @both_rules
    def test_user_at_limit_uses_room_that_other_user_cannot_fit(self, rule):
        # bob waits for 10 cpu and 8 are free: alice, who holds half, may have them meanwhile.
        engine = make(16, Queue("q", min_user_limit_percent=25), rule=rule)
        submit(engine, "a", "q", "alice", 8)
        cycles(engine)
        submit(engine, "b", "q", "bob", 1, cpu=10)
        submit(engine, "more", "q", "alice", 20)
        cycles(engine)
        assert held(engine) == {"alice": 16, "bob": 0}

    @both_rules
    def test_user_below_limit_with_fitting_tasks_goes_first(self, rule):
        # The same, but bob's tasks fit: alice waits for him.
        engine = make(16, Queue("q", min_user_limit_percent=25), rule=rule)
        submit(engine, "a", "q", "alice", 8)
        cycles(engine)
        submit(engine, "more", "q", "alice", 20)
        submit(engine, "b", "q", "bob", 4, cpu=2)
        cycles(engine)
        assert held(engine) == {"alice": 8, "bob": 8}

    def test_two_who_each_hold_too_much_of_something_do_not_wait_for_one_another(self):
        # alice holds 10 of 12 cpu, bob 10 of 12 memory; both ask for some of both, and each is beyond a limit.
        engine = make(12, Queue("q", min_user_limit_percent=25), Queue("r"))
        submit(engine, "a", "q", "alice", 10)
        submit(engine, "b", "q", "bob", 10, cpu=0, memory=1)
        cycles(engine)
        submit(engine, "c", "q", "alice", 9, memory=1)
        submit(engine, "d", "q", "bob", 9, memory=1)
        cycles(engine)
        assert engine.tree.root.held[:2] == [12_000, 12_000]


class TestFactor:
    @pytest.mark.parametrize(("factor", "gets"), [(0.5, 3), (1.0, 6), (1.5, 9), (2.0, 12), (-1.0, 12), (0.3, 2)])
    def test_times_the_configured_capacity(self, factor, gets):
        # 6 of 12 cpu by weight. 0.3 of that is 1.8: who holds 1 may start another task, who holds 2 may not.
        engine = make(12, Queue("q", user_limit_factor=factor), Queue("r"))
        submit(engine, "a", "q", "alice", 30)
        cycles(engine)
        assert held(engine) == {"alice": gets}

    def test_weights_count_whether_or_not_siblings_want_anything(self):
        # 24 cpu: eng has 2 of 3, web of that 1 of 4: 4 cpu. Half of it is 2.
        engine = make(
            24,
            Queue("eng", weight=2),
            Queue("sci"),
            Queue("web", parent="eng", user_limit_factor=0.5),
            Queue("db", parent="eng", weight=3),
        )
        submit(engine, "a", "web", "alice", 30)
        cycles(engine)
        assert held(engine) == {"alice": 2}

    def test_factor_applies_to_deserved_before_weight_per_resource(self):
        # Half of the 4 cpu it deserves; of memory half of its part by weight, 6 of 12.
        engine = make(12, Queue("q", user_limit_factor=0.5, deserved=((0, 4000),)), Queue("r"))
        submit(engine, "a", "q", "alice", 9, cpu=1)
        submit(engine, "m", "q", "bob", 9, cpu=0, memory=1)
        cycles(engine)
        jobs = engine.tree.jobs
        assert (jobs["ns/a"].held[0], jobs["ns/m"].held[1]) == (2000, 3000)

    def test_only_the_resources_a_unit_asks_for_count(self):
        # alice is over the limit on cpu (it was lowered), which does not stop her tasks that want memory alone.
        engine = make(12, Queue("q", user_limit_factor=1.0), Queue("r"))
        submit(engine, "a", "q", "alice", 6)
        cycles(engine)
        engine.apply(Changed(Queue("q", user_limit_factor=0.5)))
        submit(engine, "m", "q", "alice", 9, cpu=0, memory=1)
        submit(engine, "b", "q", "alice", 1)
        cycles(engine)
        jobs = engine.tree.jobs
        assert [jobs[f"ns/{name}"].held[:2] for name in ("a", "m", "b")] == [[6000, 0], [0, 3000], [0, 0]]

    def test_a_gang_starts_whole_while_its_user_holds_less_than_the_limit(self):
        # 6 of 12: a gang of three may follow one of four, nothing may follow then.
        engine = make(12, Queue("q", user_limit_factor=0.5))
        submit(engine, "four", "q", "alice", 4, least=4)
        cycles(engine)
        submit(engine, "three", "q", "alice", 3, least=3)
        cycles(engine)
        submit(engine, "one", "q", "alice", 1)
        cycles(engine)
        assert {name: leaf.job.running for name, leaf in engine.tree.jobs.items()} == {
            "ns/four": 4,
            "ns/three": 3,
            "ns/one": 0,
        }

    def test_others_have_what_one_may_not(self):
        engine = make(12, Queue("q", user_limit_factor=0.25), Queue("r"))
        submit(engine, "a", "q", "alice", 30)
        submit(engine, "b", "q", "bob", 30)
        submit(engine, "c", "r", "carol", 30)
        cycles(engine)
        # A quarter of 6 is 1.5: q is entitled to 3, and carol to all that the two are not. One of them is below its
        # limit with one task, and starts another: a limit slows a user down, it does not cost its queue a task.
        assert held(engine) == {"alice": 2, "bob": 1, "carol": 9}


class TestWhere:
    def test_a_queue_with_children_limits_nobody(self):
        engine = make(12, Queue("eng", user_limit_factor=0.1), Queue("web", parent="eng"))
        submit(engine, "a", "web", "alice", 30)
        cycles(engine)
        assert held(engine) == {"alice": 12}
        # As a leaf it does.
        engine.apply(Gone(JobSpec, "ns/a"))
        for i in range(30):
            engine.apply(Gone(TaskSpec, f"ns/a-t-{i}"))
        engine.apply(Gone(Queue, "web"))
        submit(engine, "b", "eng", "alice", 30)
        cycles(engine)
        assert held(engine) == {"alice": 2}  # a tenth of 12 is 1.2

    def test_limits_come_change_and_go(self):
        engine = make(12, Queue("q"))
        submit(engine, "a", "q", "alice", 2)
        cycles(engine)
        engine.apply(Changed(Queue("q", user_limit_factor=0.5)))
        submit(engine, "b", "q", "alice", 9)
        cycles(engine)
        assert held(engine) == {"alice": 6}
        engine.apply(Changed(Queue("q", user_limit_factor=0.75)))
        cycles(engine)
        assert held(engine) == {"alice": 9}
        engine.apply(Changed(Queue("q")))
        cycles(engine)
        assert held(engine) == {"alice": 11}
        assert all(leaf.user_held is None for leaf in engine.tree.jobs.values())
        assert all(node.user_ceilings is None for node in engine.tree.root.walk())

    def test_a_node_that_comes_moves_the_limit(self):
        engine = make(12, Queue("q", user_limit_factor=0.5))
        submit(engine, "a", "q", "alice", 30)
        cycles(engine)
        engine.apply(Changed(NodeSpec("more", (12_000, 12_000, PLENTY))))
        cycles(engine)
        assert held(engine) == {"alice": 12}

    def test_a_resource_that_nobody_knew_before(self):
        engine = make(12, Queue("q", user_limit_factor=0.5))
        submit(engine, "a", "q", "alice", 2)
        cycles(engine)
        gpu = engine.state.registry.index("nvidia.com/gpu")
        engine.apply(Changed(NodeSpec("g", (4000, 4000, PLENTY, 4000))))
        engine.apply(Changed(JobSpec("ns", "g", "q", user="alice", phase=JobPhase.INQUEUE)))
        for i in range(4):
            engine.apply(Changed(TaskSpec("ns", f"g-t-{i}", (0, 0, 1, 1000), job="ns/g", created=i)))
        cycles(engine)
        assert engine.tree.jobs["ns/g"].held[gpu] == 2000

    @pytest.mark.parametrize(
        ("plugin", "gets"),
        [("", 6), ("- {name: users}", 6), ("- {name: users, enabledAllocatable: false}", 12)],
        ids=["not named", "named", "switched off"],
    )
    def test_a_configuration_need_not_name_the_plugin_but_may_switch_it_off(self, plugin, gets):
        text = f"actions: allocate\ntiers:\n- plugins:\n  - {{name: drf, enableHierarchy: true}}\n  {plugin}\n"
        config = parse_config(text, known_plugins=BUILT_IN, known_actions=["allocate"])
        engine = Engine(config, BUILT_IN)
        engine.apply(Changed(NodeSpec("n", (12_000, 0, PLENTY))))
        engine.apply(Changed(Queue("q", user_limit_factor=0.5)))
        submit(engine, "a", "q", "alice", 30)
        engine.cycle(1_000_000)
        assert held(engine) == {"alice": gets}


class TestTaking:
    @both_rules
    @pytest.mark.parametrize(("factor", "gets"), [(None, 6), (0.5, 3), (0.3, 2)])
    def test_user_does_not_reclaim_beyond_limit(self, rule, factor, gets):
        # b has all 12 cpu when alice comes to a, which has 6 of them: she may hold so many times 6.
        shell = Shell(taking_engine(rule), grace=1)
        shell.node("n", 12, 0)
        shell.queue("root/a", user_limit_factor=factor)
        shell.queue("root/b")
        shell.job("b", [(1,)] * 20)
        shell.cycle()
        shell.job("a", [(1,)] * 20, namespace="alice")
        for _ in range(8):
            shell.cycle()
        check_accounts(shell.engine)
        queues = shell.engine.tree.root.children
        assert [queues[NodeKind.QUEUE, name].held[0] for name in "ab"] == [gets, 12 - gets]
        assert len(shell.evictions) == gets

    @both_rules
    def test_inside_a_queue_only_the_users_own_tasks_make_way(self, rule):
        # 6 of the queue's 12 cpu each. alice's urgent job takes the place of her own other one, not of bob's.
        shell = Shell(taking_engine(rule), grace=1)
        shell.node("n", 12, 0)
        shell.queue("root/q", min_user_limit_percent=25)
        shell.job("q", [(1,)] * 20, namespace="alice", name="slow", priority=1)
        shell.job("q", [(1,)] * 20, namespace="bob", name="other", priority=1)
        shell.cycle()
        shell.job("q", [(1,)] * 4, namespace="alice", name="urgent", priority=9)
        for _ in range(8):
            shell.cycle()
        check_accounts(shell.engine)
        jobs = shell.engine.state.jobs
        assert {name: jobs[name].running for name in ("alice/slow", "alice/urgent", "bob/other")} == {
            "alice/slow": 2,
            "alice/urgent": 4,
            "bob/other": 6,
        }


class TestTold:
    def conditions(self, engine: Engine) -> dict[str, str]:
        decisions = engine.cycle(engine.now + 1_000_000)
        return {d.job: d.message for d in decisions if isinstance(d, Condition)}

    def test_refusal_reason_states_held_limit_and_request(self):
        # alice holds 8 of 12 cpu when bob comes: the other four are his.
        engine = make(12, Queue("dev", min_user_limit_percent=25))
        submit(engine, "a", "dev", "alice", 8)
        cycles(engine)
        submit(engine, "b", "dev", "bob", 20)
        submit(engine, "more", "dev", "alice", 20)
        engine.prepare()
        leaf = engine.tree.jobs["ns/more"]
        assert engine.policy.allocatable(leaf, leaf.unit) == (
            "user alice holds cpu 8 of the 6 that one of 2 users may hold in queue dev, and asks for 1 more"
        )
        assert engine.policy.gives_way(leaf, leaf.unit)
        cycles(engine)
        assert held(engine) == {"alice": 8, "bob": 4}

    def test_refusal_by_factor_is_reported_once(self):
        engine = make(24, Queue("dev", user_limit_factor=0.1), Queue("r"))
        submit(engine, "a", "dev", "alice", 3, cpu=2)
        assert self.conditions(engine) == {
            "ns/a": "user alice holds cpu 2 of the 1200m that one user may hold in queue dev, and asks for 2 more"
        }
        assert not self.conditions(engine)


class TestTargets:
    def test_entitlement_stops_at_user_limit_and_rest_goes_to_others(self):
        # 36 cpu, 12 for each queue by weight. dave has half of 12; q and s share what he may not have, 15 each, and of
        # these alice and bob have half each.
        engine = make(36, Queue("q", min_user_limit_percent=25), Queue("r", user_limit_factor=0.5), Queue("s"))
        for user, queue in (("alice", "q"), ("bob", "q"), ("dave", "r"), ("erin", "s")):
            submit(engine, f"{user}1", queue, user, 30)
            submit(engine, f"{user}2", queue, user, 30)
        engine.prepare()
        entitled: dict[str, int] = defaultdict(int)
        for leaf in engine.tree.jobs.values():
            entitled[leaf.user] += leaf.entitled[0]
        assert entitled == {"alice": 7500, "bob": 7500, "dave": 6000, "erin": 15_000}

    def test_ceilings_are_the_limits_of_those_who_are_there(self):
        engine = make(24, Queue("q", min_user_limit_percent=25), Queue("r"))
        for user in ("alice", "bob", "carol"):
            submit(engine, user, "q", user, 20)
        engine.prepare()
        queue = engine.tree.root.children[NodeKind.QUEUE, "q"]
        assert queue.user_ceilings is not None
        # A third of 24 cpu, to which the queue is entitled, and of 12 of memory, its part by weight.
        assert {user: most[:2] for user, most in queue.user_ceilings.items()} == {
            "alice": [8000, 4000],
            "bob": [8000, 4000],
            "carol": [8000, 4000],
        }
        assert engine.tree.root.children[NodeKind.QUEUE, "r"].user_ceilings is None

    def test_single_user_has_no_ceiling_from_percentage(self):
        engine = make(24, Queue("q", min_user_limit_percent=25), Queue("r"))
        submit(engine, "a", "q", "alice", 20)
        engine.prepare()
        assert engine.tree.root.children[NodeKind.QUEUE, "q"].user_ceilings is None

    def test_the_target_follows_who_begins_and_ceases_to_wait(self):
        # While both wait each is entitled to 6 of 12; once bob's one task runs, alice is entitled to the rest.
        engine = make(12, Queue("q", min_user_limit_percent=25))
        submit(engine, "a", "q", "alice", 20)
        submit(engine, "b", "q", "bob", 1)
        engine.prepare()
        entitled = {key: leaf.entitled[0] for key, leaf in engine.tree.jobs.items()}
        assert entitled == {"ns/a": 6000, "ns/b": 1000}
        cycles(engine)
        assert engine.tree.jobs["ns/a"].entitled[0] == 11_000
