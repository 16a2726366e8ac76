"""The command as a whole: help, version, how it ends."""

import errno
import sys

import click
import pytest

import pumice
from pumice.cli import main as entry
from pumice.cli.engine_form import engine_form
from tests.cli.command import EXAMPLES, SOURCES, pumice_command
from tests.support.processes import run_process

HEAVY = ("numpy", "aiohttp", "rich", "yaml", "msgspec")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["demo", "--help"]])
def test_asking_for_help_loads_nothing_heavy(arguments):
    code = (
        "import sys\nfrom pumice.cli.main import cli\n"
        f"try:\n    cli.main({arguments!r}, standalone_mode=False)\n"
        f"finally:\n    print('loaded:', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = run_process(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCES)}
    )
    assert done.stdout.endswith("loaded: []\n")


def test_version():
    done = pumice_command("--version")
    assert (done.stdout, done.returncode) == (f"pumice {pumice.__version__} ({engine_form()})\n", 0)


def test_help_names_every_command():
    done = pumice_command("--help")
    assert done.returncode == 0
    for command in entry.COMMAND_MODULES:
        assert f"\n  {command} " in done.stdout
    assert "..." not in done.stdout.partition("Options:")[2], "no description is cut off"
    titles = [line.removesuffix(":") for line in done.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options", *entry.COMMAND_SECTIONS]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["tpo"], "No such command 'tpo'. Did you mean 'top'?"),
        (["nonsense"], "No such command 'nonsense'."),
        (["job", "lst"], "No such command 'lst'. Did you mean 'list'?"),
    ],
)
def test_misspelt_names_get_a_suggestion(arguments, meant):
    done = pumice_command(*arguments)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"error: {meant}")


def test_a_misspelt_option_gets_a_suggestion():
    done = pumice_command("run", "--trcae", "x")
    assert done.returncode == 2
    assert "--trcae" in done.stderr.splitlines()[-1] and "Did you mean" in done.stderr.splitlines()[-1]
    assert "--trace" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [["run"], ["nonsense"], ["run", "--nonsense", "x"], ["run", "-o", "xml", "x"], ["check"], ["entitle"]]
)
def test_usage_errors_exit_with_2(arguments):
    done = pumice_command(*arguments)
    assert done.returncode == 2
    assert "Usage: pumice" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert done.stdout == ""


def test_internal_error_is_one_line_and_exit_status_70(monkeypatch, capsys):
    @click.command()
    def broken():
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setitem(entry.cli.commands, "broken", broken)
    monkeypatch.setattr(sys, "argv", ["pumice", "broken"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 70
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: RuntimeError: first line (test_main.py:")
    assert said.err.count("\n") == 1
    assert "please report" in said.err


def test_a_full_disk_is_no_bug(monkeypatch, capsys):
    @click.command()
    def writing():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(entry.cli.commands, "writing", writing)
    monkeypatch.setattr(sys, "argv", ["pumice", "writing"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 74
    assert capsys.readouterr().err == "error: the output: No space left on device\n"


def test_an_interrupt_ends_quietly(monkeypatch, capsys):
    @click.command()
    def endless():
        raise KeyboardInterrupt

    monkeypatch.setitem(entry.cli.commands, "endless", endless)
    monkeypatch.setattr(sys, "argv", ["pumice", "endless"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130
    assert capsys.readouterr().out == ""


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m pumice run --trace -o json {EXAMPLES}/blocking.yaml | head -1"
    done = run_process(
        command,
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr) == ("{\n", "")
