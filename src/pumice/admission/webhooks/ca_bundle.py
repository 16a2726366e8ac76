"""Publish the CA bundle, and serve a certificate only once the API server trusts it.

The certificate authorities are in the webhook configurations (``caBundle``). A new certificate is served only after its
authority has been in all of them for a while; until then the old one is, which stays trusted beside it. If a
configuration is overwritten, by applying a manifest say, the next check restores the authorities.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Sequence

from kubebase.certificates import Certificate, signer
from pumice.admission.webhooks.certificate_source import CertificateSource
from pumice.kube.client.api import Api, Patch
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import Document, Resource

log = logging.getLogger(__name__)

_GROUP = "admissionregistration.k8s.io/v1"
MUTATING: Resource[Document] = Resource(
    _GROUP, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", dict, namespaced=False
)
VALIDATING: Resource[Document] = Resource(
    _GROUP, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", dict, namespaced=False
)

EVERY = 3.0
"""Seconds between two checks of the certificate and the configurations. After a configuration was
overwritten, the API server may distrust us this long, and objects under admission cannot be written. A check
is three small reads.
"""
SOON = 1.0
"""The same while there is an error."""
SETTLE = 30.0
"""Seconds after which all API servers of a cluster have observed a configuration."""


class CaBundlePublisher:
    """Keeps the configurations and the served certificate in sync; ``run`` until cancelled."""

    def __init__(
        self,
        api: Api,
        source: CertificateSource,
        configuration: str,
        show: Callable[[Certificate], None],
        *,
        every: float = EVERY,
        settle: float = SETTLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._source = source
        self._configuration = configuration
        self._show = show
        self._every = every
        self._settle = settle
        self._clock = clock
        self._shown: Certificate | None = None
        self._wanted: Certificate | None = None
        self._since = 0.0  # when the wanted authorities were first found in all configurations
        self.last_error = "no certificate yet"
        """The last error; empty if there is none."""

    async def run(self) -> None:
        """Check periodically."""
        while True:
            try:
                await self.look()
                self.last_error = ""
            except (ApiError, UnreachableError, OSError) as error:
                if self.last_error != str(error):
                    log.warning('Failed to maintain the certificate or the webhook configurations: error="%s"', error)
                self.last_error = str(error)
            await asyncio.sleep(min(SOON, self._every) if self.last_error else self._every)

    async def look(self) -> None:
        """Publish the wanted authorities, and serve the certificate once it is trusted."""
        found = await self._source.current()
        published = await self._publish(found.authorities) if found.authorities else True
        if found != self._wanted or not published:
            self._wanted, self._since = found, self._clock()
        if found == self._shown:
            return
        if not self._is_trusted_still(found) or self._clock() - self._since >= self._settle:
            self._show(found)
            self._shown = found

    def _is_trusted_still(self, found: Certificate) -> bool:
        """Whether the served certificate stays trusted beside the new one, so that there is time."""
        return self._shown is not None and bool(found.authorities) and signer(self._shown) in found.authorities

    async def _publish(self, authorities: bytes) -> bool:
        """Write the authorities into the configurations; returns whether they were there already."""
        bundle = base64.b64encode(authorities).decode()
        stood = [await self._publish_in(resource, bundle) for resource in (MUTATING, VALIDATING)]
        return all(stood)

    async def _publish_in(self, resource: Resource[Document], bundle: str) -> bool:
        try:
            found = await self._api.get(resource, self._configuration)
        except ApiError as error:
            if error.not_found:
                return True  # no configuration refers to us, so no trust is needed
            raise
        wanting = _wanting(found.get("webhooks") or (), bundle)
        if not wanting:
            return True
        patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in wanting]}
        await self._api.patch(resource, self._configuration, patch, how=Patch.STRATEGIC)
        log.info(
            "Updated the CA bundle of the webhook configuration: kind=%s name=%s", resource.kind, self._configuration
        )
        return False


def _wanting(webhooks: Sequence[Document], bundle: str) -> list[str]:
    """The webhooks of a configuration with a different bundle."""
    return [str(one["name"]) for one in webhooks if (one.get("clientConfig") or {}).get("caBundle") != bundle]
