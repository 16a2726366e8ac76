"""Every kind of bad input ends with status 2 and a line that names file, object and field; nothing is run."""

import pytest

from tests.cli.command import pumice_command

QUEUE = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a%s}\nspec: {%s}\n"
SCENARIO = "apiVersion: pumice.dev/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  %s\n"
GROUP = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: ns}
spec: {queue: %s}
"""
PATH = ", annotations: {volcano.sh/hierarchy: root/eng/a, volcano.sh/hierarchy-weights: 1/2}"

CASES = {
    "malformed": ("kind: Node\n  metadata: x\n", ["{file}:2: not valid YAML"]),
    "unknown field in expect": (
        SCENARIO % "expect: {jobs: {default/a: {runing: 1}}}",
        ["{file}: Scenario/s: spec.expect.jobs.default/a.runing: unknown field, did you mean 'running'?"],
    ),
    "bad quantity": (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {memory: 4GB}}\n",
        ["{file}: Node/n: status.allocatable.memory: '4GB' is not a quantity; write 4G"],
    ),
    "circle of parents": (
        QUEUE % ("", "parent: ab") + "---\n" + QUEUE % ("b", "parent: a"),
        [
            "{file}: Queue/a: spec.parent: Invalid value: parents form a cycle",
            "{file}: Queue/ab: spec.parent: Invalid value: parents form",
        ],
    ),
    "weights of another length": (
        QUEUE % (PATH, "weight: 1"),
        [
            (
                "{file}: Queue/a: metadata.annotations[volcano.sh/hierarchy-weights]: Invalid value: "
                "'1/2': has 2 weights for the 3 levels"
            )
        ],
    ),
    "a plugin nobody has": (
        SCENARIO % 'config: "actions: allocate\\ntiers:\\n- plugins:\\n  - name: fairshare\\n"',
        ['{file}: Scenario/s: spec.config: line 4: unknown plugin "fairshare"'],
    ),
    "no weight": (
        QUEUE % ("", "weight: 0"),
        ["{file}: Queue/a: spec.weight: Invalid value: 0: must be greater than or equal to 1"],
    ),
    "no such queue": (
        GROUP % "x",
        ["{file}: PodGroup/ns/g: spec.queue: Not found: queue 'x'"],
    ),
    "a job in a closed queue": (
        QUEUE % ("", "weight: 1") + "status: {state: Closed}\n---\n" + GROUP % "a",
        [
            (
                "{file}: PodGroup/ns/g: spec.queue: queue 'a' accepts no jobs, because it is Closed; open "
                "it or use another queue"
            )
        ],
    ),
    "more than the parent deserves": (
        QUEUE % ("", "deserved: {cpu: 4}") + "---\n" + QUEUE % ("b", "parent: a, deserved: {cpu: 6}"),
        ["{file}: Queue/ab: spec.deserved: the children of queue 'root/a' have deserved cpu 6 in total, more than"],
    ),
}


STAGES = ("malformed", "bad quantity", "a plugin nobody has")
"""One of each stage of reading: what one command does with the others, all do."""


@pytest.mark.parametrize(
    ("command", "case"),
    [("run", case) for case in CASES] + [(c, case) for c in ("check", "entitle") for case in STAGES],
)
def test_invalid_input_names_file_object_and_field(tmp_path, command, case):
    content, said = CASES[case]
    file = tmp_path / "bad.yaml"
    file.write_text(content, encoding="utf-8")
    done = pumice_command(command, file)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == len(said)
    for line, expected in zip(done.stderr.splitlines(), said, strict=True):
        assert line.startswith(f"error: {expected.format(file=file)}")
    assert done.stdout == (f"FAIL {file} (invalid input, not run)\n0 passed, 1 failed\n" if command == "check" else "")


def test_a_file_that_is_not_there():
    done = pumice_command("run", "nowhere.yaml")
    assert (done.returncode, done.stderr) == (2, "error: nowhere.yaml: No such file or directory\n")
