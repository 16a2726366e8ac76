"""Who may come in: the token that clients present, TLS, and the authority that they trust.

On loopback nobody needs any of it: whoever reaches the port is on this machine. A token brings TLS with it, because
clients send none over plain HTTP; and TLS brings a token, because without one kubectl asks for a user name. What had
to be made is kept beside the data, so that a kubeconfig goes on to work after a restart; without data it is new.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubebase.field_error import FieldError
from kubesim.identity import ServerIdentity
from kubesim.private_file import write_private

if TYPE_CHECKING:
    import ssl

TOKEN, TLS = "token", "tls"  # in the data directory


class TlsSetup(NamedTuple):
    """What the server speaks TLS with, and whom clients trust."""

    context: ssl.SSLContext
    authority: bytes


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def needs_tls(host: str, token: str) -> bool:
    """Whether to speak TLS though nobody brought a certificate along."""
    return bool(token) or not is_loopback(host)


def load_tls(certificate: Path, key: Path) -> TlsSetup:
    """TLS with a certificate that somebody brought along; it vouches for itself."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(certificate)
    except ssl.SSLError:
        raise FieldError(f"--tls-cert {certificate}", "is not a certificate in PEM") from None
    try:
        context.load_cert_chain(certificate, key, password="")  # else an encrypted key is asked about on the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"does not belong to the certificate in {certificate}"
        else:
            problem = "is not an unencrypted private key in PEM"
        raise FieldError(f"--tls-key {key}", problem) from None
    return TlsSetup(context, certificate.read_bytes())


def generate_tls(host: str, data: Path | None, identity: ServerIdentity) -> TlsSetup:
    """TLS with certificates of our own making, for this host."""
    from tempfile import TemporaryDirectory

    from kubesim.http.tls import load_or_issue_certificates

    if data is None:
        with TemporaryDirectory(prefix="kubesim-tls-") as folder:  # OpenSSL reads files only
            made = load_or_issue_certificates(Path(folder), host, identity.name)
            return TlsSetup(made.context(), made.authority.read_bytes())
    made = load_or_issue_certificates(data / TLS, host, identity.name)
    return TlsSetup(made.context(), made.authority.read_bytes())


def load_or_create_token(data: Path | None) -> str:
    """A token of our own making: the one that is kept beside the data, if there is one."""
    kept = data / TOKEN if data else None
    if kept and kept.exists() and (token := kept.read_text().strip()):
        return token
    import secrets

    token = secrets.token_urlsafe(32)
    if kept:
        write_private(kept, f"{token}\n".encode())
    return token
