"""The process of ``pumice ui``: what watches the cluster, and what serves the page."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubebase.resource_vector import Registry
from pumice.kube.client.api import Api
from pumice.observability.liveness import unsynced_informers
from pumice.observability.process_probes import Probes
from pumice.ui.access import Authenticator
from pumice.ui.board import Board
from pumice.ui.decision_events import DecisionEvents
from pumice.ui.decision_log_tail import DecisionLogTail
from pumice.ui.decisions import DecisionFeed
from pumice.ui.history import QueueHistories, history_source
from pumice.ui.metrics import page_metrics
from pumice.ui.picture import ClusterPicture
from pumice.ui.request_guard import RequestGuard
from pumice.ui.routes import UiRoutes
from pumice.ui.server import UiServer
from pumice.ui.static_files import StaticFiles
from pumice.ui.then import PastTrees
from pumice.ui.wait_reports import WaitReports
from pumice.ui.watcher import BoardWatcher, DecisionSource


@dataclass(frozen=True, slots=True)
class UiSettings:
    """How the page is served, and from what."""

    at: socket.socket
    cluster: str
    guard: RequestGuard
    authenticator: Callable[[Api, ClusterPicture], Authenticator]
    tls: ssl.SSLContext | None = None
    decision_log: Path | None = None
    history: str = ""
    """The file of the history of queues, or the URL of a scheduler's endpoint; empty: none."""
    cluster_options: tuple[str, ...] = ()
    """The options of the command line that select the cluster, for commands that answer for the page."""


class UiProcess:
    """Watches and serves until cancelled."""

    def __init__(self, api: Api, settings: UiSettings) -> None:
        picture = ClusterPicture(Registry())
        self.decisions = DecisionFeed(picture, "log" if settings.decision_log is not None else "events")
        source: DecisionSource
        if settings.decision_log is not None:
            source = DecisionLogTail(settings.decision_log, self.decisions)
        else:
            source = DecisionEvents(api, self.decisions, picture)
        self.watcher = BoardWatcher(api, Board(picture, self.decisions), source)
        self.server = UiServer(
            UiRoutes(
                api,
                self.watcher,
                settings.cluster,
                WaitReports(settings.cluster_options),
                QueueHistories(history_source(settings.history)) if settings.history else None,
                PastTrees(settings.decision_log) if settings.decision_log is not None else None,
            ),
            settings.authenticator(api, picture),
            settings.guard,
            StaticFiles(),
            settings.at,
            settings.tls,
        )

    async def run(self) -> None:
        """Watch and serve."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watcher.run())
            tasks.create_task(self.server.run())

    async def done(self) -> None:
        """Nothing has to be finished: the process writes nothing."""

    def probes(self) -> Probes:
        """Ready when the first lists are there and the server listens."""
        return Probes(
            alive=lambda: "",
            ready=lambda: (
                unsynced_informers(self.watcher.informers)
                or ("" if self.watcher.complete.is_set() and self.server.url else "not listening yet")
            ),
            metrics=lambda: list(page_metrics(self.watcher.informers, self.watcher.hub.viewers)),
        )
