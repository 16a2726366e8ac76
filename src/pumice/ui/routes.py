"""The answer of each route below ``/api/``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from pumice import __version__
from pumice.kube.client.api import Api
from pumice.observability.history.tiers import RANGES
from pumice.ui.board import now_text
from pumice.ui.decisions import parse_decision_query
from pumice.ui.encoded import EncodedDocument
from pumice.ui.history import QueueHistories
from pumice.ui.http_errors import ForbiddenError, NotFoundError, RequestError, UnavailableError
from pumice.ui.job_documents import InvalidQueryError, job_document, jobs_document, parse_query
from pumice.ui.job_events import JobEvents
from pumice.ui.node_documents import node_document
from pumice.ui.queue_documents import queue_document
from pumice.ui.queue_tree import QueueFigures
from pumice.ui.then import PastTrees
from pumice.ui.values import Document, known_resources, resource_units
from pumice.ui.viewer import Viewer
from pumice.ui.wait_reports import WaitReports
from pumice.ui.watcher import BoardWatcher
from pumice.ui.why import status_document, why_document

DEFAULT_RULE = "steer"
_RULE = re.compile(r"drf\.rule:\s*[\"']?(\w+)")


class UiRoutes:
    """Makes documents from the board, for the viewer who asks."""

    def __init__(
        self,
        api: Api,
        watcher: BoardWatcher,
        cluster: str,
        reports: WaitReports,
        histories: QueueHistories | None,
        past: PastTrees | None,
    ) -> None:
        self.watcher = watcher
        self._board = watcher.board
        self._picture = watcher.board.picture
        self._cluster = cluster
        self._events = JobEvents(api)
        self._reports = reports
        self._histories = histories
        self._past = past

    @property
    def ready(self) -> bool:
        """Whether the cluster has been read."""
        return self.watcher.complete.is_set()

    async def about(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """The server, the cluster, the units, and the rights of the viewer."""
        board, scope, picture = self._board, viewer.scope, self._picture
        root = picture.queues.get("root")
        vectors = [node.offered for node in picture.nodes.values()]
        vectors += [figures.used for figures in board.forest.figures.values()]
        return EncodedDocument(
            {
                "epoch": board.epoch,
                "version": board.version,
                "pumice": __version__,
                "cluster": self._cluster,
                "now": now_text(),
                "resources": resource_units(picture.names, known_resources(vectors)),
                "viewer": {
                    "name": viewer.name,
                    "authentication": viewer.authentication,
                    "canListQueues": scope.queues,
                    "canListNodes": scope.nodes,
                    "namespaces": scope.listed(),
                },
                "features": self._features(),
                "policy": _policy(root.scheduler if root is not None else {}),
                "connection": self.watcher.connection(),
            }
        )

    def _features(self) -> Document:
        log = self._board.decisions.source == "log"
        return {
            "history": self._histories is not None,
            "then": self._past is not None,
            "why": True,
            "decisionKeys": log,
        }

    # ---- queues -------------------------------------------------------------------------------------------

    async def tree(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """All queues."""
        _require(viewer.scope.queues, "list queues")
        return self._board.document("tree", self._board.tree_document, self._board.versions["tree"])

    async def queue(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """One queue with its jobs."""
        _require(viewer.scope.queues, "list queues")
        figures = self._queue(request)
        return self._board.document(
            ("queue", figures.id, viewer.scope),
            lambda: queue_document(figures, self._board.forest, self._picture, viewer.scope.reads),
        )

    async def queue_history(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """Usage and entitlement of a queue over time."""
        _require(viewer.scope.queues, "list queues")
        if self._histories is None:
            raise UnavailableError("this server has no history: start it with --history")
        name = request.query.get("range") or "hour"
        if name not in RANGES:
            raise RequestError(f"range: Unsupported value: {name!r}: supported values: {', '.join(RANGES)}")
        return await self._histories.of(self._queue(request).id, name, self._board.epoch)

    def _queue(self, request: web.Request) -> QueueFigures:
        name = request.match_info["name"]
        figures = self._board.forest.find(name)
        if figures is None:
            raise NotFoundError(f'Queue "{name}" not found')
        return figures

    # ---- jobs ---------------------------------------------------------------------------------------------

    async def jobs(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """The jobs that the query selects."""
        try:
            query = parse_query(request.query, request.query.getall("phase", []))
        except InvalidQueryError as error:
            raise RequestError(str(error)) from None
        return self._board.document(
            ("jobs", query, viewer.scope),
            lambda: jobs_document(query, self._picture, self._board.forest, viewer.scope.reads),
            self._board.versions["jobs"],
        )

    async def job(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """One job with its tasks and Events."""
        key = self._job(request, viewer)
        events = await self._events.of(key, self._picture)

        def make() -> Document:
            group = self._picture.groups[key]
            figures = self._board.forest.find(group.queue)
            path = [*self._board.forest.ancestors(figures), figures] if figures is not None else []
            rows = [self._board.tree_rows[each.id] for each in path] if viewer.scope.queues else []
            return {**job_document(key, self._picture, self._board.forest, rows), "events": events.rows}

        if key not in self._picture.groups:  # deleted while its Events were read
            raise NotFoundError(f'Job "{request.match_info["name"]}" not found')
        return self._board.document(("job", key, viewer.scope.queues, events.number), make)

    async def why(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """Why a job waits."""
        key = self._job(request, viewer)
        board = self._board
        if not viewer.scope.unrestricted:  # the whole answer names jobs of other namespaces
            return board.document(("why", key), lambda: status_document(key, self._picture))
        report = await self._reports.of(key, self._picture.seen.registry)
        document = why_document(report, key, self._picture, board.forest, viewer.scope.reads)
        return EncodedDocument({"epoch": board.epoch, "version": board.version, **document})

    def _job(self, request: web.Request, viewer: Viewer) -> str:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        key = self._picture.find_job(namespace, name)
        if key is None or not viewer.scope.reads(namespace):
            raise NotFoundError(f'Job "{name}" not found in namespace {namespace}')
        return key

    # ---- nodes --------------------------------------------------------------------------------------------

    async def nodes(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """All nodes."""
        _require(viewer.scope.nodes, "list nodes")
        return self._board.document("nodes", self._board.nodes_document, self._board.versions["nodes"])

    async def node(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """One node with its pods."""
        _require(viewer.scope.nodes, "list nodes")
        name = request.match_info["name"]
        if name not in self._picture.nodes:
            raise NotFoundError(f'Node "{name}" not found')
        return self._board.document(
            ("node", name, viewer.scope),
            lambda: node_document(name, self._picture, self._picture.schedulers, viewer.scope.reads),
        )

    # ---- decisions ----------------------------------------------------------------------------------------

    async def decisions(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """The latest binds and evictions."""
        try:
            query = parse_decision_query(request.query)
        except InvalidQueryError as error:
            raise RequestError(str(error)) from None
        board = self._board
        return board.document(
            ("decisions", query, viewer.scope),
            lambda: board.decisions.document(query, viewer.scope),
            board.versions["decisions"],
        )

    async def then(self, request: web.Request, viewer: Viewer) -> EncodedDocument:
        """The tree as it was."""
        _require(viewer.scope.queues, "list queues")
        if self._past is None:
            raise UnavailableError("this server has no decision log: start it with --decision-log")
        time = request.query.get("time")
        return await (self._past.at(time, self._board.epoch) if time else self._past.span(self._board.epoch))


def _policy(scheduler: Mapping[str, Any]) -> Document:
    """The scheduler's configuration, as it publishes it in the status of queue root."""
    text = str(scheduler.get("configuration") or "")
    rule = _RULE.search(text)
    return {
        "source": scheduler.get("source"),
        "rule": rule[1] if rule else DEFAULT_RULE if "drf" in text else None,
    }


def _require(allowed: Any, verb: str) -> None:
    if not allowed:
        raise ForbiddenError(f"you may not {verb}")
