"""``pumice``: the commands, and how each of them ends.

Importing this module costs little: a command brings in what it needs when it runs. Whatever happens, a person
sees a line that says what is wrong and a script an exit status, never a traceback.
"""

from __future__ import annotations

import signal
import sys
import traceback

import click

from pumice import __version__
from pumice.cli.check import check
from pumice.cli.demo import demo
from pumice.cli.entitle import entitle
from pumice.cli.fsck import fsck
from pumice.cli.run import run
from pumice.cli.scheduler import controllers, scheduler
from pumice.cli.sim_node import sim
from pumice.cli.terminal import complain, echo
from pumice.cli.up import up
from pumice.sim.problems import BadInput

BAD_INPUT = 2
INTERNAL = 70  # EX_SOFTWARE
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pumice", message="%(prog)s %(version)s")
def cli() -> None:
    """A hierarchical fair-share batch scheduler that speaks the Volcano API.

    \b
    FILE is a YAML stream of Kubernetes objects, a folder of them, or - for standard input.
    Exit status: 0 as asked, 1 an expectation does not hold, 2 bad input.
    """


for command in (run, check, entitle, demo, up, scheduler, controllers, sim, fsck):
    cli.add_command(command)


def main() -> None:
    """The entry point of the command ``pumice``."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `pumice run x.yaml | head` just ends
    sys.exit(_run())


def _run() -> int:
    try:
        status = cli.main(prog_name="pumice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx:
            echo(error.ctx.get_usage(), err=True)
            echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
        complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BadInput as error:
        for problem in error.problems:
            complain(str(problem))
        return BAD_INPUT
    except Exception as error:  # the promise of this module: no traceback, whatever it is
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        complain(
            f"{what} ({frame.filename.rpartition('/')[2]}:{frame.lineno}). This is a mistake in Pumice "
            f"{__version__}, not in your input: please report this line with the files that led to it."
        )
        return INTERNAL
    return status if isinstance(status, int) else 0
