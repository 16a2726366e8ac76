"""``pumice demo``."""

import re
import shutil
import sys
from collections import Counter

import pytest
from click.testing import CliRunner

from pumice.cli.main import cli
from pumice.cli.scenario.demo_command import IDLE_QUEUE, DemoRun
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import open_simulation
from tests.cli.command import EXAMPLES, SOURCES, pumice_command
from tests.support.processes import run_process


def test_snapshots_without_a_terminal():
    done = pumice_command("demo")
    assert (done.returncode, done.stderr) == (0, "")
    said = [line for line in done.stdout.splitlines() if line.startswith("cycle ")]
    assert len(said) == 4
    for words, caption in zip(("is idle", "has jobs again", "make way", "keeps it"), said, strict=True):
        assert words in caption
    assert "Try next:" in done.stdout
    assert "\x1b" not in done.stdout
    # At first it has nothing, in the end the half that its weight of 2 in 4 stands for.
    used = [line.split() for line in done.stdout.splitlines() if f"|--{IDLE_QUEUE}" in line]
    assert "0%" in used[0]
    assert used[-1][3:7] == ["50%", "50%", "32", "48"]


def test_commands_to_try_next_can_be_copied(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # as in a checkout, where make demo calls the program by its path
    monkeypatch.setattr(sys, "argv", [".venv/bin/pumice", "demo"])
    said = CliRunner().invoke(cli, ["demo"], catch_exceptions=False).output
    commands = said.partition("Try next:\n")[2].splitlines()
    assert len(commands) == 4 and all(line.startswith("  .venv/bin/pumice ") for line in commands)


def test_summary_is_measured():
    manifests = read_manifests([str(EXAMPLES / "demo.yaml")])
    story = DemoRun(open_simulation(manifests, "demo.yaml"))
    shares, evicted = [], {}

    def seen(now):
        shares.append(now.simulation.cluster.engine.tree.root.held[0] / 128_000)
        evicted[now.cycle] = sum(now.evicted.values())

    story.run(seen)
    assert min(shares) == 1.0
    assert story.most_idle == 0
    # Five seconds of patience, a cycle a second. Of its 32 tasks 6 get their place in cycles 40 to 45 because another
    # task ended; the other 26 are taken back in cycle 45, all from the two that borrowed. Before and after, nothing.
    assert (story.wake_cycle, story.reclaimed_cycle) == (40, 45)
    assert [cycle for cycle in evicted if evicted[cycle] > evicted.get(cycle - 1, 0)] == [45]
    assert story.evicted == {"serving": 12, "models": 14}
    assert story.borrowers == {"ads", "serving", "models"}
    moral = " ".join(story.summary().split())
    assert "It submitted jobs in cycle 40, and 5 cycles later it had its share back" in moral
    assert "Evicted tasks in all 162 cycles: 14 of models and 12 of serving (borrowers), 0 of other queues." in moral
    assert "None of the cpus and gpus was ever idle." in moral


def test_summary_of_a_run_without_reclaim(tmp_path):
    text = (EXAMPLES / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("reclaim, preempt", "preempt").replace("completions: 160", "completions: 41")
    file = tmp_path / "demo.yaml"
    file.write_text(text, encoding="utf-8")
    story = DemoRun(open_simulation(read_manifests([str(file)]), str(file)))
    story.run(lambda now: None)
    assert story.summary() == "What you saw: science submitted jobs in cycle 40 and did not get its share back."
    story.reclaimed_cycle, story.most_idle, story.evicted = 43, 0.25, Counter(tiles=3)
    moral = " ".join(story.summary().split())
    assert "Evicted tasks in all 43 cycles: none (borrowers), 3 of other queues. At most 25% of the cpus" in moral


def test_the_scenario_can_be_taken_away_and_changed():
    shown = pumice_command("demo", "--yaml").stdout
    assert shown == (EXAMPLES / "demo.yaml").read_text(encoding="utf-8")
    done = pumice_command("check", "-", given=re.sub("seed: 11", "seed: 12", shown))
    assert done.stdout == "PASS demo\n1 passed, 0 failed\n"


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1) for a terminal")
def test_terminal_redraws_after_every_cycle():
    code = (
        "import sys; from pumice.cli import main; from pumice.cli.scenario import demo_command as demo;"
        "demo.READING_SECONDS = demo.FRAME_SECONDS = 0;"
        "sys.argv = ['pumice', 'demo']; main.main()"
    )
    done = run_process(
        ["script", "-qec", f'{sys.executable} -c "{code}"', "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin", "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    assert done.stdout.count("tasks have ended") >= 162
    assert "█" in done.stdout
    assert "What you saw:" in done.stdout
