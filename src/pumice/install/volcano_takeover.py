"""Find an installed Volcano, and stop it if Pumice is to take over.

Deployments and webhooks of Volcano show that it runs; CRDs of its kinds that Pumice did not install show that it ran
or will run. A takeover scales its deployments to zero and deletes its webhook configurations, which would otherwise
reject requests because nothing answers them. Its objects are kept; Pumice handles them from then on. Volcano puts a
job that names no queue into ``default``, so the configuration of the scheduler names that queue after a takeover.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pumice.config.load import read_config
from pumice.engine.config.scheduler_config import DEFAULT_QUEUE_KEY, ConfigError
from pumice.install.install_options import INSTALL_NAME, InstallOptions
from pumice.install.installed_kinds import DEFINITIONS, DEPLOYMENTS, MUTATING, PODS, VALIDATING, path_of
from pumice.install.manifests import definitions
from pumice.install.workloads import SETTINGS_FILE, config_map
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import Resource
from pumice.model.specs import DEFAULT_QUEUE

Object = dict[str, Any]

REPLICAS_ANNOTATION = "pumice.dev/replicas-before"
"""The annotation that keeps how many replicas a deployment had that was stopped."""
POLL_SECONDS, STOP_TIMEOUT = 0.5, 60.0
"""Seconds between two reads of the pods of Volcano, and until the takeover continues without waiting."""
_NAMES = ("volcano-scheduler", "volcano-controller", "volcano-controllers", "volcano-admission")
_WEBHOOKS = "volcano-admission-service"  # how its configurations begin


@dataclass(frozen=True, slots=True)
class VolcanoInstallation:
    """The parts of Volcano that were found in a cluster."""

    deployments: tuple[Object, ...] = ()
    webhooks: tuple[Object, ...] = ()
    definitions: tuple[str, ...] = ()
    """CRDs of Volcano's kinds that Pumice did not install."""

    def __bool__(self) -> bool:
        return bool(self.deployments or self.webhooks or self.definitions)

    def __str__(self) -> str:
        places = sorted({f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in self.deployments})
        found = [f"deployment {place}" for place in places]
        found += [f"webhooks {one['metadata']['name']}" for one in self.webhooks]
        found += [f"definition {name}" for name in self.definitions]
        return ", ".join(found)


def find_volcano(client: Client) -> VolcanoInstallation:
    """Search a cluster for Volcano."""
    chosen = {"labelSelector": f"app in ({', '.join(_NAMES)})"}
    named = client.list(DEPLOYMENTS.path(), chosen).items
    working = [one for one in named if (one.get("spec") or {}).get("replicas") != 0]
    return VolcanoInstallation(
        tuple({**one, "apiVersion": "apps/v1", "kind": "Deployment"} for one in working),
        tuple(_webhooks(client)),
        tuple(_foreign_definitions(client)),
    )


def _webhooks(client: Client) -> Iterator[Object]:
    for resource in (MUTATING, VALIDATING):
        for one in client.list(resource.path()).items:
            if str(one["metadata"]["name"]).startswith(_WEBHOOKS):
                yield {**one, "kind": resource.kind}


def _foreign_definitions(client: Client) -> Iterator[str]:
    for wanted in definitions():
        name = wanted["metadata"]["name"]
        found = _get_existing(client, DEFINITIONS, name)
        if (
            found is not None
            and (found["metadata"].get("labels") or {}).get("app.kubernetes.io/part-of") != INSTALL_NAME
        ):
            yield name


def _get_existing(client: Client, resource: Resource[Any], name: str) -> Object | None:
    try:
        return client.get(resource.path(name=name))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def installed_configuration(client: Client, choices: InstallOptions) -> str | None:
    """The scheduler configuration that an earlier installation left in the cluster; None if there is none."""
    try:
        found = client.get(path_of(config_map(choices)))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return str((found.get("data") or {}).get(SETTINGS_FILE) or "")


def with_default_queue(text: str) -> str | None:
    """A configuration in which jobs that name no queue go to ``default``, as in Volcano.

    None if the configuration names a default queue already, or a line at its end does not make a valid one.
    """
    wanted = f"{text.rstrip()}\n{DEFAULT_QUEUE_KEY}: {DEFAULT_QUEUE}\n"
    try:
        named = read_config(text, SETTINGS_FILE).default_queue
        return wanted if not named and read_config(wanted, SETTINGS_FILE).default_queue == DEFAULT_QUEUE else None
    except ConfigError:
        return None


def stop_volcano(
    client: Client, volcano: VolcanoInstallation, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Delete the webhook configurations, stop the deployments and wait for their pods; yield a line for each step."""
    for one in volcano.webhooks:
        resource = MUTATING if one["kind"] == MUTATING.kind else VALIDATING
        client.delete(resource.path(name=one["metadata"]["name"]), uid=one["metadata"]["uid"])
        yield f"{resource.kind.lower()}/{one['metadata']['name']} deleted"
    for one in volcano.deployments:
        about, replicas = one["metadata"], (one.get("spec") or {}).get("replicas", 1)
        kept = {"metadata": {"annotations": {REPLICAS_ANNOTATION: str(replicas)}}, "spec": {"replicas": 0}}
        client.merge(DEPLOYMENTS.path(about["namespace"], about["name"]), kept)
        note = f"it had {replicas} replicas, see its annotation {REPLICAS_ANNOTATION}"
        yield f"deployment.apps/{about['name']} stopped ({note})"
    deadline = time.monotonic() + STOP_TIMEOUT
    while any(_pods_of(client, one) for one in volcano.deployments) and time.monotonic() < deadline:
        sleep(POLL_SECONDS)


def _pods_of(client: Client, deployment: Object) -> list[Object]:
    chosen = ((deployment.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    query = {"labelSelector": ",".join(f"{name}={value}" for name, value in chosen.items())}
    return client.list(PODS.path(deployment["metadata"]["namespace"]), query).items if chosen else []
