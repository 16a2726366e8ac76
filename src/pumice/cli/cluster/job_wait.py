"""``vsub --wait``: the output of a job's pods as it is written, and the exit code of the job at its end."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster.job_view import JOB_NAME
from pumice.cli.terminal import echo
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.sync_client import Client

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document

POLL_SECONDS = 0.3
TROUBLE_SECONDS = 3.0
"""How often Events are read while a job has no pods."""
OUTPUT_SECONDS = 10.0
"""How long the rest of the output may take after the job has ended."""
FINISHED = ("Completed", "Failed", "Aborted", "Terminated")
FAILED, INTERRUPTED = 1, 130
FAILED_CREATE = "FailedCreate"
TOLD = ("OOMKilled", "StartError")
"""Reasons of an end that the output of the container does not show."""


def wait_for_jobs(client: Client, jobs: Iterable[Document]) -> int:
    """Follow jobs one after another; the largest exit code. Ctrl-C ends the waiting."""
    worst = 0
    for job in jobs:
        code = JobWatcher(client, job).wait()
        if code == INTERRUPTED:
            return code
        worst = max(worst, code)
    return worst


class JobWatcher:
    """Follows one job."""

    def __init__(self, client: Client, job: Document) -> None:
        self._client = client
        self._job = job
        self._exit_codes: dict[str, tuple[str, int]] = {}  # by uid: when a pod failed, and how
        self._followers: dict[tuple[str, str, str], threading.Thread] = {}
        self._printing = threading.Lock()
        self._message = ""  # why the job has ended as it has
        self._troubles: set[str] = set()  # why there are no pods, as far as it was printed
        self._look_for_trouble_at = time.monotonic() + TROUBLE_SECONDS
        self._reasons: dict[str, str] = {}  # by pod: why it failed, where the exit code does not tell

    def wait(self) -> int:
        """Print the output until the job ends; its exit code. Ctrl-C asks what becomes of the job."""
        try:
            phase = self._follow()
        except KeyboardInterrupt:
            return self._interrupted()
        for follower in self._followers.values():
            follower.join(OUTPUT_SECONDS)
        if phase == "Completed":
            return 0
        name = self._job["metadata"]["name"]
        echo(f"job {name}: {phase}" + (f": {self._message}" if self._message else ""), err=True)
        for pod, reason in sorted(self._reasons.items()):
            echo(f"pod {pod}: {reason}", err=True)
        return min(self._exit_codes.values(), default=("", FAILED))[1]

    def _follow(self) -> str:
        """Until the job has ended: its phase."""
        from pumice.kube.resources import JOBS, PODS

        about = self._job["metadata"]
        path = JOBS.path(about["namespace"], about["name"])
        query = {"labelSelector": f"{JOB_NAME}={about['name']}"}
        while True:
            with suppress(UnreachableError):  # the API is being started again; the pods go on
                try:
                    job = self._client.get(path)
                except ApiError as error:
                    if error.not_found:
                        return "deleted"
                    raise
                if job["metadata"]["uid"] != about["uid"]:
                    return "deleted"
                pods = self._client.list(PODS.path(about["namespace"]), query).items
                for pod in pods:
                    self._look_at(pod)
                if not pods and time.monotonic() >= self._look_for_trouble_at:
                    self._tell_troubles()
                state = (job.get("status") or {}).get("state") or {}
                phase = str(state.get("phase") or "")
                if phase in FINISHED:
                    self._message = str(state.get("message") or "")
                    return phase
            time.sleep(POLL_SECONDS)

    def _tell_troubles(self) -> None:
        """Print why the pods of the job cannot be created, once."""
        about = self._job["metadata"]
        query = {"fieldSelector": f"involvedObject.uid={about['uid']},reason={FAILED_CREATE}"}
        with suppress(ApiError):  # whoever may not read Events waits without
            for event in self._client.list(f"/api/v1/namespaces/{about['namespace']}/events", query).items:
                message = str(event.get("message") or "")
                if message not in self._troubles:
                    self._troubles.add(message)
                    echo(f"job {about['name']}: {message}", err=True)
        self._look_for_trouble_at = time.monotonic() + TROUBLE_SECONDS

    def _look_at(self, pod: Document) -> None:
        """Follow the output of containers that have begun; note how they ended."""
        about, status = pod["metadata"], pod.get("status") or {}
        if status.get("reason"):
            self._reasons[about["name"]] = ": ".join(str(status[key]) for key in ("reason", "message") if key in status)
        for entry in status.get("containerStatuses") or ():
            state = entry.get("state") or {}
            run = state.get("running") or state.get("terminated")
            if run is None:
                continue
            key = (about["uid"], entry["name"], str(run.get("startedAt")))
            if key not in self._followers:
                self._followers[key] = threading.Thread(
                    target=self._print_output, args=(pod, entry["name"]), daemon=True
                )
                self._followers[key].start()
            ended = state.get("terminated")
            if ended and ended.get("reason") in TOLD:
                told = f"container {entry['name']}: {ended['reason']}"
                self._reasons.setdefault(about["name"], told + (f": {ended['message']}" if "message" in ended else ""))
            if ended and ended.get("exitCode"):
                self._exit_codes.setdefault(about["uid"], (str(ended.get("finishedAt")), int(ended["exitCode"])))

    def _print_output(self, pod: Document, container: str) -> None:
        """Print a container's output; after an interruption of the connection, from where it broke off."""
        from pumice.kube.resources import PODS

        about = pod["metadata"]
        path = PODS.path(about["namespace"], about["name"], "log")
        query = {"container": container, "follow": "true", "timestamps": "true"}
        client, last = Client(self._client.access), ""
        while True:
            try:
                for line in client.text_lines(path, query):
                    moment, _, text = line.partition(b" ")
                    if moment.decode() > last:
                        last = moment.decode()
                        self._print_line(about["name"], text)
            except UnreachableError:
                time.sleep(POLL_SECONDS)
            except ApiError:
                return
            else:
                return

    def _print_line(self, pod: str, text: bytes) -> None:
        several = self._pod_count() > 1
        with self._printing:
            sys.stdout.buffer.write(f"{pod}: ".encode() + text if several else text)
            sys.stdout.buffer.flush()

    def _pod_count(self) -> int:
        tasks: list[dict[str, Any]] = (self._job.get("spec") or {}).get("tasks") or []
        return sum(task.get("replicas", 1) for task in tasks)

    def _interrupted(self) -> int:
        """Ask whether the job is to be cancelled; without a terminal, or after a second Ctrl-C, it goes on."""
        from pumice.kube.resources import JOBS

        about, cancels = self._job["metadata"], False
        if sys.stdin.isatty():
            with self._printing, suppress(KeyboardInterrupt):
                cancels = ask(f"\nCancel job {about['name']}? Otherwise it is left running")
        if cancels:
            self._client.delete(JOBS.path(about["namespace"], about["name"]), uid=about["uid"])
            echo(f"job {about['name']} cancelled", err=True)
        else:
            echo(f"\njob {about['name']} is left running; cancel it with vcancel {about['name']}", err=True)
        return INTERRUPTED


def ask(question: str) -> bool:
    """Ask a question on the terminal. Ctrl-C ends it at any moment.

    In ``input``, one that comes just before the terminal is read is noticed after the next line only.
    """
    heard, said = os.pipe()
    os.set_blocking(said, False)
    before = signal.set_wakeup_fd(said)
    try:
        while True:
            click.echo(f"{question} [y/N]: ", nl=False, err=True)
            select.select([sys.stdin, heard], [], [])
            answer = sys.stdin.readline().strip().lower()
            if answer in ("", "n", "no", "y", "yes"):
                return answer.startswith("y")
            click.echo("Error: invalid input", err=True)
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(said)
