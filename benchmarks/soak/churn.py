"""Jobs that come, run and go: gangs of pods of one cpu in several queues."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import EVENTS, POD_GROUPS, PODS, QUEUES

NAMESPACE = "soak"
QUEUE_NAMES = ("soak-a", "soak-b", "soak-c")
GANG = 10
RUN_SECONDS = "0.5"
POLL_SECONDS = 0.5
EVENTS_SECONDS = 20.0
PATIENCE_SECONDS = 180.0
"""A job that has not ended by then is lost. Longer than it takes to start everything anew under load."""

_numbers = itertools.count(1)


class Churn:
    """Submits one job after another, waits for its end and deletes it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.created = 0
        """Pods."""
        self.finished = 0
        """Jobs."""
        self.wrong: list[str] = []

    async def run(self, queue: str) -> None:
        """Submit jobs to a queue until cancelled."""
        while True:
            name = f"job-{next(_numbers)}"
            await self._submit(name, queue)
            await self._wait(name)
            await self._remove(name)
            self.finished += 1

    async def _submit(self, name: str, queue: str) -> None:
        about = {"name": name, "namespace": NAMESPACE}
        group = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": about}
        await insist(lambda: self._api.create(POD_GROUPS.raw, {**group, "spec": {"minMember": GANG, "queue": queue}}))
        for number in range(GANG):
            container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
            marks = {"scheduling.k8s.io/group-name": name, "pumice.dev/run-seconds": RUN_SECONDS}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{number}",
                    "namespace": NAMESPACE,
                    "annotations": marks,
                    "labels": {"job": name},
                },
                "spec": {"schedulerName": "pumice", "restartPolicy": "Never", "containers": [container]},
            }
            await insist(partial(self._api.create, PODS.raw, pod))
            self.created += 1

    async def _wait(self, name: str) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            with suppress(ApiError, UnreachableError):
                found = (await self._api.list(PODS.raw, ListOptions(namespace=NAMESPACE, labels=f"job={name}"))).items
                if [pod for pod in found if pod.get("status", {}).get("phase") == "Succeeded"] == found:
                    if len(found) != GANG:
                        self.wrong.append(f"{name} has {len(found)} pods of {GANG}")
                    return
            if asyncio.get_running_loop().time() > deadline:
                self.wrong.append(f"{name} has not ended after {PATIENCE_SECONDS:.0f} s")
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _remove(self, name: str) -> None:
        for number in range(GANG):
            await insist(partial(self._api.delete, PODS, f"{name}-{number}", NAMESPACE, grace=0))
        await insist(lambda: self._api.delete(POD_GROUPS, name, NAMESPACE))


async def delete_events(api: Api) -> None:
    """Delete old Events, until cancelled. They are kept for an hour, in which they would look like a leak."""
    while True:
        with suppress(ApiError, UnreachableError):
            await api.session.call("DELETE", EVENTS.path(NAMESPACE))
        await asyncio.sleep(EVENTS_SECONDS)


async def make_queues(api: Api) -> None:
    """The queues of the jobs."""
    for name in QUEUE_NAMES:
        document = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}}
        await insist(partial(api.create, QUEUES.raw, {**document, "spec": {"weight": 1}}))


async def insist(ask: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request until it is answered: what a request without an answer has done already is done."""
    while True:
        try:
            await ask()
        except ApiError as error:
            if error.already_exists or error.not_found:
                return
            if error.code < 500 and error.code != 429:
                raise
        except UnreachableError:
            pass
        else:
            return
        await asyncio.sleep(POLL_SECONDS)
