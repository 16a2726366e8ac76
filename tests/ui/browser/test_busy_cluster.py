"""At random moments of a busy cluster, every number on the tree and queue pages is what the objects of the API say.

Jobs come and go, and weights change. At a random moment the scheduler and the controllers are stopped, in the middle of
whatever they do: the objects then stay as they are, and the page must come to show exactly them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import KUBECTL
from tests.support.showcase import Showcase, showcase
from tests.ui.browser.await_equal import await_equal
from tests.ui.browser.conftest import OpenPage
from tests.ui.browser.recount import Recount
from tests.ui.browser.shown_pages import shown_queue, shown_tree

pytestmark = [
    pytest.mark.long,
    pytest.mark.browser,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH"),
]

MOMENTS = 25
TEAMS = {
    "serving": "ads",
    "models": "ads",
    "tiles": "maps",
    "vision": "maps",
    "genomes": "science",
    "climate": "science",
}
QUEUES = ("root", "ads", "maps", "science", *TEAMS)


class Traffic:
    """Random changes of a cluster."""

    def __init__(self, cluster: Showcase, choose: random.Random) -> None:
        self._cluster = cluster
        self._choose = choose
        self._jobs: list[tuple[str, str]] = []
        self._number = 0

    def change(self) -> None:
        """Create a job, delete one, or change a weight."""
        choose = self._choose
        kind = choose.choice(["create", "create", "delete", "weight"])
        if kind == "delete" and self._jobs:
            namespace, name = self._jobs.pop(choose.randrange(len(self._jobs)))
            self._cluster.kubectl("delete", "vcjob", name, f"--namespace={namespace}", "--wait=false")
        elif kind == "weight":
            queue, weight = choose.choice(sorted(TEAMS)), choose.randint(1, 4)
            patch = f'{{"spec": {{"weight": {weight}}}}}'
            self._cluster.kubectl("patch", "queue", queue, "--type=merge", "-p", patch)
        else:
            self._create()

    def _create(self) -> None:
        choose = self._choose
        queue = choose.choice(sorted(TEAMS))
        self._number += 1
        name, namespace, tasks = f"extra-{self._number}", TEAMS[queue], choose.randint(1, 12)
        request = {"cpu": choose.choice(["500m", 1, 3]), "memory": choose.choice(["512Mi", "3Gi"])}
        if choose.random() < 0.4:
            request["nvidia.com/gpu"] = 1
        resources = {"requests": request, "limits": request}
        containers = [{"name": "main", "image": "work", "resources": resources}]
        job = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {"volcano.sh/user": f"user-{choose.randint(1, 4)}"},
            },
            "spec": {
                "schedulerName": "pumice",
                "queue": queue,
                "minAvailable": choose.randint(1, tasks),
                "tasks": [{"name": "main", "replicas": tasks, "template": {"spec": {"containers": containers}}}],
            },
        }
        self._cluster.kubectl("create", f"--namespace={namespace}", "-f", "-", given=job)
        self._jobs.append((namespace, name))


@contextmanager
def stopped(cluster: Showcase) -> Iterator[None]:
    """Stop scheduler and controllers for a while."""
    processes = [cluster.child_process(name) for name in ("scheduler", "controllers")]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_every_number_is_that_of_the_objects_at_random_moments(
    browser: Any, open_page: OpenPage, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    with showcase(tmp_path) as cluster:
        cluster.apply("owners.yaml")
        traffic = Traffic(cluster, choose)
        tree, queue = open_page(cluster.page), open_page(cluster.page + "/queues/root")
        for _ in range(MOMENTS):
            name = choose.choice(QUEUES)
            queue.goto(f"{cluster.page}/queues/{name}")
            for _ in range(choose.randint(1, 6)):
                traffic.change()
                time.sleep(choose.random() / 2)
            with stopped(cluster):
                await_equal(lambda: shown_tree(tree), lambda: Recount(cluster.objects()).tree_page())
                await_equal(lambda: shown_queue(queue), lambda: Recount(cluster.objects()).queue_page(name))  # noqa: B023
        for page in (tree, queue):  # before the cluster is gone, which pages complain about
            page.close()
