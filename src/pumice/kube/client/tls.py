"""TLS to an API server: trusted authorities and the client certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from pumice.kube.client.credentials import Credential
    from pumice.kube.client.kubeconfig import Access


class Trust:
    """The authorities that a session trusts. A file is replaced when the cluster gets new ones."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.context = client_context(access) if access.endpoint.startswith("https://") else False
        """The TLS context of new connections; False without TLS."""

    def present(self, credential: Credential) -> None:
        """Make connections with this credential's client certificate from now on, if it has one."""
        access = self._access
        if not self.context or not credential.certificate:
            return
        if (credential.certificate, credential.key) != (access.client_certificate, access.client_key):
            self._access = replace(access, client_certificate=credential.certificate, client_key=credential.key)
            self.context = client_context(self._access)

    def renew(self) -> None:
        """Read the file again, if there is one: a server may be trusted by the new authorities only."""
        file = self._access.authority_file
        if file is None:
            return
        try:
            access = replace(self._access, authority=file.read_bytes())
            if access != self._access:
                self.context, self._access = client_context(access), access
        except (OSError, ValueError) as error:  # an SSLError is the first, bytes that are no text are the second
            import logging  # slow to load, and seldom needed

            words = 'Failed to load the CA bundle, using the previous one: path=%s error="%s"'
            logging.getLogger(__name__).warning(words, file, error)


def client_context(access: Access) -> ssl.SSLContext:
    """The TLS context of a connection to the cluster."""
    import ssl  # OpenSSL takes 6 MiB, which processes on a Unix socket do not need

    context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate:
        load_client_certificate(context, access.client_certificate, access.client_key)
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present a client certificate (PEM) on connections made with this context; ``SSLError`` if it cannot be used."""
    # The ssl module reads keys from files only; this one is gone as soon as it has been read.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(path, password="")  # with none at all it would ask at the terminal
