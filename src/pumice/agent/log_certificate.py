"""The certificate with which an agent serves logs, made by a process of its own.

Otherwise the library that makes it, 10 MiB, would stay in the memory of the agent.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

ISSUE_SECONDS = 60.0
BETWEEN = b"\0"
"""What the process prints between the authority and the certificate with its key."""


def make_tls_context(address: str) -> tuple[ssl.SSLContext, bytes]:
    """The TLS context of a server at this address, and the authority that its clients trust."""
    import ssl

    command = [sys.executable, "-m", __name__, address]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=ISSUE_SECONDS)
    authority, _, server = done.stdout.partition(BETWEEN)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with os.fdopen(os.memfd_create("server.pem"), "wb", buffering=0) as file:  # OpenSSL reads files only
        file.write(server)
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, authority


def main(address: str) -> None:
    """Print authority, certificate and key."""
    from kubebase.certificates import issue

    made = issue([address], common_name="pumice-agent")
    sys.stdout.buffer.write(made.authorities + BETWEEN + made.certificate + made.key)


if __name__ == "__main__":
    main(*sys.argv[1:])
