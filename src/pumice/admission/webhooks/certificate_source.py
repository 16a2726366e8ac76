"""The source of the webhooks' certificate: a Secret that all replicas share, or files from the administrator.

The first replica creates the Secret, and the first that sees it expire renews it. Both write only if the Secret is
unchanged, and otherwise use its new content: so all replicas serve the same certificate. If the Secret was lost, other
replicas still serve the old certificate for a while: so the replica that creates a new one keeps the old authority
trusted as well.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from kubebase.certificates import VALID, Certificate, issue, renewed, serves
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import Document, Resource

log = logging.getLogger(__name__)

SECRETS: Resource[Document] = Resource("v1", "secrets", "Secret", dict)
AUTHORITIES, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
"""The conventional keys of the parts in a Secret."""
EARLY = timedelta(days=30)
"""How long before its expiry a certificate is renewed."""
TRIES = 5
COMMON_NAME = "pumice"
"""The subject of certificates; issuers are named after it."""


class CertificateSource(Protocol):
    """Supplies a certificate."""

    async def current(self) -> Certificate:
        """The certificate to serve. Raises ``ApiError`` or ``UnreachableError`` if it is not available."""


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class SecretCertificate:
    """A self-issued certificate, stored in a Secret."""

    api: Api
    namespace: str
    name: str
    hosts: Sequence[str]
    """The DNS name of the server."""
    valid: timedelta = VALID
    early: timedelta = EARLY
    now: Callable[[], datetime] = _utc
    _last: Certificate | None = field(default=None, init=False, repr=False)  # the content at the last read

    async def current(self) -> Certificate:
        """The content of the Secret; created or renewed when due."""
        for _ in range(TRIES):
            try:
                self._last = await self._attempt()
                return self._last
            except ApiError as error:
                if not (error.already_exists or error.conflict):
                    raise
        raise ApiError(
            409, "Conflict", f"secret {self.namespace}/{self.name} keeps changing; cannot store the certificate"
        )

    async def _attempt(self) -> Certificate:
        try:
            secret = await self.api.get(SECRETS, self.name, self.namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            made = self._another(self._last)
            about = {"name": self.name, "namespace": self.namespace}
            new = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": about}
            await self.api.create(SECRETS, {**new, "data": _encoded(made)}, self.namespace)
            log.warning("Created the serving certificate: hosts=%s", ", ".join(self.hosts))
            return made
        found = _decoded(secret.get("data") or {})
        if serves(found, self.hosts, self.now(), self.early):
            return found
        made = self._another(found)
        await self.api.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **_encoded(made)}})
        log.warning("Renewed the serving certificate: hosts=%s", ", ".join(self.hosts))
        return made

    def _another(self, old: Certificate | None) -> Certificate:
        now = self.now()
        if old:
            return renewed(old, self.hosts, now, self.valid, common_name=COMMON_NAME)
        return issue(self.hosts, now, self.valid, common_name=COMMON_NAME)


@dataclass(frozen=True, slots=True)
class FileCertificate:
    """A certificate that the administrator manages. File changes are followed."""

    certificate: Path
    key: Path
    authorities: Path | None = None
    """The authorities that the API server should trust; None: the administrator publishes them."""

    async def current(self) -> Certificate:
        """The content of the files."""
        trusted = self.authorities.read_bytes() if self.authorities else b""
        return Certificate(trusted, self.certificate.read_bytes(), self.key.read_bytes())


def _encoded(found: Certificate) -> dict[str, str]:
    parts = {AUTHORITIES: found.authorities, CERTIFICATE: found.certificate, KEY: found.key}
    return {name: base64.b64encode(content).decode() for name, content in parts.items()}


def _decoded(data: dict[str, str]) -> Certificate:
    """The content of a Secret; undecodable values count as empty, and are replaced."""

    def part(name: str) -> bytes:
        try:
            return base64.b64decode(data.get(name) or "", validate=True)
        except (binascii.Error, ValueError):
            return b""

    return Certificate(part(AUTHORITIES), part(CERTIFICATE), part(KEY))
