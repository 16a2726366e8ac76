"""The entry point of all programs: errors become a message and an exit status, never a traceback.

Exit status: 0 success; 1 failure (not found, refused, unreachable, an expectation that does not hold); 2 invalid usage
or input; 70 internal error; 74 nothing more can be written; 130 interrupted; 141 the reader of the output has closed
it.
"""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import click

from pumice import __version__
from pumice.cli.terminal import echo, print_error
from pumice.input_errors import BadInput

BAD_INPUT = 2
INTERNAL_ERROR = 70  # EX_SOFTWARE
NO_SPACE = 74  # EX_IOERR
INTERRUPTED = 130


def run_program(command: click.Command, name: str) -> NoReturn:
    """Run a command as the program of that name, and exit."""
    sys.exit(_exit_status(command, name))


def _exit_status(command: click.Command, name: str) -> int:
    try:
        status = command.main(prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx:
            echo(error.ctx.get_usage(), err=True)
            echo(f"Try '{error.ctx.command_path} --help' for help.\n", err=True)
        print_error(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BadInput as error:
        for problem in error.problems:
            print_error(str(problem))
        return BAD_INPUT
    except Exception as found:  # the promise of this module: no traceback, whatever it is
        mistake = found
        while isinstance(mistake, ExceptionGroup):
            mistake = mistake.exceptions[0]  # the cause, not the task group around it
        import traceback

        if isinstance(mistake, OSError) and mistake.errno in (errno.ENOSPC, errno.EDQUOT):
            print_error(f"{mistake.filename or 'the output'}: {mistake.strerror}")
            return NO_SPACE
        frame = traceback.extract_tb(mistake.__traceback__)[-1]
        what = f"{type(mistake).__name__}: {mistake}".splitlines()[0]
        print_error(
            f"{what} ({frame.filename.rpartition('/')[2]}:{frame.lineno}). This is a bug in Pumice "
            f"{__version__}, not an error in your input: please report this line with the files that led to it."
        )
        return INTERNAL_ERROR
    return status if isinstance(status, int) else 0
