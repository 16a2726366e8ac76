"""A new configuration in a scenario: taken over whole between two cycles, or refused whole, with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pumice.engine.decisions import Bind, Evict
from tests.cli.command import pumice_command
from tests.sim.samples import Document, counts, job, node, queue, ran, scenario

GIVES = """actions: "enqueue, allocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
"""
TAKES = GIVES.replace('allocate"', 'allocate, reclaim"')

BAD = {
    # Every one of them also asks for reclaim: nothing of it may be in force afterwards.
    "an action that is none": (TAKES.replace("reclaim", "reclaims"), 1, "reclaims"),
    "a plugin that is none": (TAKES.replace("drf", "dfr"), 4, "dfr"),
    "a rule that is none": (TAKES + "    arguments: {drf.rule: steering}\n", 6, "steering"),
    "a time that is none": (
        TAKES + "configurations:\n- name: reclaim\n  arguments:\n    reclaim.patience: soon\n",
        9,
        "soon",
    ),
    "two that order queues": (TAKES + "  - name: proportion\n", 6, "proportion"),
    "no YAML at all": (TAKES + "  - {name: gang\n", 7, ""),
}


def changing(*texts: str, cycles: int = 6) -> list[Document]:
    """a holds 4 cpu; b comes in cycle 2 for its half; the first text is in force, the others come from cycle 4 on."""
    events: list[Document] = [{"cycle": 2, "apply": job("late", "b", 2, cpu=1)}]
    events += [{"cycle": 4 + i, "config": text} for i, text in enumerate(texts[1:])]
    return [
        scenario(config=texts[0], cycles=cycles, events=events),
        node(cpu=4),
        queue("a"),
        queue("b"),
        job("early", "a", 4, cpu=1),
    ]


def test_new_configuration_applies_from_cycle_of_event() -> None:
    simulation = ran(*changing(GIVES, TAKES))
    assert {cycle for cycle, decision in simulation.decisions if isinstance(decision, Evict)} == {4}
    assert counts(simulation) == {"default/early": (2, 2), "default/late": (2, 0)}
    assert not simulation.errors


def test_evictions_of_old_configuration_complete_under_new_one() -> None:
    # The evictions of cycle 4 take two cycles; in cycle 5 nobody may take any more. The two start all the same.
    documents = changing(GIVES, TAKES, GIVES, cycles=9)
    documents[0]["spec"]["terminationCycles"] = 2
    simulation = ran(*documents)
    starts = [
        cycle
        for cycle, decision in simulation.decisions
        if isinstance(decision, Bind) and decision.job.endswith("late")
    ]
    assert starts == [7, 7]


@pytest.mark.parametrize("why", list(BAD))
def test_a_bad_one_is_refused_whole_and_the_run_goes_on(why: str) -> None:
    text, line, culprit = BAD[why]
    simulation = ran(*changing(GIVES, text))
    (problem,) = simulation.errors
    assert (problem.object, problem.field) == ("Scenario/try", "spec.events[1].config")
    assert problem.message.startswith(f"line {line}: ") and culprit in problem.message
    # As if nothing had been said: no reclaim, and all six cycles were run.
    unchanged = ran(*changing(GIVES))
    assert simulation.decisions == unchanged.decisions
    assert simulation.cluster.cycles == 6
    # Nor does it keep a good one from being taken over later.
    assert counts(ran(*changing(GIVES, text, TAKES)))["default/late"] == (2, 0)


def test_the_command_tells(tmp_path: Path) -> None:
    file = tmp_path / "changing.yaml"
    file.write_text(yaml.safe_dump_all(changing(GIVES, BAD["a rule that is none"][0])), encoding="utf-8")
    done = pumice_command("run", "-o", "json", file)
    assert done.returncode == 0, done.stderr
    (error,) = json.loads(done.stdout)["errors"]
    assert error["object"] == "Scenario/try"
    assert "spec.events[1].config" in error["message"] and "line 6" in error["message"]


def test_the_default_queue_follows_the_configuration() -> None:
    events: list[Document] = [
        {"cycle": 2, "apply": job("second", "", 1, cpu=1)},
        {"cycle": 3, "config": f"defaultQueue: a\n{GIVES}"},
        {"cycle": 4, "apply": job("third", "", 1, cpu=1)},
    ]
    simulation = ran(
        scenario(config=f"defaultQueue: b\n{GIVES}", cycles=5, events=events),
        node(cpu=4),
        queue("a"),
        queue("b"),
        job("first", "", 1, cpu=1),
    )
    assert {key: found.queue for key, found in simulation.cluster.objects.jobs.items()} == {
        "default/first": "b",
        "default/second": "b",
        "default/third": "a",
    }
