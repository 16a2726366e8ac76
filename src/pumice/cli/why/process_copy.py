"""Work in a copy of this process, whose memory nobody sees afterwards.

An engine that explains a job runs ahead and cannot be used again, and building it takes most of the time. A copy of the
process shares its memory until one of both writes.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class CopyError(RuntimeError):
    """The copy ended without a result."""


def in_process_copy(work: Callable[[], T]) -> T:
    """The result of work in a copy of this process. It must not print. Raises ``CopyError``."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as file:
                pickle.dump(work(), file)
            status = 0
        finally:
            os._exit(status)  # without what is left to do at the end of a program, which belongs to the original
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        content = file.read()
    _, status = os.waitpid(process, 0)
    if status or not content:
        raise CopyError(f"a copy of the process ended with status {os.waitstatus_to_exitcode(status)}")
    result: T = pickle.loads(content)
    return result
