"""``pumice check``."""

import pytest

from tests.cli.command import EXAMPLES, pumice_command

CLUSTER = """\
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{resources: {requests: {cpu: 1}}}]}
"""


def scenario(name, expect):
    return (
        f"apiVersion: pumice.dev/v1\nkind: Scenario\nmetadata: {{name: {name}}}\nspec: {{expect: {expect}}}\n{CLUSTER}"
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.yaml").write_text(scenario("good", "{jobs: {default/p: {running: 1}}}"))
    (tmp_path / "b.yaml").write_text(scenario("wrong", "{jobs: {default/p: {running: 2, phase: Pending}}}"))
    return tmp_path


def test_the_examples_hold():
    done = pumice_command("check", EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, summary = done.stdout.splitlines()
    names = [path.stem for path in sorted(EXAMPLES.glob("*.yaml"))]
    assert [line.split() for line in lines] == [["PASS", name] for name in names]
    assert summary == f"{len(names)} passed, 0 failed"


def test_unmet_expectations_are_shown_as_a_diff(folder):
    done = pumice_command("check", folder)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "PASS good",
        f"FAIL wrong ({folder}/b.yaml)",
        "  - jobs.default/p.running: 2",
        "  + jobs.default/p.running: 1",
        "  - jobs.default/p.phase: Pending",
        "  + jobs.default/p.phase: Running",
        "1 passed, 1 failed",
    ]
    assert done.stderr == ""


def test_fields_without_effect_are_noted(tmp_path):
    group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
    spec = "spec: {minMember: 1, subGroupPolicy: [{name: a}]}\n"
    (tmp_path / "a.yaml").write_text(f"{scenario('near', '{}')}---\n{group}{spec}")
    done = pumice_command("check", tmp_path / "a.yaml")
    assert done.stdout == "PASS near\n1 passed, 0 failed\n"
    assert done.stderr == (
        f"note: {tmp_path}/a.yaml: PodGroup/g: spec.subGroupPolicy: has no effect; a PodGroup has one minimum, and "
        "minTaskMember one per role\n"
    )


def test_bad_input_does_not_keep_the_others_from_being_checked(folder):
    (folder / "c.yaml").write_text(scenario("bad", "{jbs: {}}"))
    done = pumice_command("check", folder)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-2:] == [f"FAIL {folder}/c.yaml (invalid input, not run)", "1 passed, 2 failed"]
    assert done.stderr.startswith(f"error: {folder}/c.yaml: Scenario/bad: spec.expect.jbs: unknown field")


def test_each_file_is_a_scenario_of_its_own(folder):
    done = pumice_command("check", folder / "a.yaml", folder / "a.yaml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 passed, 0 failed")


def test_standard_input_can_be_checked(folder):
    done = pumice_command("check", "-", given=(folder / "a.yaml").read_text())
    assert done.stdout == "PASS good\n1 passed, 0 failed\n"


def test_scenario_without_expectations_is_marked(tmp_path):
    (tmp_path / "a.yaml").write_text(CLUSTER)
    assert pumice_command("check", tmp_path / "a.yaml").stdout == "PASS a (expects nothing)\n1 passed, 0 failed\n"


REFUSED_EVENT = """\
apiVersion: pumice.dev/v1
kind: Scenario
metadata: {name: late}
spec:
  events:
  - cycle: 2
    apply: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: x}, spec: {parent: nowhere}}
"""


def test_unexpected_refusal_fails_check_but_not_run(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(REFUSED_EVENT + CLUSTER)
    done = pumice_command("check", file)
    words = "spec.parent: Not found: 'nowhere': create that queue first, or use 'root'"
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"FAIL late (expects nothing) ({file})",
        "  - errors.Queue/x: let in",
        f"  + errors.Queue/x: refused: {words}",
        "0 passed, 1 failed",
    ]
    ran = pumice_command("run", file)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, f"refused Queue/x: {words}")
    file.write_text(REFUSED_EVENT + "  expect: {errors: [{object: Queue/x, contains: nowhere}]}\n" + CLUSTER)
    assert pumice_command("check", file).returncode == 0


def test_expected_refusals_hold(tmp_path):
    (tmp_path / "a.yaml").write_text(
        scenario("refusal", "{errors: [{object: Queue/x, contains: nowhere}], jobs: {default/p: {running: 1}}}")
        + "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: x}\nspec: {parent: nowhere}\n"
    )
    done = pumice_command("check", tmp_path / "a.yaml")
    assert (done.returncode, done.stdout) == (0, "PASS refusal\n1 passed, 0 failed\n")
