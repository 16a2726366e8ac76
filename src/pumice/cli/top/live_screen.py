"""The live screen of ``pumice top``: watches queues and nodes, and redraws the table when they change.

Two threads watch queues and nodes; the main thread redraws a few times per second at most, and handles keys.
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

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pumice.cli.cluster.cluster_command import Cluster, error_message
from pumice.cli.terminal import echo
from pumice.cli.top.queue_usage import NO_QUEUES, ClusterUsage, cluster_usage
from pumice.cli.top.usage_table import bar_legend, cluster_summary, usage_lines
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import NODES, QUEUES
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
    b"n": "namespaces",
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


class WatchedCollection:
    """A collection that a thread keeps up to date."""

    def __init__(self, client: Client, path: str, changed: threading.Event) -> None:
        self.connection_error = ""
        self.failed: ApiError | None = None
        self._changed = changed
        self._following = CollectionWatch(client, path, cut=self._on_disconnect)
        threading.Thread(target=self._follow, daemon=True).start()

    def _on_disconnect(self, why: str) -> None:
        self.connection_error = why
        self._changed.set()

    def _follow(self) -> None:
        try:
            for _ in self._following.changes():
                self.connection_error = ""
                self._changed.set()
        except ApiError as error:
            self.failed = error
            self._changed.set()

    @property
    def denied(self) -> bool:
        """Whether the user may not list the objects."""
        return self.failed is not None and self.failed.forbidden

    @property
    def objects(self) -> list[dict[str, object]]:
        """The current objects."""
        return list(self._following.objects.values())


class LiveScreen:
    """The state of the screen: scroll position and display options."""

    def __init__(self, server: str, *, wide: bool, namespaces: bool = True) -> None:
        self.server = server
        self.wide = wide
        self.namespaces = namespaces
        self.first_row = 0
        self.row_count = 0  # that there were to show when it was last drawn

    def handle_key(self, key: str, rows: int, height: int) -> None:
        """Scroll, or change a display option."""
        page = max(1, height - FRAME_LINES)
        last = max(0, rows - page)
        step = {"down": 1, "up": -1, "page down": page, "page up": -page, "top": -rows, "end": rows}.get(key, 0)
        self.first_row = min(max(0, self.first_row + step), last)
        if key == "wide":
            self.wide = not self.wide
        elif key == "namespaces":
            self.namespaces = not self.namespaces

    def lines(self, found: ClusterUsage, columns: int, height: int, now: str, trouble: str = "") -> list[str]:
        """All lines of the screen."""
        left = f"pumice top  {self.server}"
        right = f"{now}  q quits, w {'less' if self.wide else 'more'}, n namespaces"
        found = found if self.namespaces else found.without_namespaces()
        gap = " " * max(2, columns - len(left) - len(right))
        yield_ = [click.style(left, bold=True) + gap + click.style(right, dim=True)]
        yield_.append(cluster_summary(found))
        heading, *rows = usage_lines(found, columns, wide=self.wide)
        self.row_count, room = len(rows), max(1, height - FRAME_LINES)
        self.first_row = min(self.first_row, max(0, len(rows) - room))
        shown = rows[self.first_row : self.first_row + room]
        more = len(rows) - self.first_row - len(shown)
        rest = [f"{number} more {where}" for number, where in ((self.first_row, "above"), (more, "below")) if number]
        yield_ += [heading, *shown, click.style(f"... {', '.join(rest)}" if rest else "", dim=True)]
        last = click.style(f"connection lost: {trouble}", fg="red") if trouble else bar_legend()
        return [*yield_, last][:height]


def run_screen(cluster: Cluster, *, wide: bool, namespaces: bool = True) -> int:
    """Show the live screen until the user quits."""
    access, changed = cluster.client.access, threading.Event()
    queues = WatchedCollection(Client(access), QUEUES.path(), changed)
    nodes = WatchedCollection(Client(access), NODES.path(), changed)
    if access.exec_plugin is not None:
        access.exec_plugin.detach()  # the terminal is the screen's from now on
    screen, console = LiveScreen(access.server, wide=wide, namespaces=namespaces), Console()
    try:
        with key_presses() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            _draw_until_quit(screen, console, live, pressed, queues, nodes, changed)
    except KeyboardInterrupt:
        pass
    if queues.denied:
        echo(NO_QUEUES, err=True)
        return 0
    for followed in (queues, nodes):
        if followed.failed is not None and not (followed is nodes and followed.denied):
            raise click.ClickException(error_message(followed.failed))
    return 0


def _draw_until_quit(
    screen: LiveScreen,
    console: Console,
    live: Live,
    pressed: Iterator[str],
    queues: WatchedCollection,
    nodes: WatchedCollection,
    changed: threading.Event,
) -> None:
    seen, drawn = None, 0.0
    for key in pressed:
        size = (console.size.width, console.size.height)
        second = int(time.time())
        if key == "quit" or queues.failed is not None or (nodes.failed is not None and not nodes.denied):
            return
        if key:
            screen.handle_key(key, screen.row_count, size[1])
        if not (key or changed.is_set() or (size, second) != seen) or time.monotonic() - drawn < REDRAW_SECONDS / 2:
            continue
        changed.clear()
        seen, drawn = (size, second), time.monotonic()
        now = datetime.now().astimezone().strftime("%H:%M:%S")
        lines = screen.lines(
            cluster_usage(queues.objects, None if nodes.denied else nodes.objects),
            *size,
            now,
            queues.connection_error or nodes.connection_error,
        )
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
