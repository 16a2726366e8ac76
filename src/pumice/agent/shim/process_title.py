"""The command line of this process as ``ps`` shows it."""

from __future__ import annotations

import ctypes

_FIRST, _LAST = 45, 46  # arg_start and arg_end in /proc/self/stat, counted from the state on


def set_title(*words: str) -> None:
    """Show these words instead of the command line, as far as there is room for them; the end is worth more."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
        begin, room = int(fields[_FIRST]), int(fields[_LAST]) - int(fields[_FIRST])
    except (OSError, IndexError, ValueError):
        return  # a kernel that does not say where it is
    text = b"\0".join(word.encode(errors="surrogateescape") for word in words)
    if begin and room > 1:
        ctypes.memmove(begin, text[-(room - 1) :].ljust(room, b"\0"), room)
