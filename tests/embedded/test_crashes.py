"""``pumice up`` killed with kill -9 in the middle of its work, again and again, on the same data.

Writers create, change, bind and delete; watchers follow, and reconnect with the last revision they saw. Each writer
has objects of its own, so it knows what must be there: the last state that was acknowledged, or the one that it had
asked for when the server went. Nothing a client was told may be lost, go back in time, or pass a watcher by.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.processes import end_process, run_process, start_process, started_process

CORE = "/api/v1"
SPACE = f"{CORE}/namespaces/default"
MERGE = "application/merge-patch+json"
PATIENCE = 60.0
WRITERS = 4
NAMES = 5  # of each kind, for each writer
Gone = (OSError, http.client.HTTPException)  # what a client sees of a server that was killed

State = tuple[str, str] | None
"""What a writer knows of an object: its last step, and (of a pod) its node. None: it is not there."""


class Server:
    """``pumice up`` on a data directory, as one process after another."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._kubeconfig = folder / "kubeconfig"
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.address = ""
        self._change = threading.Condition()

    def command(self) -> list[str]:
        kept = ["--data", str(self.data), "--port", "0", "--kubeconfig", str(self._kubeconfig)]
        return [
            sys.executable,
            "-m",
            "pumice",
            "up",
            *kept,
            "--no-scheduler",
            "--no-controllers",
            *(["--nodes", "2"] if not self.starts else []),
        ]

    def start(self) -> None:
        self._kubeconfig.unlink(missing_ok=True)
        with self.log.open("wb") as output:
            self.process = start_process(self.command(), stdout=subprocess.DEVNULL, stderr=output)
        end = time.monotonic() + PATIENCE
        while not self._kubeconfig.exists():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)
        written = yaml.safe_load(self._kubeconfig.read_text())
        with self._change:
            self.address = written["clusters"][0]["cluster"]["server"].removeprefix("http://")
            self.starts += 1
            self._change.notify_all()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)

    def await_start(self, after: int) -> int:
        """Wait for a start later than one; which it is."""
        with self._change:
            assert self._change.wait_for(lambda: self.starts > after, PATIENCE), "it does not come up again"
            return self.starts


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    if found.process is not None:
        end_process(found.process)


class Caller:
    """An HTTP client that keeps its connection to whichever process is there."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Any]:
        """Code and object. One of ``Gone`` if there is no answer."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._server.address, timeout=PATIENCE)
            headers = {"Content-Type": media} if body is not None else {}
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (*Gone, ValueError):
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def look(server: Server, path: str) -> Any:
    """What is there, asked once."""
    caller = Caller(server)
    try:
        code, found = caller.ask("GET", path)
    finally:
        caller.close()
    assert code == 200, found
    return found


class Worker(threading.Thread):
    """Something that goes on until it is told to stop, and says what went wrong."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopping = threading.Event()
        self.caller = Caller(server)
        self.failure: BaseException | None = None

    def run(self) -> None:
        start = 0
        try:
            while not self._stopping.is_set():
                start = self._server.await_start(start)
                with contextlib.suppress(*Gone, ValueError):
                    self.work()
        except BaseException as failure:
            self.failure = failure
        finally:
            self.caller.close()

    def work(self) -> None:
        """Until the server goes (an exception of ``Gone``) or this is to stop."""
        raise NotImplementedError  # each kind of client does its own work

    def stop(self) -> None:
        self._stopping.set()

    def finish(self) -> None:
        self.stop()
        self.join(PATIENCE)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive()


class Writer(Worker):
    """Changes its own config maps and pods as fast as it can."""

    def __init__(self, server: Server, number: int, seed: int) -> None:
        super().__init__(server)
        self._random = random.Random(seed * 100 + number)
        self._number = number
        self._step = 0
        self.known: dict[str, State] = {}
        self.revisions: dict[str, str] = {}  # of the state that is known, as acknowledged
        self.doubt: tuple[str, State] | None = None  # what was asked for last and not answered
        self.acknowledged: list[tuple[int, str]] = []  # revision and path, of config maps
        self.highest = 0
        self.in_flight = 0  # requests that a kill left unanswered

    def work(self) -> None:
        self.settle()
        while not self._stopping.is_set():
            kind = self._random.choice(["configmaps", "pods"])
            path = f"{SPACE}/{kind}/w{self._number}-{self._random.randrange(NAMES)}"
            self._change(kind, path, self.known.get(path))

    def _change(self, kind: str, path: str, state: State) -> None:
        self._step += 1
        step, name = str(self._step), path.rpartition("/")[2]
        node = state[1] if state else ""
        if state is None:
            self._ask("POST", f"{SPACE}/{kind}", _object(kind, name, step), path, (step, ""), 201)
        elif self._random.random() < 0.25:
            self._ask("DELETE", f"{path}?gracePeriodSeconds=0", None, path, None, 200)
        elif kind == "pods" and not node and self._random.random() < 0.5:
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
            self._ask("POST", f"{path}/binding", target, path, (state[0], "node-1"), 201)
        elif kind == "configmaps" and self._random.random() < 0.5:
            new = _object(kind, name, step)
            new["metadata"]["resourceVersion"] = self.revisions[path]
            self._ask("PUT", path, new, path, (step, ""), 200)
        else:
            self._ask("PATCH", path, {"metadata": {"annotations": {"step": step}}}, path, (step, node), 200)

    def _ask(self, method: str, where: str, body: Any, path: str, wanted: State, code: int) -> None:
        self.doubt = (path, wanted)
        got, found = self.caller.ask(method, where, body, MERGE if method == "PATCH" else "application/json")
        self.doubt = None
        assert got == code, (method, where, got, found)
        self._acknowledge(path, wanted, found)

    def _acknowledge(self, path: str, state: State, found: Any) -> None:
        self.known[path] = state
        revision = found.get("metadata", {}).get("resourceVersion")
        if revision:  # a binding is answered with a Status
            self.revisions[path] = revision
            assert int(revision) > self.highest, "a revision that is not newer than an earlier one"
            self.highest = int(revision)
            if "/configmaps/" in path:
                self.acknowledged.append((self.highest, path))

    def settle(self) -> None:
        """After a start: everything acknowledged is there, and what was in doubt has happened or has not."""
        path, wanted = self.doubt or ("", None)
        if self.doubt:
            self.in_flight += 1
        for mine, state in list(self.known.items()):
            if mine != path:
                self._check(mine, [state])
        if self.doubt:
            self.known[path] = self._check(path, [self.known.get(path), wanted])
            self.doubt = None

    def _check(self, path: str, allowed: list[State]) -> State:
        code, found = self.caller.ask("GET", path)
        state = _state(found) if code == 200 else None
        assert code in {200, 404} and state in allowed, (
            f"{path} is {state}, but {allowed} was acknowledged or asked for"
        )
        if state is not None:
            revision, before = found["metadata"]["resourceVersion"], self.revisions.get(path, "0")
            if "/configmaps/" in path and len(allowed) == 1:
                assert revision == before, f"{path} has revision {revision}, acknowledged was {before}"
            self.revisions[path] = revision
            self.highest = max(self.highest, int(revision))
        return state


def _object(kind: str, name: str, step: str) -> dict[str, Any]:
    about = {"name": name, "annotations": {"step": step}}
    if kind == "configmaps":
        return {"metadata": about, "data": {"padding": "x" * 500}}
    return {"metadata": about, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def _state(found: Any) -> State:
    return found["metadata"]["annotations"]["step"], found.get("spec", {}).get("nodeName", "")


class Watcher(Worker):
    """Keeps a copy of a collection by list and watch, and believes nothing that does not fit what it knows."""

    def __init__(self, server: Server, kind: str) -> None:
        super().__init__(server)
        self._path = f"{SPACE}/{kind}"
        self.known: dict[str, Any] | None = None
        self.revision = 0
        self.first = 0  # the revision of its list
        self.seen: set[int] = set()
        self.resumed = 0
        self._watching: http.client.HTTPConnection | None = None

    def work(self) -> None:
        if self.known is None:
            self._list()
        else:
            self.resumed += 1
        while not self._stopping.is_set():
            self._watch()

    def _list(self) -> None:
        code, found = self.caller.ask("GET", self._path)
        assert code == 200, found
        self.known = {one["metadata"]["name"]: one for one in found["items"]}
        self.revision = self.first = int(found["metadata"]["resourceVersion"])

    def _watch(self) -> None:
        connection = http.client.HTTPConnection(self._server.address, timeout=PATIENCE)
        self._watching = connection
        try:
            connection.request("GET", f"{self._path}?watch=1&resourceVersion={self.revision}&timeoutSeconds=30")
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                self._take(json.loads(line))
        finally:
            connection.close()

    def _take(self, event: Any) -> None:
        assert self.known is not None
        found = event["object"]
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        name, revision = found["metadata"]["name"], int(found["metadata"]["resourceVersion"])
        assert revision > self.revision, f"back in time: {revision} after {self.revision}"
        assert (name in self.known) == (event["type"] != "ADDED"), f"{event['type']} of {name} does not fit: a gap"
        self.revision = revision
        self.seen.add(revision)
        if event["type"] == "DELETED":
            del self.known[name]
        else:
            self.known[name] = found

    def stop(self) -> None:
        super().stop()
        watching = self._watching
        if watching is not None and watching.sock is not None:
            with contextlib.suppress(OSError):
                watching.sock.shutdown(2)  # it waits for the next event


def torment(server: Server, kills: int, seed: int) -> str:
    """Kill the server so many times under load, and check everything; says what was done."""
    chosen = random.Random(seed)
    server.start()
    _await_nodes(server)
    writers = [Writer(server, number, seed) for number in range(WRITERS)]
    watchers = [Watcher(server, kind) for kind in ("configmaps", "pods")]
    everybody: list[Worker] = [*watchers, *writers]
    for worker in everybody:
        worker.start()
    for _ in range(kills):
        time.sleep(chosen.uniform(0.05, 1.0))
        assert all(worker.failure is None for worker in everybody), [worker.failure for worker in everybody]
        server.kill()
        server.start()
        # What is there now is not older than what anybody has seen; nobody writes beneath it.
        newest = int(look(server, f"{CORE}/namespaces")["metadata"]["resourceVersion"])
        assert newest >= max([worker.revision for worker in watchers])
    time.sleep(0.5)
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.finish()
    _check_final(server, writers, watchers)
    written = sum(writer._step for writer in writers)
    in_flight = sum(writer.in_flight for writer in writers)
    seen = sum(len(watcher.seen) for watcher in watchers)
    resumed = sum(watcher.resumed for watcher in watchers)
    return f"{kills} kills, {written:,} writes, {in_flight} in flight, {seen:,} events, {resumed} resumed watches"


def _check_final(server: Server, writers: list[Writer], watchers: list[Watcher]) -> None:
    """What is there is what the writers know; and the watchers have seen all of it, and every step to it."""
    caller = Caller(server)
    for writer in writers:
        writer.caller = caller
        writer.settle()
    caller.close()
    wanted = {revision for writer in writers for revision, _ in writer.acknowledged}
    final: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + PATIENCE
    for watcher in watchers:
        while True:
            _, listed = caller.ask("GET", watcher._path)
            final[watcher._path] = {one["metadata"]["name"]: one for one in listed["items"]}
            if watcher.known == final[watcher._path] or watcher.failure:
                break
            assert time.monotonic() < end, f"{watcher._path}: the watcher does not see what there is"
            time.sleep(0.1)
        watcher.finish()
    configs = watchers[0]
    missed = {revision for revision in wanted if revision > configs.first} - configs.seen
    assert not missed, f"revisions that were acknowledged and never seen by the watcher: {sorted(missed)[:10]}"
    assert all(watcher.resumed for watcher in watchers)
    there = {f"{path}/{name}" for path, found in final.items() for name in found}
    assert {path for writer in writers for path, state in writer.known.items() if state} <= there
    caller.close()


def _await_nodes(server: Server) -> None:
    """Until its nodes are there, and the account that pods run under."""
    end = time.monotonic() + PATIENCE
    while len(look(server, f"{CORE}/nodes")["items"]) < 2 or not look(server, f"{SPACE}/serviceaccounts")["items"]:
        assert time.monotonic() < end
        time.sleep(0.05)


def fsck(server: Server) -> tuple[int, str]:
    command = [sys.executable, "-m", "pumice", "fsck", str(server.data)]
    done = run_process(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


def check_afterwards(server: Server) -> None:
    """A clean stop, a clean file, and the same again after a start."""
    before = look(server, f"{SPACE}/configmaps")["items"]
    assert server.stop() == 0
    said = server.log.read_text()
    assert "Traceback" not in said and "rror" not in said, said
    assert fsck(server) == (0, f"CLEAN {server.data}\n")
    server.start()
    assert look(server, f"{SPACE}/configmaps")["items"] == before
    assert server.stop() == 0


def test_acknowledged_writes_survive_kill_of_server(server: Server) -> None:
    torment(server, kills=4, seed=5)
    check_afterwards(server)


@pytest.mark.long
def test_killed_at_fifty_moments(server: Server) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"\nseed {seed}")
    print(torment(server, kills=50, seed=seed))
    check_afterwards(server)


def test_server_stops_cleanly_with_open_watches_and_requests(server: Server) -> None:
    server.start()
    _await_nodes(server)
    workers: list[Worker] = [Writer(server, 0, 1), Watcher(server, "configmaps")]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    assert server.stop() == 0
    said = server.log.read_text()
    assert "Traceback" not in said and "rror" not in said, said
    assert fsck(server)[0] == 0
    server.start()  # everything is there: the writer settles, and goes on
    writer = workers[0]
    assert isinstance(writer, Writer)
    while len(writer.acknowledged) <= 10 and writer.failure is None:
        time.sleep(0.05)
    for worker in workers:
        worker.finish()
    assert server.stop() == 0


def test_killed_while_it_starts_it_starts_again(server: Server) -> None:
    """With nothing there at first: whatever of its beginnings a start left, the next one goes on from there."""
    for moment in (0.05, 0.2, 0.3, 0.4, 0.5, 0.6):
        with (
            server.log.open("wb") as output,
            started_process(server.command(), stdout=subprocess.DEVNULL, stderr=output) as process,
        ):
            time.sleep(moment)
            process.kill()
    server.start()
    _await_nodes(server)
    assert server.stop() == 0
    assert fsck(server)[0] == 0


def test_second_start_names_the_process_that_holds_the_data(server: Server) -> None:
    server.start()
    assert server.process is not None
    other = Server(server.data.parent)
    done = run_process(
        [*other.command()[:-4], "--kubeconfig", str(server.data.parent / "other")],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode in {1, 2}
    assert str(server.process.pid) in done.stderr and server.address in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (server.data.parent / "other").exists()
    status, said = fsck(server)  # which may look while somebody holds it
    assert status == 0 and str(server.process.pid) in said
    assert look(server, "/version")["gitVersion"]
    assert server.stop() == 0


def test_killed_process_releases_the_data(server: Server) -> None:
    server.start()
    server.kill()
    server.start()
    assert server.stop() == 0
