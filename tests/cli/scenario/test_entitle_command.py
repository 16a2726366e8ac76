"""``pumice entitle``."""

import json

from tests.cli.command import EXAMPLES, pumice_command


def test_the_static_target_as_json():
    done = pumice_command("entitle", "-o", "json", EXAMPLES / "rescaling.yaml")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    # 10 cpu halved between the branches, all 10 gpu for the only one who asks (see the example).
    assert report["jobs"] == {
        "default/n11": {"tasks": 5.0, "entitled": {"cpu": "5"}, "share": 0.5},
        "default/n21": {"tasks": 5.0, "entitled": {"cpu": "5"}, "share": 0.5},
        "default/n22": {"tasks": 10.0, "entitled": {"nvidia.com/gpu": "10"}, "share": 1.0},
    }
    assert report["queues"]["root/n2"] == {"entitled": {"cpu": "5", "nvidia.com/gpu": "10"}, "share": 1.0}
    assert done.stdout == json.dumps(report, indent=2, sort_keys=True) + "\n"


def test_the_table_has_targets_alone():
    done = pumice_command("entitle", EXAMPLES / "namespaces.yaml")
    assert done.returncode == 0
    assert "RUNNING" not in done.stdout and "USED" not in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["ns4/work", "q2", "2.00", "12%", "cpu", "2"]


def test_bad_input_ends_with_2():
    done = pumice_command("entitle", "-", given="kind: Nod\nmetadata: {name: n}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: standard input: Nod/n: kind: 'Nod' is not known, did you mean 'Node'?\n"
