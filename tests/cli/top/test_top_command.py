"""``pumice top``: figures from objects, lines for a width, and the screen of a live cluster."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from pumice.cli.text_table import display_width
from pumice.cli.top.live_screen import LiveScreen
from pumice.cli.top.queue_usage import ClusterUsage, cluster_usage
from pumice.cli.top.usage_table import cluster_summary, usage_bar, usage_lines, usage_values
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from tests.cli.command import SOURCES, pumice_command
from tests.support.api_servers import pumice_up
from tests.support.processes import started_process

SECONDS = 60


def queue(name: str, parent: str = "", used: int = 0, due: int | None = 0, **about: Any) -> dict[str, Any]:
    status: dict[str, Any] = {"allocated": {"cpu": str(used)}, "state": about.pop("state", "Open")}
    if due is not None:
        status["entitled"] = {"cpu": str(due)}
    status |= {"running": about.pop("running", 0), "inqueue": 0, "pending": 0}
    spec = {"weight": 1, **({"parent": parent} if parent else {}), **about}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def node(name: str, cpu: int = 50, **spec: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": cpu}, "conditions": [ready]}}


NODES = [node("a"), node("b"), node("c", unschedulable=True)]


def shown(found: ClusterUsage, columns: int, **how: Any) -> list[str]:
    return [click.unstyle(line) for line in usage_lines(found, columns, **how)]


def with_namespaces() -> list[dict[str, Any]]:
    """Two queues below an inner node that only their paths name, and two namespaces in one of them."""
    a, b = queue("a", used=30, due=20), queue("b", used=10, due=30)
    for name, found in (("a", a), ("b", b)):
        found["metadata"]["annotations"] = {"volcano.sh/hierarchy": f"root/eng/{name}"}
    a["spec"] |= {"minUserLimitPercent": 25}
    figures = {"entitled": {"cpu": "10"}, "running": 1, "weight": 1}
    a["status"]["namespaces"] = [
        {"name": "x", "allocated": {"cpu": "10"}, **figures},
        {"name": "y", "allocated": {"cpu": "20"}, **figures, "weight": 2},
    ]
    root = queue("root", used=40, due=50)
    inner = {"path": "root/eng", "weight": 1, "allocated": {"cpu": "40"}, "entitled": {"cpu": "50"}}
    root["status"]["innerNodes"] = [inner]
    return [root, a, b]


def test_top_without_node_access_uses_shares_from_queue_status() -> None:
    root, a, b = with_namespaces()
    a["status"]["share"], a["status"]["namespaces"][1]["share"] = 0.3, 0.2
    found = cluster_usage([root, a, b], None)
    rows = {row.name: (row.used, row.entitled, row.limit) for row in found.rows}
    assert (rows["a"], rows["ns/y"], rows["b"]) == ((0.3, None, None), (0.2, None, None), (None, None, None))
    assert found.notes[0].startswith("you may not list nodes; USED is the share that the scheduler wrote")
    assert cluster_summary(found).startswith("nodes unknown  cpu 40 used")
    assert usage_values(found)["nodes"] == {"known": None, "atWork": 0}


def test_top_without_queue_access_shows_only_a_note() -> None:
    found = cluster_usage(None, NODES)
    assert not found.queues_known and not found.rows
    assert found.notes == ["you may not list queues; ask an administrator for the ClusterRole pumice-queue-viewer"]
    assert cluster_usage([], NODES).queues_known


def test_inner_nodes_and_namespaces_have_lines_of_their_own() -> None:
    found = cluster_usage(with_namespaces(), NODES)
    assert [(row.name, row.depth, row.weight, row.used, row.entitled) for row in found.rows] == [
        ("root", 0, "1", 0.4, 0.5),
        ("eng", 1, "1", 0.4, 0.5),
        ("a", 2, "1", 0.3, 0.2),
        ("ns/x", 3, "1", 0.1, 0.1),
        ("ns/y", 3, "2", 0.2, 0.1),
        ("b", 2, "1", 0.1, 0.3),
    ]
    assert [line.split()[2] for line in shown(found, 100)[4:6]] == ["|--ns/x", "|--ns/y"]
    assert [row.name for row in found.without_namespaces().rows] == ["root", "eng", "a", "b"]
    values = {each["path"]: each for each in usage_values(found)["queues"]}
    assert list(values) == ["root", "root/eng", "root/eng/a", "root/eng/b"]
    assert [(each["name"], each["used"]) for each in values["root/eng/a"]["namespaces"]] == [("x", 0.1), ("y", 0.2)]
    assert values["root/eng/a"]["userLimits"] == {"minUserLimitPercent": 25} and not values["root/eng"]["namespaces"]


def test_namespaces_can_be_hidden_and_scrolled_to() -> None:
    screen, found = LiveScreen("here", wide=False), cluster_usage(with_namespaces(), NODES)
    height = 8  # room for three of the six lines
    screen.lines(found, 100, height, "now")
    for _ in range(9):
        screen.handle_key("down", screen.row_count, height)
    assert any("|--b" in line for line in screen.lines(found, 100, height, "now"))
    screen.handle_key("namespaces", screen.row_count, height)
    assert not any("ns/" in line for line in screen.lines(found, 100, 20, "now"))


def test_figures_are_parts_of_the_nodes_that_take_work() -> None:
    found = cluster_usage([queue("root", used=30, due=60), queue("q", "root", 30, 60, capability={"cpu": 80})], NODES)
    assert (found.nodes, found.ready_nodes) == (3, 2)
    root, row = found.rows
    assert (row.used, row.entitled, row.limit) == (0.3, 0.6, 0.8)  # of 100 cpu
    assert root.limit is None
    assert cluster_summary(found) == "2 of 3 nodes ready  cpu 30 of 100 (30%)  memory 0 of 0"


def test_top_shows_no_entitlement_when_targets_are_zero() -> None:
    # Where queues do not go by targets, the scheduler writes zeros.
    rows = cluster_usage([queue("root", used=30, due=0), queue("q", "root", 30, 0)], NODES).rows
    assert [(row.used, row.entitled) for row in rows] == [(0.3, None), (0.3, None)]
    assert click.unstyle(usage_bar(rows[1], 10)) == "███       "


def test_a_limit_counts_for_everything_below() -> None:
    queues = [queue("root"), queue("a", "root", capability={"cpu": 50}), queue("b", "a", capability={"cpu": 80})]
    assert [row.limit for row in cluster_usage(queues, NODES).rows] == [None, 0.5, 0.5]


def test_a_bar_shows_used_lent_entitled_and_limit() -> None:
    queues = [
        queue("root", used=90, due=90),
        queue("a", "root", 60, 30, capability={"cpu": 80}),
        queue("b", "root", 10, 40),
        queue("c", "root", 20, None),
    ]
    found = cluster_usage(queues, NODES)
    bars = {row.name: click.unstyle(usage_bar(row, 10)) for row in found.rows}
    assert bars == {
        "root": "█████████ ",
        "a": "███▓▓▓  │ ",
        "b": "█░░░      ",
        "c": "██        ",  # nobody says what it is entitled to
    }
    assert shown(found, 80)[2].split()[-6:] == ["60%", "30%", "80%", "0", "0", "0"]
    assert shown(found, 80)[4].split()[-6:] == ["20%", "-", "-", "0", "0", "0"]


@pytest.mark.parametrize("columns", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("wide", [False, True])
def test_lines_fit_the_terminal_for_long_names(columns: int, wide: bool) -> None:
    names = ["root", *(f"a-team-with-a-rather-long-name-{i}" for i in range(9)), "数学研究所の計算資源を使う人々の列"]
    queues = [queue(name, names[i - 1] if i else "", 5, 5, state="Closing") for i, name in enumerate(names)]
    lines = shown(cluster_usage(queues, NODES), columns, wide=wide)
    assert len(lines) == len(names) + 1
    assert len({display_width(line) for line in lines}) == 1  # the last column is full and to the right
    if columns >= (140 if wide else 80):
        assert all(display_width(line) <= columns for line in lines)
    assert "a-team-with-a-rather-long-name-8" in "\n".join(shown(cluster_usage(queues, NODES), 80, cut=False))


def test_wide_adds_amounts() -> None:
    found = cluster_usage([queue("root", used=4, due=8), queue("q", "root", 4, 8, capability={"cpu": "16"})], NODES)
    heading, _, line = shown(found, 140, wide=True)
    assert heading.split()[-2:] == ["CPU", "MEMORY"]
    assert line.split()[-2] == "4/8/16"


def test_a_long_tree_is_scrolled() -> None:
    found = cluster_usage([queue("root"), *(queue(f"q{i:02d}", "root") for i in range(40))], NODES)
    screen = LiveScreen("http://here", wide=False)
    lines = [click.unstyle(line) for line in screen.lines(found, 80, 15, "12:00:00")]
    assert len(lines) == 15
    assert lines[-2] == "... 31 more below" and lines[3].startswith("root")  # 41 rows, 10 fit
    for key, first, said in (
        ("down", 1, "... 1 more above, 30 more below"),
        ("end", 31, "... 31 more above"),
        ("page up", 21, "... 21 more above, 10 more below"),
        ("top", 0, "... 31 more below"),
        ("up", 0, "... 31 more below"),
    ):
        screen.handle_key(key, 41, 15)
        lines = [click.unstyle(line) for line in screen.lines(found, 80, 15, "12:00:00")]
        assert (screen.first_row, lines[-2]) == (first, said)


def test_invalid_quantities_count_as_zero() -> None:
    odd = {"metadata": {"name": "q"}, "spec": {"capability": "much"}, "status": {"allocated": {"cpu": "?"}}}
    (_, row) = cluster_usage([odd], [{"metadata": {"name": "n"}}]).rows
    assert (row.used, row.entitled, row.limit) == (0.0, None, None)
    assert cluster_usage([], []).rows == [] and len(usage_lines(cluster_usage([], []), 80)) == 1


def test_for_programs() -> None:
    found = usage_values(cluster_usage([queue("root"), queue("q", "root", 30, 60, running=2)], NODES))
    assert found["capacity"] == {"cpu": "100"}
    row = found["queues"][1]
    assert (row["path"], row["used"], row["podgroups"]["running"], row["allocated"]) == (
        "root/q",
        0.3,
        2,
        {"cpu": "30"},
    )


# ---- on a cluster --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Client, Path]]:
    with pumice_up("--nodes", "2") as (_, kubeconfig), closing(Client(read_kubeconfig(kubeconfig))) as client:
        yield client, kubeconfig


@contextmanager
def on_a_terminal(kubeconfig: Path, columns: int, lines: int) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    command = [sys.executable, "-m", "pumice", "top", "--kubeconfig", str(kubeconfig)]
    with started_process(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(SOURCES), "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
    ) as process:
        yield ours, process
    os.close(theirs)
    os.close(ours)


def read_until(terminal: int, words: str) -> str:
    """What the terminal is sent until these words are there."""
    said, deadline = b"", time.monotonic() + SECONDS
    while words not in said.decode(errors="replace"):
        assert time.monotonic() < deadline, said.decode(errors="replace")[-2000:]
        if select.select([terminal], [], [], 0.1)[0]:
            said += os.read(terminal, 65536)
    return said.decode(errors="replace")


def test_the_screen_follows_the_cluster_and_ends_on_q(cluster: tuple[Client, Path]) -> None:
    client, kubeconfig = cluster
    with on_a_terminal(kubeconfig, 80, 24) as (terminal, process):
        before = termios.tcgetattr(terminal)
        assert "\x1b[?1049h" in read_until(terminal, "q quits")
        new = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "brand-new"}}
        client.create("/apis/scheduling.volcano.sh/v1beta1/queues", new)
        read_until(terminal, "brand-new")
        os.write(terminal, b"w")
        read_until(terminal, "WEIGHT")
        read_until(terminal, "\u2588")  # blocks, not the characters for terminals without UTF-8
        os.write(terminal, b"5")
        read_until(terminal, "node-001")
        os.write(terminal, b"q")
        read_until(terminal, "\x1b[?1049l")  # the screen is as it was
        assert process.wait(timeout=SECONDS) == 0
        assert termios.tcgetattr(terminal) == before


def test_an_interrupt_ends_it_cleanly(cluster: tuple[Client, Path]) -> None:
    with on_a_terminal(cluster[1], 140, 40) as (terminal, process):
        read_until(terminal, "q quits")
        process.send_signal(signal.SIGINT)
        said = read_until(terminal, "\x1b[?1049l")
        assert process.wait(timeout=SECONDS) == 0
        assert "Traceback" not in said


def test_once(cluster: tuple[Client, Path]) -> None:
    done = pumice_command("top", "--kubeconfig", cluster[1])
    first, heading, root, *_ = done.stdout.splitlines()
    assert done.returncode == 0
    assert first.startswith("2 nodes  cpu 0 of 64")
    assert heading.split()[0] == "QUEUE" and root.split()[0] == "root"
    assert "\x1b" not in done.stdout
    found = json.loads(pumice_command("top", "-o", "json", "--kubeconfig", cluster[1]).stdout)
    assert found["nodes"] == {"known": 2, "atWork": 2}
    assert {row["name"] for row in found["queues"]} >= {"root", "default"}
