"""The Scenario object."""

import pytest

from pumice.input_errors import BadInput
from pumice.sim.manifest_files import Manifest
from pumice.sim.scenario import read_scenario
from tests.sim.samples import node, scenario

NO_PLUGINS = "actions: allocate\ntiers: []\n"


def read(*documents, file="dir/try.yaml"):
    return read_scenario([Manifest(file, document) for document in documents], file)


def problems(*documents, file="dir/try.yaml"):
    with pytest.raises(BadInput) as caught:
        read(*documents, file=file)
    return [(problem.file, problem.object, problem.field, problem.message) for problem in caught.value.problems]


def test_scenario_reads_every_field_of_format():
    found = read(
        scenario(
            config=NO_PLUGINS,
            cycles=9,
            cycleSeconds=0.5,
            terminationCycles=2,
            events=[
                {"cycle": 2, "finish": {"job": "default/a", "tasks": 2}},
                {"cycle": 2, "finish": {"pods": ["default/a-0"]}},
                {"cycle": 2, "apply": node("m", cpu=1)},
                {"cycle": 3, "delete": {"kind": "Queue", "name": "dev"}},
                {"cycle": 4, "command": {"queue": "dev", "action": "PauseQueue"}},
                {"cycle": 5, "config": NO_PLUGINS},
            ],
            churn={"seed": 7, "completions": 20},
            expect={
                "jobs": {"default/a": {"running": 5, "pending": 4.5, "allocated": {"cpu": 5}, "phase": "Running"}},
                "queues": {"root/eng": {"allocated": {"cpu": "5"}, "share": 0.5, "entitled": {"memory": "5Gi"}}},
                "binds": {"default/p1": "n1"},
                "evicted": ["default/p2"],
                "pipelined": {"default/a": ["n1", "n2"]},
                "errors": [{"object": "Queue/dev", "contains": "exceeds"}],
                "tolerance": {"share": 1.0e-6, "tasks": 0},
            },
        ),
        node(cpu=1),
    )
    assert found.name == "try"
    assert found.object == "Scenario/try"
    assert found.spec.cycle_seconds == 0.5
    assert [event.cycle for event in found.spec.events] == [2, 2, 2, 3, 4, 5]
    assert found.spec.expect.errors[0].contains == "exceeds"
    assert found.config.actions == ("allocate",)
    assert [manifest.kind for manifest in found.manifests] == ["Node"]
    assert found.expects_refusals


def test_scenario_without_scenario_object_uses_defaults():
    found = read(node(cpu=1), file="some/where.yaml")
    assert found.name == "where"
    assert found.spec.cycles is None and found.spec.expect is None
    assert "allocate" in found.config.actions
    assert not found.expects_refusals


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"cycle": 3}, "spec.cycle", "did you mean 'cycles'?"),
        ({"expect": {"quees": {}}}, "spec.expect.quees", "did you mean 'queues'?"),
        ({"expect": {"jobs": {"ns/a": {"runing": 1}}}}, "spec.expect.jobs.ns/a.runing", "did you mean 'running'?"),
        ({"expect": {"errors": [{"objekt": "x"}]}}, "spec.expect.errors[0].objekt", "did you mean 'object'?"),
        ({"events": [{"cycle": 1, "finsh": {}}]}, "spec.events[0].finsh", "did you mean 'finish'?"),
        ({"events": [{"cycle": 1, "finish": {"zzz": 1}}]}, "spec.events[0].finish.zzz", "fields are job, tasks, pods"),
        ({"churn": {"seeds": 7, "completions": 1}}, "spec.churn.seeds", "did you mean 'seed'?"),
        ({"cycles": 0}, "spec.cycles", "greater than or equal to 1"),
        ({"cycles": "3"}, "spec.cycles", "must be an integer"),
        ({"cycleSeconds": 0}, "spec.cycleSeconds", "> 0"),
        ({"churn": {"completions": 1}}, "spec.churn.seed", "Required value"),
        ({"events": [{"cycle": 1}]}, "spec.events[0]", "one of finish, apply, delete, command, config"),
        (
            {"events": [{"cycle": 1, "config": "", "delete": {"kind": "Queue", "name": "a"}}]},
            "spec.events[0]",
            "has delete and config",
        ),
        ({"cycles": 2, "events": [{"cycle": 3, "config": ""}]}, "spec.events[0].cycle", "after the last cycle, 2"),
        ({"events": [{"cycle": 1, "finish": {"job": "ns/a"}}]}, "spec.events[0].finish", "tasks: 2"),
        ({"events": [{"cycle": 1, "finish": {"pods": ["a"], "tasks": 1}}]}, "spec.events[0].finish.tasks", "together"),
        (
            {"events": [{"cycle": 1, "command": {"queue": "a", "action": "StopQueue"}}]},
            "spec.events[0].command.action",
            "'StopQueue' is not known",
        ),
        ({"expect": {"jobs": {"a": {}}}}, "spec.expect.jobs.a", "default/a"),
        (
            {"expect": {"jobs": {"ns/a": {"phase": "Runing"}}}},
            "spec.expect.jobs.ns/a.phase",
            "Unsupported value: 'Runing'",
        ),
        (
            {"expect": {"jobs": {"ns/a": {"allocated": {"memory": "5GB"}}}}},
            "spec.expect.jobs.ns/a.allocated.memory",
            "5G (powers of 1000)",
        ),
        (
            {"expect": {"queues": {"q": {"entitled": {"cpu": -1}}}}},
            "spec.expect.queues.q.entitled.cpu",
            "negative",
        ),
        (
            {"config": "actions: allocate\ntiers:\n- plugins:\n  - name: fair\n"},
            "spec.config",
            "line 4: unknown plugin",
        ),
        ({"config": NO_PLUGINS, "configFile": "x"}, "spec.configFile", "keep one"),
        ({"configFile": "nowhere.yaml"}, "spec.configFile", "dir/nowhere.yaml"),
    ],
)
def test_invalid_fields_are_refused_with_their_path(spec, field, said):
    ((file, subject, found, message),) = problems(scenario(**spec))
    assert (file, subject, found) == ("dir/try.yaml", "Scenario/try", field)
    assert said in message


def test_several_unknown_fields_are_all_named():
    found = problems(scenario(cycle=1, expect={"binding": {}}, evnts=[]))
    assert [field for _, _, field, _ in found] == ["spec.cycle", "spec.expect.binding", "spec.evnts"]


def test_another_version_of_the_object_is_not_guessed_at():
    document = scenario() | {"apiVersion": "pumice.dev/v2"}
    ((_, _, field, message),) = problems(document)
    assert field == "apiVersion"
    assert "pumice.dev/v1" in message


def test_a_scenario_object_needs_a_name():
    document = scenario() | {"metadata": {}}
    assert problems(document) == [("dir/try.yaml", "Scenario/?", "metadata.name", "Required value")]


def test_second_scenario_object_is_rejected():
    ((file, subject, _, message),) = problems(scenario(), scenario())
    assert (file, subject) == ("dir/try.yaml", "Scenario/try")
    assert "keep one of the two" in message


def test_a_configuration_file_lies_beside_the_scenario(tmp_path):
    (tmp_path / "scheduler.conf").write_text(NO_PLUGINS)
    found = read(scenario(configFile="scheduler.conf"), file=str(tmp_path / "s.yaml"))
    assert found.config.actions == ("allocate",)


def test_an_error_in_a_configuration_file_names_that_file_and_line(tmp_path):
    (tmp_path / "scheduler.conf").write_text("actions: alocate\n")
    ((_, _, field, message),) = problems(scenario(configFile="scheduler.conf"), file=str(tmp_path / "s.yaml"))
    assert field == "spec.configFile"
    assert f"{tmp_path}/scheduler.conf:1:" in message


def test_arguments_that_a_plugin_refuses_are_found_before_anything_runs():
    config = "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    arguments:\n      drf.rule: papr\n"
    ((_, _, field, message),) = problems(scenario(config=config))
    assert field == "spec.config"
    assert message.startswith("line 6: plugin drf: argument drf.rule: 'papr'")
