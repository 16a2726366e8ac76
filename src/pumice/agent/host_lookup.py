"""Finds the addresses and ports of the pods of a job through the API, and gives a pod the ports that it needs."""

from __future__ import annotations

import json
from collections.abc import Collection

from pumice.agent.environment import MissingError, Referenced, container_environment
from pumice.agent.job_hosts import (
    JOB_NAME,
    MOST_PORTS,
    PORTS,
    JobHosts,
    free_port,
    host_name,
    own_ports,
    published_ports,
)
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import NODES, POD_GROUPS, PODS, Document

GROUP = "scheduling.k8s.io/group-name"
ENDED = ("Succeeded", "Failed")


class HostLookup:
    """Looks up the pods of jobs for the agent of one node."""

    def __init__(self, api: Api, address: str) -> None:
        self._api = api
        self._address = address
        self._nodes: dict[str, str] = {}  # addresses by name: a node keeps its address
        self._chosen: dict[str, dict[int, int]] = {}  # by uid of the pod: ports that no plan has yet

    async def find(self, pod: Document, referenced: Referenced, taken: Collection[int]) -> JobHosts:
        """What a pod has to know of the others before it starts; ``MissingError`` while something is not known."""
        name = host_name(pod)
        if not name:
            return JobHosts()
        texts, variables = _texts(pod, referenced, self._address)
        ports = await self._own(pod, own_ports(name, texts, variables), taken)
        hosts = await self._members(pod, name, ports)
        hosts.check_known(texts, variables)
        return hosts

    async def _own(self, pod: Document, wanted: list[int], taken: Collection[int]) -> dict[int, int]:
        """The ports of the pod itself, published before anybody connects to them."""
        if len(wanted) > MOST_PORTS:
            raise MissingError(f"the pod names {len(wanted)} ports of its own, but can be given {MOST_PORTS}")
        about, published = pod["metadata"], published_ports(pod)
        ports = self._chosen.setdefault(about["uid"], {}) | published
        for port in wanted:
            if port not in ports:
                others = {given for chosen in self._chosen.values() for given in chosen.values()}
                ports[port] = free_port(self._address, f"{about['uid']}-{port}", {*taken, *others, *ports.values()})
                self._chosen[about["uid"]] = ports
        if not published.keys() >= set(wanted):
            patch = {"metadata": {"uid": about["uid"], "annotations": {PORTS: json.dumps(ports)}}}
            await self._api.patch(PODS.raw, about["name"], patch, about["namespace"])
        return ports

    def release(self, uid: str) -> None:
        """Forget the ports of a pod: its plan has them now, or it does not start."""
        self._chosen.pop(uid, None)

    async def _members(self, pod: Document, name: str, ports: dict[int, int]) -> JobHosts:
        about = pod["metadata"]
        options = ListOptions(about["namespace"], labels=f"{JOB_NAME}={about['labels'][JOB_NAME]}")
        others = (await self._api.list(PODS.raw, options)).items
        addresses, found, unplaced = {name: self._address}, {name: ports}, set()
        placed = 1
        for other in others:
            host = host_name(other)
            if not host or host == name:
                continue
            node = other["spec"].get("nodeName")
            if node:
                addresses[host], found[host] = await self._node_address(node), published_ports(other)
            elif (other.get("status") or {}).get("phase") not in ENDED:
                unplaced.add(host)
            placed += bool(node)
        if unplaced and placed < await self._least(pod):
            raise MissingError(f"waiting for {', '.join(sorted(unplaced))} to be placed")
        return JobHosts(addresses, found, frozenset(unplaced), name.partition(".")[2])

    async def _least(self, pod: Document) -> int:
        """How many pods of the job start together."""
        group = (pod["metadata"].get("annotations") or {}).get(GROUP)
        if not group:
            return 1
        try:
            found = await self._api.get(POD_GROUPS.raw, group, pod["metadata"]["namespace"])
        except ApiError as error:
            if error.not_found:
                return 1
            raise
        return int((found.get("spec") or {}).get("minMember") or 1)

    async def _node_address(self, name: str) -> str:
        if name not in self._nodes:
            node = await self._api.get(NODES.raw, name)
            addresses = {entry["type"]: entry["address"] for entry in (node.get("status") or {}).get("addresses") or ()}
            self._nodes[name] = str(addresses.get("InternalIP") or name)
        return self._nodes[name]


def _texts(pod: Document, referenced: Referenced, address: str) -> tuple[list[str], dict[str, str]]:
    """Everything in which plugins write names and ports: values of variables and words of commands."""
    texts: list[str] = []
    variables: dict[str, str] = {}
    for part in ("initContainers", "containers"):
        for container in pod["spec"].get(part) or ():
            found = container_environment(pod, container, referenced, [], address)
            variables |= found
            texts += found.values()
            texts += [*(container.get("command") or ()), *(container.get("args") or ())]
    return texts, variables
