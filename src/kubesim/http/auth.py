"""Authentication: the bearer token of clients, TLS, and the certificate authority that clients trust.

On the loopback interface none of it is needed, because only processes of this machine reach the port. A token implies
TLS, because clients send no token over plain HTTP; TLS implies a token, because kubectl otherwise asks for a user name.
Generated tokens and certificates are kept in the data directory, so that a kubeconfig stays valid after a restart;
without a data directory they are new at each start.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubebase.field_error import FieldError
from kubebase.text_cache import cached_by_text
from kubesim.identity import ServerIdentity
from kubesim.private_file import write_private

if TYPE_CHECKING:
    import ssl

TOKEN, TLS = "token", "tls"  # in the data directory


class TlsSetup(NamedTuple):
    """The TLS context of the server, and the authority that clients trust."""

    context: ssl.SSLContext
    authority: bytes


@cached_by_text(64)  # each request names its host
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def needs_tls(host: str, token: str) -> bool:
    """Whether TLS is needed even without a given certificate."""
    return bool(token) or not is_loopback(host)


def load_tls(certificate: Path, key: Path) -> TlsSetup:
    """TLS with a given certificate, which clients trust directly."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(certificate)
    except ssl.SSLError:
        raise FieldError(f"--tls-cert {certificate}", "is not a certificate in PEM") from None
    try:
        context.load_cert_chain(certificate, key, password="")  # otherwise OpenSSL prompts for the password of a key
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"does not belong to the certificate in {certificate}"
        else:
            problem = "is not an unencrypted private key in PEM"
        raise FieldError(f"--tls-key {key}", problem) from None
    return TlsSetup(context, certificate.read_bytes())


def generate_tls(host: str, data: Path | None, identity: ServerIdentity) -> TlsSetup:
    """TLS with a generated certificate for this host."""
    from tempfile import TemporaryDirectory

    from kubesim.http.tls import load_or_issue_certificates

    if data is None:
        with TemporaryDirectory(prefix="kubesim-tls-") as folder:  # OpenSSL reads files only
            made = load_or_issue_certificates(Path(folder), host, identity.name)
            return TlsSetup(made.context(), made.authority.read_bytes())
    made = load_or_issue_certificates(data / TLS, host, identity.name)
    return TlsSetup(made.context(), made.authority.read_bytes())


def load_or_create_token(data: Path | None) -> str:
    """The token in the data directory, or a new one."""
    kept = data / TOKEN if data else None
    if kept and kept.exists() and (token := kept.read_text().strip()):
        return token
    import secrets

    token = secrets.token_urlsafe(32)
    if kept:
        write_private(kept, f"{token}\n".encode())
    return token
