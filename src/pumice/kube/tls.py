"""TLS towards an API: whom to trust, and who we are."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from pumice.kube.kubeconfig import Access


def client_context(access: Access) -> ssl.SSLContext:
    """What a connection to the cluster needs."""
    context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate:
        # The ssl module reads keys from files only; this one is gone as soon as it has been read.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "client.pem"
            path.touch(mode=0o600)
            path.write_bytes(access.client_certificate + b"\n" + access.client_key)
            context.load_cert_chain(path)
    return context
