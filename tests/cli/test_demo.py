"""``pumice demo``."""

import re
import shutil
import subprocess
import sys

import pytest

from pumice.cli.demo import SLEEPER, Story
from pumice.sim.files import read_manifests
from pumice.sim.simulation import open_simulation
from tests.cli.command import EXAMPLES, SOURCES, pumice_command


def test_it_tells_its_story_in_snapshots_where_there_is_no_terminal():
    done = pumice_command("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{SLEEPER} is idle" in done.stdout
    assert f"{SLEEPER} has woken up" in done.stdout
    assert f"{SLEEPER} has what it is entitled to" in done.stdout
    assert "Try next:" in done.stdout
    assert "\x1b" not in done.stdout
    # At first it has nothing, in the end the half that its weight of 2 in 4 stands for.
    used = [line.split()[-8:] for line in done.stdout.splitlines() if f"|--{SLEEPER}" in line]
    assert "0%" in used[0]
    assert used[-1][-8:-4] == ["50%", "50%", "32", "48"]


def test_what_it_says_at_the_end_was_measured():
    manifests = read_manifests([str(EXAMPLES / "demo.yaml")])
    story = Story(open_simulation(manifests, "demo.yaml"))
    shares = []
    story.tell(lambda now: shares.append(now.simulation.cluster.engine.tree.root.held[0] / 128_000))
    assert min(shares) == 1.0
    assert story.most_idle == 0
    # Its half is 32 tasks, and in each cycle one task of 64 ends: it takes at least 32 of them.
    assert story.served is not None and 32 <= story.served - story.wakes <= 80
    assert f"and {story.served - story.wakes} cycles later had it" in story.moral()
    assert "not one of the cpus and gpus" in story.moral()


def test_the_scenario_can_be_taken_away_and_changed():
    shown = pumice_command("demo", "--yaml").stdout
    assert shown == (EXAMPLES / "demo.yaml").read_text(encoding="utf-8")
    done = pumice_command("check", "-", given=re.sub("seed: 11", "seed: 12", shown))
    assert done.stdout == "PASS demo\n1 passed, 0 failed\n"


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1) for a terminal")
def test_in_a_terminal_the_tree_is_drawn_again_after_every_cycle():
    code = (
        "import sys; from pumice.cli import demo, main; demo.READ = demo.FRAME = 0;"
        "sys.argv = ['pumice', 'demo']; main.main()"
    )
    done = subprocess.run(
        ["script", "-qec", f'{sys.executable} -c "{code}"', "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.stdout.count("tasks have ended so far") >= 242
    assert "█" in done.stdout
    assert "What you saw:" in done.stdout
