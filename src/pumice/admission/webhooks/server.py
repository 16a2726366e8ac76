"""The HTTPS server for admission webhooks: ``/mutate`` and ``/validate``.

Until the caches are synced it answers 503: the API server then applies the ``failurePolicy`` of the webhook, as if the
server were down. So does a rule that raises: an object that was not validated must not count as allowed.

Any pod in the cluster can connect. So reads are limited in size, time and number.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from kubebase.certificates import Certificate
from pumice.admission.request import Settings
from pumice.admission.webhooks.ca_bundle import CaBundlePublisher
from pumice.admission.webhooks.certificate_source import CertificateSource
from pumice.admission.webhooks.handler import AdmissionHandler, ClusterImpersonationCheck
from pumice.admission.webhooks.informer_view import InformerView
from pumice.admission.webhooks.reviews import ReviewError, ReviewRequest, ReviewResponse, read, write
from pumice.kube.client.api import Api

log = logging.getLogger(__name__)

LARGEST = 8 << 20
"""Maximum bytes of a review, which may contain an object twice; an API server accepts none above 3 MiB."""
READING, ABREAST = 4.0, 32
"""Seconds within which a review must have arrived, and how many are read at a time."""
FINISH = 5.0
"""Seconds for calls in flight to finish on shutdown."""

MUTATE, VALIDATE = "/mutate", "/validate"
CONFIGURATION = "pumice"
"""The names of the webhook configurations that refer to this server."""


class Webhooks:
    """Serves reviews until cancelled."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        at: socket.socket,
        source: CertificateSource,
        configuration: str = CONFIGURATION,
    ) -> None:
        self.view = InformerView(api, settings)
        self.ca_bundle = CaBundlePublisher(api, source, configuration, self._show)
        self.answers: Counter[tuple[str, str, str]] = Counter()
        """Number of responses: resource, operation, and result (filled, allowed, refused, failed)."""
        self.url = ""
        """The address it listens on, once it does."""
        self._reviews = AdmissionHandler(self.view, ClusterImpersonationCheck(api))
        self._at = at
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._certified = asyncio.Event()
        self._readers = asyncio.Semaphore(ABREAST)

    @property
    def unhealthy_reason(self) -> str:
        """Why it cannot serve; empty if it can."""
        if not self.view.complete.is_set():
            waiting = [one.resource.name for one in self.view.informers if not one.synced.is_set()]
            return f"waiting for the initial list of: {', '.join(waiting) or 'all resources'}"
        return "" if self.url else self.ca_bundle.last_error

    async def run(self) -> None:
        """Follow the cluster, maintain the certificate, serve reviews."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.view.run())
            tasks.create_task(self.ca_bundle.run())
            await self._certified.wait()
            await self._serve()

    async def done(self) -> None:
        """Nothing has to be finished: calls in flight are answered."""

    async def _serve(self) -> None:
        application = web.Application(client_max_size=LARGEST)
        application.router.add_post(MUTATE, self._handler(self._reviews.fill_in))
        application.router.add_post(VALIDATE, self._handler(self._reviews.check))
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=FINISH)
        await runner.setup()
        try:
            await web.SockSite(runner, self._at, ssl_context=self._tls).start()
            host, port = runner.addresses[0][:2]
            self.url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
            await asyncio.Event().wait()
        finally:
            self.url = ""
            await runner.cleanup()

    def _show(self, certificate: Certificate) -> None:
        """Serve this certificate on new connections."""
        with tempfile.TemporaryDirectory(prefix="pumice-tls-") as folder:  # OpenSSL reads files only
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(certificate.certificate + b"\n" + certificate.key)
            self._tls.load_cert_chain(path)
        self._certified.set()

    async def _read(self, request: web.Request) -> ReviewRequest:
        """Read a review. Time spent waiting for other reads counts: the caller may long have given up."""
        async with asyncio.timeout(READING), self._readers:
            return read(await request.read())

    def _handler(
        self, judge: Callable[[ReviewRequest], Awaitable[ReviewResponse]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            try:
                asked = await self._read(request)
            except ReviewError as error:
                return web.Response(status=400, text=f"{error}\n")
            except TimeoutError:
                late = web.Response(status=408, text=f"the request body must arrive within {READING:g} s\n")
                late.force_close()
                return late
            resource, operation = asked.resource.resource, asked.operation
            if not self.view.complete.is_set():
                self.answers[resource, operation, "failed"] += 1
                return web.Response(status=503, text=f"{self.unhealthy_reason}\n")
            try:
                answer = await judge(asked)
            except Exception as error:  # whatever it is: it must not end the server, and must not count as allowed
                log.exception("Admission review failed: operation=%s resource=%s", operation, resource)
                self.answers[resource, operation, "failed"] += 1
                return web.Response(status=500, text=f"internal error in an admission rule: {error!r}\n")
            outcome = "refused" if answer.refusals else "filled" if answer.patch else "allowed"
            self.answers[resource, operation, outcome] += 1
            return web.Response(body=write(asked, answer), content_type="application/json")

        return handle
