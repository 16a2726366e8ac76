"""Options of ``vsub`` in comment lines of a script, as people know them from ``#SBATCH``.

```
#!/bin/sh
#PUMICE -q research -R cpu=2,nvidia.com/gpu=1
#PUMICE --time 2h
```

They stand before the first line that is neither empty nor a comment. The command line wins over them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

MARK = "#PUMICE"
MOST_BYTES = 64 * 1024
"""How much of a script is read: its options stand at the beginning."""
REFUSED = frozenset({"--filename", "--help"})
"""Options that a script cannot set."""
_DIRECTIVE = re.compile(rf"{MARK}(?:\s+(.*))?$")


def find_script(command: Sequence[str]) -> Path | None:
    """The script that a command runs: its first word that is a text file, of the first two (``python train.py``)."""
    for word in command[:2]:
        path = Path(word)
        try:
            if path.is_file():
                with path.open("rb") as file:
                    return None if b"\0" in file.read(1024) else path
        except OSError:
            continue
    return None


def script_options(command: click.Command, ctx: click.Context, path: Path) -> dict[str, Any]:
    """The options that a script sets, by parameter, as they are written. ``UsageError`` names the file and the line."""
    found: dict[str, Any] = {}
    for number, text in _directives(path):
        where = f"{path}:{number}"
        try:
            words = shlex.split(text, comments=True)
            options, _, order = command.make_parser(ctx).parse_args(words)
        except ValueError as error:
            raise click.UsageError(f"{where}: {error}", ctx) from None
        except click.UsageError as error:
            raise click.UsageError(f"{where}: {error.format_message()}", ctx) from None
        for param in dict.fromkeys(order):
            name = param.name or ""
            if isinstance(param, click.Argument):
                if isinstance(options.get(name), str):
                    raise click.UsageError(f"{where}: {options[name]!r} is not an option", ctx)
                continue
            if REFUSED.intersection(param.opts):
                raise click.UsageError(f"{where}: {max(param.opts, key=len)} cannot be set by a script", ctx)
            _check(param, ctx, options[name], where)
            several = getattr(param, "multiple", False)
            found[name] = [*found.get(name, ()), *options[name]] if several else options[name]
    return found


def _check(param: click.Parameter, ctx: click.Context, value: Any, where: str) -> None:
    try:
        param.process_value(ctx, value)
    except click.UsageError as error:
        raise click.UsageError(f"{where}: {error.format_message()}", ctx) from None


def _directives(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with options: number and options."""
    try:
        with path.open("rb") as file:
            lines = file.read(MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return  # a script that cannot be read has no options; whether it can be run is seen later
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            return
        if match := _DIRECTIVE.match(text):
            yield number, match[1] or ""
