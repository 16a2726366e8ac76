"""The hashes that chain the lines of a decision log, so that a line that was changed later is noticed.

Every line ends with ``"chain"``, a hash over the chain of the line before and the rest of this line::

    {"is":"cycle", ... ,"chain":"5be0c1f8a1d4e9073c62b9d8"}

The heading of a file names the chain of the last complete line written before it (``follows``), so the chain goes on
from file to file, also after a crash that left half a line behind. Hashes find damage and later edits of single lines;
whoever may write the folder can compute all of them anew.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from pathlib import Path

_FIELD = b',"chain":"'
_SIZE = 12  # bytes of a hash, which is written in hexadecimal digits
_TAIL = len(_FIELD) + 2 * _SIZE + len(b'"}')
_SEALED = re.compile(rb',"chain":"([0-9a-f]{24})"\}')
_BLOCK = 1 << 16


def chain_of(body: bytes, previous: str) -> str:
    """The chain of a line: ``body`` is its JSON text without the chain."""
    return blake2b(body, digest_size=_SIZE, key=previous.encode()).hexdigest()


def sealed(body: bytes, chain: str) -> bytes:
    """The line with its chain."""
    return b'%b%b%b"}' % (body[:-1], _FIELD, chain.encode())


def unsealed(line: bytes) -> tuple[bytes, str]:
    """The JSON text of a line without its chain, and the chain; "" for a line that has none."""
    found = _SEALED.fullmatch(line, max(0, len(line) - _TAIL))
    if found is None:
        return line, ""
    return line[: found.start()] + b"}", found[1].decode()


def last_chain(path: Path) -> str:
    """The chain of the last complete line of a file; "" if it has none. Raises OSError."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        tail = b""
        while position:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            tail = file.read(step) + tail
            end = tail.rfind(b"\n")
            if end >= _TAIL or (end >= 0 and not position):
                return unsealed(tail[max(0, end - _TAIL) : end])[1]
    return ""
