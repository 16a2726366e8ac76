"""The live screen of ``pumice top``: watches the objects of a cluster, and redraws the table when they change.

A thread watches each kind of object; the main thread redraws a few times per second at most, and handles keys.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pumice.cli.cluster.cluster_command import Cluster, error_message
from pumice.cli.cluster.measured_use import pod_metrics
from pumice.cli.terminal import echo
from pumice.cli.top.queue_usage import NO_PODS, NO_QUEUES, ClusterUsage
from pumice.cli.top.usage_source import RecentMetrics, UsageSource
from pumice.cli.top.usage_table import bar_legend, cluster_summary, usage_lines
from pumice.cli.top.workload_table import workload_lines
from pumice.cli.top.workload_usage import View
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import Resource
from pumice.kube.watch.sync_watch import CollectionWatch

REDRAW_SECONDS = 0.25
"""Seconds between two drawings, at the least."""

FRAME_LINES = 5
"""Lines of the screen that are not queues: the heading, the cluster, the columns, what is not shown, the legend."""

KEYS = {
    b"q": "quit",
    b"Q": "quit",
    b"\x1b": "quit",
    b"w": "wide",
    b"n": "hide namespaces",
    b"\t": "next view",
    **{str(number).encode(): view.value for number, view in enumerate(View, 1)},
    b"j": "down",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"k": "up",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b" ": "page down",
    b"\x1b[6~": "page down",
    b"\x1b[5~": "page up",
    b"g": "top",
    b"\x1b[H": "top",
    b"G": "end",
    b"\x1b[F": "end",
}

VIEW_NAMES = frozenset(view.value for view in View)


class WatchedCollection:
    """A collection that a thread keeps up to date, unless the user may not list it."""

    def __init__(self, client: Client, path: str, changed: threading.Event) -> None:
        self.connection_error = ""
        self.failed: ApiError | None = None
        self._changed = changed
        self._following: CollectionWatch | None = None
        try:
            self._following = CollectionWatch(client, path, cut=self._on_disconnect)
        except ApiError as error:
            if not error.forbidden:
                raise
            self.failed = error
            return
        threading.Thread(target=self._follow, args=(self._following,), daemon=True).start()

    def _on_disconnect(self, why: str) -> None:
        self.connection_error = why
        self._changed.set()

    def _follow(self, following: CollectionWatch) -> None:
        try:
            for _ in following.changes():
                self.connection_error = ""
                self._changed.set()
        except ApiError as error:
            self.failed = error
            self._changed.set()

    @property
    def objects(self) -> list[dict[str, Any]] | None:
        """The current objects; None if the user may not list them. Raises ``ApiError`` if the watch failed."""
        if self.failed is not None and not self.failed.forbidden:
            raise self.failed
        return None if self.failed is not None or self._following is None else list(self._following.objects.values())


class WatchedCluster:
    """The collections that were asked for so far, each watched from then on."""

    def __init__(self, access: Access) -> None:
        self.changed = threading.Event()
        self._access = access
        self._collections: dict[str, WatchedCollection] = {}

    def objects(self, resource: Resource[Any], namespace: str) -> list[dict[str, Any]] | None:
        """The objects of a resource in a namespace, or in all; None if the user may not list them."""
        path = resource.path(namespace)
        if path not in self._collections:
            self._collections[path] = WatchedCollection(Client(self._access), path, self.changed)
        return self._collections[path].objects

    @property
    def connection_error(self) -> str:
        """Why a watch is interrupted; empty if none is."""
        return next((one.connection_error for one in self._collections.values() if one.connection_error), "")


class LiveScreen:
    """The state of the screen: view, scroll position and display options."""

    def __init__(self, server: str, *, wide: bool, namespaces: bool = True, view: View = View.QUEUES) -> None:
        self.server = server
        self.wide = wide
        self.namespaces = namespaces
        self.view = view
        self.first_row = 0
        self.row_count = 0  # that there were to show when it was last drawn

    def handle_key(self, key: str, rows: int, height: int) -> None:
        """Scroll, change the view, or change a display option."""
        page = max(1, height - FRAME_LINES)
        last = max(0, rows - page)
        step = {"down": 1, "up": -1, "page down": page, "page up": -page, "top": -rows, "end": rows}.get(key, 0)
        self.first_row = min(max(0, self.first_row + step), last)
        if key == "wide":
            self.wide = not self.wide
        elif key == "hide namespaces":
            self.namespaces = not self.namespaces
        elif key == "next view":
            self.view, self.first_row = self.view.next(), 0
        elif key in VIEW_NAMES:
            self.view, self.first_row = View(key), 0

    def lines(self, found: ClusterUsage, columns: int, height: int, now: str, trouble: str = "") -> list[str]:
        """All lines of the screen."""
        left = f"pumice top {self.view.value}  {self.server}"
        right = f"{now}  q quits, w {'less' if self.wide else 'more'}, Tab views"
        if self.view is View.QUEUES:
            right += ", n namespaces"
        gap = " " * max(2, columns - len(left) - len(right))
        screen = [click.style(left, bold=True) + gap + click.style(right, dim=True), cluster_summary(found)]
        heading, *rows = self._table(found, columns)
        self.row_count, room = len(rows), max(1, height - FRAME_LINES)
        self.first_row = min(self.first_row, max(0, len(rows) - room))
        shown = rows[self.first_row : self.first_row + room]
        more = len(rows) - self.first_row - len(shown)
        rest = [f"{number} more {where}" for number, where in ((self.first_row, "above"), (more, "below")) if number]
        screen += [heading, *shown, click.style(f"... {', '.join(rest)}" if rest else "", dim=True)]
        last = click.style(f"connection lost: {trouble}", fg="red") if trouble else self._last_line(found)
        return [*screen, last][:height]

    def _table(self, found: ClusterUsage, columns: int) -> list[str]:
        if self.view is View.QUEUES:
            board = found if self.namespaces else found.without_namespaces()
            return usage_lines(board, columns, wide=self.wide)
        return workload_lines(found, self.view, columns, wide=self.wide)

    def _last_line(self, found: ClusterUsage) -> str:
        """The legend, or what the user may not see."""
        if self.view is View.QUEUES:
            return bar_legend() if found.queues_known else NO_QUEUES
        return next(iter(found.notes), "") if found.workloads is not None else NO_PODS


def run_screen(cluster: Cluster, *, wide: bool, namespaces: bool = True, view: View = View.QUEUES) -> int:
    """Show the live screen until the user quits."""
    access = cluster.client.access
    watched = WatchedCluster(access)
    source = UsageSource(
        watched.objects,
        cluster.namespace,
        requested=bool(cluster.requested_namespace),
        metrics=RecentMetrics(lambda namespace: pod_metrics(cluster.client, namespace)),
    )
    first = source.read()
    if access.exec_plugin is not None:
        access.exec_plugin.detach()  # the terminal is the screen's from now on
    if not first.queues_known and first.workloads is None:
        echo(NO_QUEUES, err=True)
        return 0
    screen, console = LiveScreen(access.server, wide=wide, namespaces=namespaces, view=view), Console()
    try:
        # Its proxy of standard output would have no encoding, and the bars would be drawn in ASCII.
        live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        with key_presses() as pressed, live:
            _draw_until_quit(screen, console, live, pressed, source, watched)
    except KeyboardInterrupt:
        pass
    except ApiError as error:
        raise click.ClickException(error_message(error)) from None
    return 0


def _draw_until_quit(
    screen: LiveScreen,
    console: Console,
    live: Live,
    pressed: Iterator[str],
    source: UsageSource,
    watched: WatchedCluster,
) -> None:
    seen, drawn = None, 0.0
    for key in pressed:
        size = (console.size.width, console.size.height)
        second = int(time.time())
        if key == "quit":
            return
        if key:
            screen.handle_key(key, screen.row_count, size[1])
        fresh = watched.changed.is_set() or (size, second) != seen
        if not key and (not fresh or time.monotonic() - drawn < REDRAW_SECONDS / 2):
            continue
        watched.changed.clear()
        seen, drawn = (size, second), time.monotonic()
        now = datetime.now().astimezone().strftime("%H:%M:%S")
        lines = screen.lines(source.read(), *size, now, watched.connection_error)
        text = Text.from_ansi("\n".join(lines))
        text.no_wrap, text.overflow = True, "crop"
        live.update(text, refresh=True)


@contextmanager
def key_presses() -> Iterator[Iterator[str]]:
    """Pressed keys by name, and an empty string at intervals; without a keyboard only the latter."""
    if not sys.stdin.isatty():
        yield _ticks()
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield _read_keys(keyboard)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _ticks() -> Iterator[str]:
    while True:
        yield ""
        time.sleep(REDRAW_SECONDS)


def _read_keys(keyboard: int) -> Iterator[str]:
    yield ""
    while True:
        ready, _, _ = select.select([keyboard], [], [], REDRAW_SECONDS)
        if not ready:
            yield ""
            continue
        typed = os.read(keyboard, 64)
        if not typed:
            yield "quit"  # end of input
        yield KEYS.get(typed, "")
