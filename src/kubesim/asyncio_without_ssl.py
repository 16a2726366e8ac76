"""asyncio for a process that serves plain HTTP: without OpenSSL, which is an eighth of a server's memory at rest.

asyncio works with ``ssl`` or, on a Python that was built without it, without; which, it finds out once, by importing
it. We let it find nothing. ``ssl`` itself stays as it is, and whoever imports it later gets it. Only TLS over asyncio
is gone, for the life of the process, and nothing takes its place: a connection that wants it is closed before a byte
is sent in the clear. So this is for a process that is known to serve plain HTTP alone, and to be nobody's client.
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
