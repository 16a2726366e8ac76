"""Queues that are paused, closed and opened again while jobs run and wait, and what their children make of it."""

import json

import click
import pytest

from pumice.cli.scenario.run_tables import tree_lines
from pumice.model.specs import QueueState
from pumice.sim.run_overview import overview_of_run
from pumice.sim.run_report import run_report
from tests.cli.command import EXAMPLES, pumice_command
from tests.sim.samples import counts, group, job, node, pod, queue, ran, scenario

OPEN, PAUSED, CLOSING, CLOSED = QueueState.OPEN, QueueState.PAUSED, QueueState.CLOSING, QueueState.CLOSED

# Two branches; the jobs of eng's queues and of other run two tasks each before anything happens: 6 cpu.
TREE = (
    node(cpu=6),
    queue("eng", weight=2),
    queue("web", parent="eng"),
    queue("db", parent="eng"),
    queue("other"),
    job("site", "web", 6, cpu=1),
    job("backup", "db", 6, cpu=1),
    job("train", "other", 6, cpu=1),
)


def command(cycle, queue_name, action):
    return {"cycle": cycle, "command": {"queue": queue_name, "action": action}}


def more(cycle, cpu, name="m"):
    return {"cycle": cycle, "apply": node(f"{name}{cycle}", cpu=cpu)}


def finish(cycle, name, tasks):
    return {"cycle": cycle, "finish": {"job": f"default/{name}", "tasks": tasks}}


def after(*events, tree=TREE):
    simulation = ran(scenario(events=list(events)), *tree)
    assert not simulation.errors
    return simulation


def states(simulation):
    """Own state of each queue, and the one in force where that is another."""
    queues = run_report(simulation)["queues"]
    return {
        name: found["state"] + ("" if found["state"] == found["effectiveState"] else f" -> {found['effectiveState']}")
        for name, found in queues.items()
    }


def running(simulation):
    return {key.removeprefix("default/"): n for key, (n, _) in counts(simulation).items()}


def with_state(document, state):
    return {**document, "status": {"state": state}}


def waiting(name, **spec):
    """A PodGroup that was let in before: later it would find its queue closed."""
    return {**group(name, **spec), "status": {"phase": "Pending"}}


class TestOneQueue:
    @pytest.mark.parametrize("state", ["Paused", "Closing", "Closed", "Unknown"])
    def test_non_open_queue_starts_nothing_and_keeps_running_pods(self, state):
        simulation = ran(
            node(cpu=4),
            with_state(queue("q"), state),
            queue("r"),
            group("g", queue="q"),
            pod("runs", "g", on="n", cpu=1),
            pod("waits", "g", cpu=1),
            waiting("late", queue="q"),
            pod("best-effort", "late"),
            job("k", "r", 9, cpu=1),
        )
        # r has all the rest, by right: q asks for what it holds.
        assert counts(simulation) == {"default/g": (1, 1), "default/late": (0, 1), "default/k": (3, 6)}
        tree = simulation.cluster.engine.tree
        assert (tree.jobs["default/g"].entitled[0], tree.jobs["default/k"].entitled[0]) == (1000, 3000)
        phases = {key: job.phase.value for key, job in simulation.cluster.engine.state.jobs.items()}
        assert phases == {"default/g": "Running", "default/late": "Pending", "default/k": "Running"}

    def test_pausing_and_resuming(self):
        paused = after(command(2, "other", "PauseQueue"), more(3, 6))
        # 6 more cpu, all for eng's queues: they want 4 more each.
        assert running(paused) == {"site": 5, "backup": 5, "train": 2}
        # The node that comes in cycle 5 is for everybody, and other, with 2, is furthest behind.
        resumed = after(command(2, "other", "PauseQueue"), more(3, 6), command(5, "other", "ResumeQueue"), more(5, 3))
        assert running(resumed) == {"site": 5, "backup": 5, "train": 5}

    def test_resume_of_an_unpaused_queue_changes_nothing(self):
        simulation = after(command(2, "db", "CloseQueue"), command(3, "db", "ResumeQueue"), more(4, 2))
        assert simulation.cluster.objects.queues["db"].state is CLOSING
        assert running(simulation)["backup"] == 2

    def test_pausing_what_is_closed_changes_nothing_and_resuming_does_not_open_it(self):
        events = [command(2, "db", "CloseQueue"), command(3, "db", "PauseQueue"), command(4, "db", "ResumeQueue")]
        assert after(*events).cluster.objects.queues["db"].state is CLOSING

    def test_opening_a_paused_queue_opens_it(self):
        simulation = after(command(2, "db", "PauseQueue"), command(3, "db", "OpenQueue"))
        assert simulation.cluster.objects.queues["db"].state is OPEN

    def test_a_closing_queue_with_waiting_jobs_stays_closing_until_these_are_gone(self):
        # Its two running tasks end; the four that wait do not start, so the queue is not done.
        waiting = after(command(2, "other", "CloseQueue"), finish(3, "train", 2))
        assert running(waiting)["train"] == 0
        assert waiting.cluster.objects.queues["other"].state is CLOSING
        gone = {"cycle": 4, "delete": {"kind": "Job", "name": "train"}}
        closed = after(command(2, "other", "CloseQueue"), finish(3, "train", 2), gone)
        assert closed.cluster.objects.queues["other"].state is CLOSED

    def test_a_closing_queue_that_is_opened_again_goes_on(self):
        simulation = after(
            command(2, "other", "CloseQueue"), finish(2, "train", 2), command(4, "other", "OpenQueue"), more(4, 3)
        )
        assert simulation.cluster.objects.queues["other"].state is OPEN
        # The 2 cpu went to eng in the meantime (3 and 3); of the 3 that come other gets as much as it still has: all.
        assert running(simulation) == {"site": 3, "backup": 3, "train": 3}

    def test_a_closed_queue_with_work_is_closing_and_starts_none_of_it_and_takes_no_more(self):
        late = {"cycle": 2, "apply": job("late", "q", 1, cpu=1)}
        documents = (node(cpu=1), with_state(queue("q"), "Closed"), waiting("j", queue="q"), pod("p", "j", cpu=1))
        simulation = ran(scenario(events=[late]), *documents)
        assert simulation.cluster.objects.queues["q"].state is CLOSING
        assert counts(simulation) == {"default/j": (0, 1)}
        assert [str(error) for error in simulation.errors] == [
            (
                "try.yaml: Job/default/late: spec.queue: queue 'q' accepts no jobs, because it is Closing; "
                "open it or use another queue"
            )
        ]


class TestParents:
    @pytest.mark.parametrize(
        ("action", "own", "effective"),
        [("PauseQueue", "Paused", "Paused"), ("CloseQueue", "Closing", "Closing")],
    )
    def test_a_parent_stops_everything_below_it_and_children_keep_their_states(self, action, own, effective):
        simulation = after(command(2, "eng", action), more(3, 6))
        assert states(simulation) == {
            "eng": own,
            "web": f"Open -> {effective}",
            "db": f"Open -> {effective}",
            "other": "Open",
        }
        # Of the 6 more cpu other has the 4 it still wants; 2 stay idle though eng's jobs want them.
        assert running(simulation) == {"site": 2, "backup": 2, "train": 6}
        root = simulation.cluster.engine.tree.root
        assert [root.entitled[0], root.held[0]] == [10_000, 10_000]

    @pytest.mark.parametrize("stop", ["PauseQueue", "CloseQueue"])
    def test_opening_the_parent_restores_child_states(self, stop):
        start = "ResumeQueue" if stop == "PauseQueue" else "OpenQueue"
        before = [command(2, "db", "PauseQueue"), command(3, "eng", stop)]
        strict = {"PauseQueue": "Paused", "CloseQueue": "Paused -> Closing"}[stop]
        assert states(after(*before))["db"] == strict
        simulation = after(*before, command(4, "eng", start), more(4, 6))
        assert states(simulation) == {"eng": "Open", "web": "Open", "db": "Paused", "other": "Open"}
        # db holds its 2; of the other 10 cpu eng's part by weight is 2/3 of 12, less 2, so all 6 that web wants fit.
        assert running(simulation) == {"site": 6, "backup": 2, "train": 4}

    def test_a_child_can_be_opened_under_a_parent_that_is_not_and_waits_for_it(self):
        events = [command(2, "db", "CloseQueue"), command(3, "eng", "PauseQueue"), command(4, "db", "OpenQueue")]
        simulation = after(*events, more(5, 6))
        assert states(simulation)["db"] == "Open -> Paused"
        assert running(simulation)["backup"] == 2
        again = after(*events, more(5, 6), command(6, "eng", "ResumeQueue"), finish(6, "train", 4), more(6, 6))
        assert states(again)["db"] == "Open"
        assert running(again)["backup"] == 6

    def test_a_parent_is_closed_when_all_below_it_are_done(self):
        short = (node(cpu=2), queue("eng"), queue("web", parent="eng"), queue("db", parent="eng"))
        jobs = (job("site", "web", 1, cpu=1), job("backup", "db", 1, cpu=1))
        events = [command(2, "eng", "CloseQueue"), finish(3, "site", 1)]
        assert states(after(*events, tree=short + jobs)) == {
            "eng": "Closing",
            "web": "Open -> Closing",
            "db": "Open -> Closing",
        }
        assert states(after(*events, finish(4, "backup", 1), tree=short + jobs)) == {
            "eng": "Closed",
            "web": "Open -> Closed",
            "db": "Open -> Closed",
        }

    def test_the_whole_cluster_can_be_paused(self):
        tree = (queue("root"), *TREE)
        paused = after(command(2, "root", "PauseQueue"), more(3, 6), tree=tree)
        assert running(paused) == {"site": 2, "backup": 2, "train": 2}
        resumed = after(command(2, "root", "PauseQueue"), more(3, 6), command(4, "root", "ResumeQueue"), tree=tree)
        assert running(resumed) == {"site": 4, "backup": 4, "train": 4}

    @pytest.mark.parametrize("above", list(QueueState))
    @pytest.mark.parametrize("own", list(QueueState))
    def test_only_an_open_queue_below_open_queues_starts_anything(self, above, own):
        simulation = ran(
            node(cpu=2),
            with_state(queue("top"), above.value),
            queue("middle", parent="top"),
            with_state(queue("leaf", parent="middle"), own.value),
            waiting("j", queue="leaf"),
            pod("p", "j", cpu=1),
            pod("q", "j", cpu=1),
        )
        starts = above is OPEN and own is OPEN
        assert counts(simulation) == {"default/j": (2, 0) if starts else (0, 2)}
        enqueued = [decision for decision in run_report(simulation)["decisions"] if decision["type"] == "enqueue"]
        assert bool(enqueued) is starts

    def test_another_engine_knows_the_states(self):
        config = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: drf\n    enableHierarchy: true\n"
        events = [command(2, "eng", "PauseQueue"), {"cycle": 3, "config": config}, more(4, 6)]
        simulation = after(*events)
        assert running(simulation) == {"site": 2, "backup": 2, "train": 6}


class TestTaking:
    CONFIG = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - {name: gang}
  - {name: drf, enableHierarchy: true}
"""
    # b has all 4 cpu when a job comes to a, which is entitled to half of them: two tasks of b have to go.
    TREE = (node(cpu=4), queue("top"), queue("a", parent="top"), queue("b"), job("late", "b", 8, cpu=1))

    def after(self, *events):
        comes = {"cycle": 2, "apply": job("new", "a", 4, cpu=1)}
        spec = {"config": self.CONFIG, "terminationCycles": 2, "cycles": 12, "events": [comes, *events]}
        return ran(scenario(**spec), *self.TREE)

    def test_an_open_queue_gets_its_part_back(self):
        assert running(self.after()) == {"late": 2, "new": 2}

    @pytest.mark.parametrize("name", ["a", "top"])
    @pytest.mark.parametrize("action", ["PauseQueue", "CloseQueue"])
    def test_a_queue_that_is_not_open_takes_nothing(self, name, action):
        simulation = self.after(command(2, name, action))
        assert running(simulation) == {"late": 4, "new": 0}
        assert not [one for one in run_report(simulation)["decisions"] if one["type"] == "evict"]

    @pytest.mark.parametrize("name", ["a", "top"])
    def test_paused_queue_does_not_start_tasks_on_reclaimed_room(self, name):
        # In cycle 2 two tasks of b are evicted; they are gone at the end of cycle 4. a is paused before cycle 3.
        simulation = self.after(command(3, name, "PauseQueue"))
        assert len([one for one in run_report(simulation)["decisions"] if one["type"] == "evict"]) == 2
        assert running(simulation) == {"late": 4, "new": 0}
        assert running(self.after(command(3, name, "PauseQueue"), command(6, name, "ResumeQueue"))) == {
            "late": 2,
            "new": 2,
        }

    def test_closed_queue_loses_tasks_beyond_entitlement(self):
        # b closed: it is entitled to what it holds only as far as a leaves it: half.
        assert running(self.after(command(2, "b", "CloseQueue"))) == {"late": 2, "new": 2}


class TestWithdrawn:
    BEFORE = queue("root", hierarchy=[{"name": "a"}, {"name": "b"}])
    WITHOUT = queue("root", hierarchy=[{"name": "b"}])

    @pytest.mark.parametrize(("state", "starts"), [("OpenQueue", 2), ("PauseQueue", 1)])
    def test_an_entry_that_comes_back_in_time_is_what_it_was(self, state, starts):
        events = [
            command(2, "a", state),
            {"cycle": 3, "apply": self.WITHOUT},
            {"cycle": 4, "apply": self.BEFORE},
            more(5, 1),
        ]
        tree = (node(cpu=1), self.BEFORE, job("j", "a", 2, cpu=1))
        assert after(*events[:2], tree=tree).cluster.objects.queues["a"].state is CLOSING
        simulation = after(*events, tree=tree)
        assert simulation.cluster.objects.queues["a"].state is {"OpenQueue": OPEN, "PauseQueue": PAUSED}[state]
        assert running(simulation) == {"j": starts}
        assert not simulation.cluster.withdrawn_queues


class TestShown:
    def test_table_names_the_queue_that_takes_precedence(self):
        simulation = after(command(2, "db", "PauseQueue"), command(3, "eng", "CloseQueue"))
        lines = [click.unstyle(line) for line in tree_lines(overview_of_run(simulation))]
        shown = {name: next(line for line in lines if f"--{name} " in line) for name in ("eng", "web", "db", "other")}
        assert " Closing " in shown["eng"]
        assert " Open (closed by eng) " in shown["web"]
        assert " Paused (closed by eng) " in shown["db"]
        assert " Open   " in shown["other"]

    def test_the_example_by_the_command_line(self, tmp_path):
        done = pumice_command("check", EXAMPLES / "queue-states.yaml")
        assert done.returncode == 0, done.stdout
        until_then = tmp_path / "paused.yaml"
        text = (EXAMPLES / "queue-states.yaml").read_text(encoding="utf-8")
        text = text.replace("  - {cycle: 4, command: {queue: eng, action: ResumeQueue}}\n", "")
        until_then.write_text(text.replace("spec:\n  events:", "spec:\n  cycles: 4\n  events:", 1), encoding="utf-8")
        table = pumice_command("run", until_then).stdout
        assert "Open (paused by eng)" in table
        assert "Closing" in table
        queues = json.loads(pumice_command("run", "-o", "json", until_then).stdout)["queues"]
        assert [(queues[q]["state"], queues[q]["effectiveState"]) for q in ("eng", "web", "db", "sci")] == [
            ("Paused", "Paused"),
            ("Open", "Paused"),
            ("Closing", "Closing"),
            ("Open", "Open"),
        ]
