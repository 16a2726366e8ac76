"""Printing to a terminal or pipe: colors, encodings, and a closed pipe."""

from __future__ import annotations

import os
import sys
from typing import Any

import click


class RefusedInputError(click.ClickException):
    """Input that cannot be used although the command was called as it should be: a message without the usage."""

    exit_code = 2


def use_color() -> bool | None:
    """False if ``NO_COLOR`` is set; None: use colors on a terminal only."""
    return False if os.environ.get("NO_COLOR") else None


OUTPUT_CLOSED = 141  # as a shell counts an end by SIGPIPE


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line. If the reader has closed the pipe (``pumice run x.yaml | head``), exit without an error message."""
    try:
        click.echo(text, err=err, color=use_color())
    except BrokenPipeError:
        # What is still buffered would be tried again at the very end, and complained about.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())
        raise SystemExit(OUTPUT_CLOSED) from None


def print_error(message: str) -> None:
    """Print what is wrong, on standard error."""
    echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)


def terminal_width() -> int:
    """The width of the terminal of standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80


def echo_values(values: Any, output: str) -> None:
    """Print plain values as JSON or YAML, keys sorted."""
    if output == "json":
        import json

        echo(json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False))
    else:
        import yaml

        echo(yaml.safe_dump(values, sort_keys=True, allow_unicode=True).rstrip())


def called_as(program: str) -> str:
    """How a user can call a program again: its name if the PATH finds it, else the path by which it was called."""
    import shutil  # slow to load, and seldom needed

    called = sys.argv[0]
    if shutil.which(program) is not None or os.path.basename(called) != program:
        return program
    return called


def can_encode(characters: str) -> bool:
    """Whether standard output can encode these characters."""
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
