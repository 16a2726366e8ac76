"""The full screen of ``pumice top``: two collections are followed, and what they come to is drawn when it changes.

Queues and nodes are watched by a thread each; this one draws, a few times a second at most, and listens to keys.
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

from pumice.cli.cluster.cluster_command import Cluster, told
from pumice.cli.top.queue_usage import Board, board
from pumice.cli.top.usage_table import board_lines, legend, summary
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import NODES, QUEUES
from pumice.kube.watch.sync_watch import CollectionWatch

EVERY = 0.25
"""Seconds between two drawings, at the least."""

AROUND = 5
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


class Followed:
    """A collection that a thread keeps up to date."""

    def __init__(self, client: Client, path: str, changed: threading.Event) -> None:
        self.trouble = ""
        self.failed: ApiError | None = None
        self._changed = changed
        self._following = CollectionWatch(client, path, cut=self._cut)
        threading.Thread(target=self._follow, daemon=True).start()

    def _cut(self, why: str) -> None:
        self.trouble = why
        self._changed.set()

    def _follow(self) -> None:
        try:
            for _ in self._following.changes():
                self.trouble = ""
                self._changed.set()
        except ApiError as error:
            self.failed = error
            self._changed.set()

    @property
    def objects(self) -> list[dict[str, object]]:
        """What is there now."""
        return list(self._following.objects.values())


class Screen:
    """What is shown: the board, and which part of it."""

    def __init__(self, server: str, *, wide: bool, namespaces: bool = True) -> None:
        self.server = server
        self.wide = wide
        self.namespaces = namespaces
        self.first = 0
        self.rows = 0  # that there were to show when it was last drawn

    def press(self, key: str, rows: int, height: int) -> None:
        """Somebody wants to see another part."""
        page = max(1, height - AROUND)
        last = max(0, rows - page)
        step = {"down": 1, "up": -1, "page down": page, "page up": -page, "top": -rows, "end": rows}.get(key, 0)
        self.first = min(max(0, self.first + step), last)
        if key == "wide":
            self.wide = not self.wide
        elif key == "namespaces":
            self.namespaces = not self.namespaces

    def lines(self, found: Board, columns: int, height: int, now: str, trouble: str = "") -> list[str]:
        """All lines of the screen."""
        left = f"pumice top  {self.server}"
        right = f"{now}  q quits, w {'less' if self.wide else 'more'}, n namespaces"
        found = found if self.namespaces else found.without_namespaces()
        gap = " " * max(2, columns - len(left) - len(right))
        yield_ = [click.style(left, bold=True) + gap + click.style(right, dim=True)]
        yield_.append(summary(found))
        heading, *rows = board_lines(found, columns, wide=self.wide)
        self.rows, room = len(rows), max(1, height - AROUND)
        self.first = min(self.first, max(0, len(rows) - room))
        shown = rows[self.first : self.first + room]
        more = len(rows) - self.first - len(shown)
        rest = [f"{number} more {where}" for number, where in ((self.first, "above"), (more, "below")) if number]
        yield_ += [heading, *shown, click.style(f"... {', '.join(rest)}" if rest else "", dim=True)]
        last = click.style(f"connection lost: {trouble}", fg="red") if trouble else legend()
        return [*yield_, last][:height]


def show(cluster: Cluster, *, wide: bool, namespaces: bool = True) -> int:
    """Show the tree until somebody has seen enough."""
    access, changed = cluster.client.access, threading.Event()
    queues = Followed(Client(access), QUEUES.path(), changed)
    nodes = Followed(Client(access), NODES.path(), changed)
    if access.exec_plugin is not None:
        access.exec_plugin.detach()  # the terminal is the screen's from now on
    screen, console = Screen(access.server, wide=wide, namespaces=namespaces), Console()
    try:
        with keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            _draw_on(screen, console, live, pressed, queues, nodes, changed)
    except KeyboardInterrupt:
        pass
    for followed in (queues, nodes):
        if followed.failed is not None:
            raise click.ClickException(told(followed.failed))
    return 0


def _draw_on(
    screen: Screen,
    console: Console,
    live: Live,
    pressed: Iterator[str],
    queues: Followed,
    nodes: Followed,
    changed: threading.Event,
) -> None:
    seen, drawn = None, 0.0
    for key in pressed:
        size = (console.size.width, console.size.height)
        second = int(time.time())
        if key == "quit" or queues.failed is not None or nodes.failed is not None:
            return
        if key:
            screen.press(key, screen.rows, size[1])
        if not (key or changed.is_set() or (size, second) != seen) or time.monotonic() - drawn < EVERY / 2:
            continue
        changed.clear()
        seen, drawn = (size, second), time.monotonic()
        now = datetime.now().astimezone().strftime("%H:%M:%S")
        lines = screen.lines(board(queues.objects, nodes.objects), *size, now, queues.trouble or nodes.trouble)
        text = Text.from_ansi("\n".join(lines))
        text.no_wrap, text.overflow = True, "crop"
        live.update(text, refresh=True)


@contextmanager
def keys() -> Iterator[Iterator[str]]:
    """What is pressed, by name, and an empty string every now and then; without a keyboard only that."""
    if not sys.stdin.isatty():
        yield _ticks()
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield _pressed(keyboard)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _ticks() -> Iterator[str]:
    while True:
        yield ""
        time.sleep(EVERY)


def _pressed(keyboard: int) -> Iterator[str]:
    yield ""
    while True:
        ready, _, _ = select.select([keyboard], [], [], EVERY)
        if not ready:
            yield ""
            continue
        typed = os.read(keyboard, 64)
        if not typed:
            yield "quit"  # nobody is there any more
        yield KEYS.get(typed, "")
