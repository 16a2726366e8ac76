"""Credentials that a command supplies: ``users[].user.exec`` in a kubeconfig, client-go's credential plugins.

Managed clusters issue short-lived tokens through a command, for example ``aws eks get-token`` or
``gke-gcloud-auth-plugin``. The command prints an ExecCredential object with a token or a client certificate. All
clients that were made from one kubeconfig share one ``ExecPlugin``, so that the command runs once for all of them: at
first use, shortly before the credential expires, and when the API server answers 401.

The protocol: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import json
import logging
import math
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubebase.timestamps import moment_of
from pumice.kube.client.api_errors import CredentialError
from pumice.kube.client.credentials import Credential
from pumice.kube.client.tls import load_client_certificate

EXEC_INFO = "KUBERNETES_EXEC_INFO"
"""The environment variable with the ExecCredential request for the command."""
RUN_SECONDS = 60.0
"""Timeout of the command in seconds. An interactive command has none."""
REFRESH_SECONDS = 60.0
"""Seconds before its expiry at which a credential is refreshed, but never before 90 % of its lifetime."""
RETRY_SECONDS = 5.0
"""The command does not run again so soon after it failed, or after a 401 made it run."""
SHOWN = 2000
"""Maximum number of characters of the command's output in an error message: the last ones."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The entry ``user.exec`` of a kubeconfig."""

    field: str
    """The location of the entry, for errors: ``FILE: users[NAME].user.exec``."""
    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: dict[str, object] | None = None
    """The cluster, as passed to a command with ``provideClusterInfo``."""


class ExecPlugin:
    """The credential that a command supplies, cached until shortly before it expires."""

    def __init__(
        self,
        config: ExecConfig,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._clock = clock  # expiry is a date
        self._monotonic = monotonic
        self._terminal = True
        self._timeout = RUN_SECONDS
        self._lock = threading.Lock()  # one run at a time; who waits for it takes its result
        self._credential: Credential | None = None
        self._refresh_at = -math.inf
        self._failure: CredentialError | None = None
        self._retry_at = -math.inf
        self._renew_at = -math.inf

    def detach(self, timeout: float = RUN_SECONDS) -> None:
        """Run the command without the terminal from now on, because the caller uses the terminal itself."""
        self._terminal, self._timeout = False, timeout

    def cached(self) -> Credential | None:
        """The credential at hand; None if the command must run first."""
        return self._credential if self._clock() < self._refresh_at else None

    def obtain(self) -> Credential:
        """The credential; runs the command if need be."""
        with self._lock:
            found = self.cached()
            if found is not None:
                return found
            if self._failure is not None and self._monotonic() < self._retry_at:
                raise CredentialError(str(self._failure))
            try:
                return self._refresh()
            except CredentialError as error:
                old = self._credential
                if old is None or old.expires is None or old.expires <= self._clock():
                    raise
                log.warning('Failed to refresh the credential, using the one that expires soon: error="%s"', error)
                self._refresh_at = min(old.expires, self._clock() + RETRY_SECONDS)
                return old

    def renew(self, refused: Credential) -> bool:
        """Run the command again after a 401, unless another call has; returns whether the credential is new."""
        with self._lock:
            if self._credential == refused:
                if self._monotonic() < self._renew_at:
                    return False
                self._renew_at = self._monotonic() + RETRY_SECONDS
                self._refresh()
            return self._credential != refused

    def _refresh(self) -> Credential:
        try:
            found = run_command(self.config, terminal=self._terminal, timeout=self._timeout)
        except CredentialError as error:
            self._failure, self._retry_at = error, self._monotonic() + RETRY_SECONDS
            raise
        self._credential, self._failure = found, None
        self._refresh_at = math.inf
        if found.expires is not None:
            life = found.expires - self._clock()
            self._refresh_at = found.expires - min(REFRESH_SECONDS, life / 10)
        return found


def run_command(config: ExecConfig, *, terminal: bool = True, timeout: float = RUN_SECONDS) -> Credential:
    """Run the command and parse its output; raises ``CredentialError``."""
    interactive = _interactive(config, terminal)
    spec: dict[str, object] = {"interactive": interactive}
    if config.cluster is not None:
        spec["cluster"] = config.cluster
    info = json.dumps({"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec})
    try:
        done = subprocess.run(
            [config.command, *config.arguments],
            env={**os.environ, **dict(config.environment), EXEC_INFO: info},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,  # questions are for the person at the terminal
            timeout=None if interactive else timeout,
            check=False,
        )
    except FileNotFoundError:
        raise _error(config, "executable not found", config.install_hint) from None
    except OSError as error:
        raise _error(config, f"cannot be executed: {error.strerror}", config.install_hint) from None
    except subprocess.TimeoutExpired as error:
        raise _error(config, f"timed out after {timeout:g} s", _text(error.stderr)) from None
    printed = _text(done.stderr)
    if done.returncode < 0:
        raise _error(config, f"was killed by signal {-done.returncode}", printed)
    if done.returncode:
        raise _error(config, f"failed with exit code {done.returncode}", printed)
    if printed:
        log.info(
            'Credential plugin wrote to standard error: field="%s" command=%s output="%s"',
            config.field,
            config.command,
            printed,
        )
    return _read(config, done.stdout, printed)


def _interactive(config: ExecConfig, terminal: bool) -> bool:
    """Whether the command may be interactive: its mode allows that, and standard input is a terminal."""
    available = terminal and sys.stdin is not None and sys.stdin.isatty()
    if config.interactive_mode == "Always" and not available:
        raise _error(config, "requires a terminal (interactiveMode: Always), but standard input is not a terminal")
    return available and config.interactive_mode != "Never"


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


_decoder = msgspec.json.Decoder(_ExecCredential)


def _read(config: ExecConfig, output: bytes, printed: str) -> Credential:
    """The credential in the command's output, which no error repeats: it may contain secrets."""

    def wrong(what: str) -> CredentialError:
        return _error(config, f"did not print a valid ExecCredential: {what}", printed)

    try:
        found = _decoder.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise wrong(str(error)) from None
    if found.kind != "ExecCredential":
        raise wrong(f"kind: Invalid value: {found.kind!r}: must be 'ExecCredential'")
    if found.api_version != config.api_version:
        raise wrong(
            f"apiVersion: Invalid value: {found.api_version!r}: must be {config.api_version!r}, as in the kubeconfig"
        )
    status = found.status or _Status()
    token, certificate, key = status.token or "", status.client_certificate_data or "", status.client_key_data or ""
    if not (token or certificate or key):
        raise wrong("status: Required value: must have a token or a client certificate")
    if bool(certificate) != bool(key):
        raise wrong(f"status.client{'Key' if certificate else 'Certificate'}Data: Required value")
    expires = None
    if status.expiration_timestamp:
        try:
            expires = moment_of(status.expiration_timestamp) / 1e6
        except ValueError:
            raise wrong(
                f"status.expirationTimestamp: Invalid value: {status.expiration_timestamp!r}: must be "
                "an RFC 3339 timestamp"
            ) from None
    if certificate:
        try:
            load_client_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate.encode(), key.encode())
        except OSError as error:  # SSLError is one
            raise wrong(f"status.clientCertificateData and clientKeyData: Invalid value: {error}") from None
    return Credential(token, certificate.encode(), key.encode(), expires)


def _error(config: ExecConfig, what: str, *details: str) -> CredentialError:
    """Names the user entry and the command; arguments are left out, because they may contain secrets."""
    told = [f"{config.field}: credential plugin {config.command} {what}", *(text for text in details if text)]
    return CredentialError("\n".join(told))


def _text(printed: bytes | str | None) -> str:
    text = printed.decode(errors="replace") if isinstance(printed, bytes) else printed or ""
    return text.strip()[-SHOWN:]
