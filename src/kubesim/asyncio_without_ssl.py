"""asyncio for a process that serves plain HTTP: without OpenSSL, an eighth of the memory of an idle server.

asyncio supports Python builds without ``ssl``; it decides once, when it is imported. This module hides ``ssl`` during
that import. ``ssl`` itself can still be imported later. Only TLS over asyncio is unavailable for the life of the
process: a connection that asks for it is closed before a byte is sent unencrypted. Use this only in a process that
serves plain HTTP and makes no TLS connections of its own.
"""

from __future__ import annotations

import sys


def load_asyncio() -> None:
    """Import asyncio without ``ssl``. Where one of them is loaded already, nothing is done: too late."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    # None is how the language reference (5.3.1) says that importing a module is to fail as if it were not there.
    sys.modules["ssl"] = None  # type: ignore[assignment]  # typeshed knows modules only
    try:
        import asyncio  # noqa: F401  # for what it leaves behind: it is not imported a second time
    finally:
        del sys.modules["ssl"]
