"""deviceshare: hand out GPUs card by card, whole or by their memory.

A node with Volcano's device plugin offers ``volcano.sh/gpu-number`` cards, and ``volcano.sh/gpu-memory``, divided
evenly among them. A pod that requests memory gets it from one card, which it shares with others; a pod that requests a
number gets that many cards for itself. So it does not suffice that the node has enough in all: a card must have room.
The plugin chooses the cards with the lowest numbers that do. A ``Bind`` carries them, and the binder writes them into
the annotation ``volcano.sh/gpu-index``, from which the device plugin and a new scheduler read them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import flag
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin, PluginError
from pumice.engine.state.card_rule import CardRule
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import TaskStatus

MEMORY, NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"
UNIT = 1000  # amounts of such resources are in milli
SHARING, COUNTING, VIRTUAL = "deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable", "deviceshare.VGPUEnable"

Mask = NDArray[np.bool_]


class DeviceSharePlugin(Plugin):
    """The cards of all nodes, and the tasks on them."""

    name = "deviceshare"
    takes = (
        Argument(SHARING, "false", f"whether requests for `{MEMORY}` share cards"),
        Argument(COUNTING, "false", f"whether requests for `{NUMBER}` get cards for themselves"),
        Argument(VIRTUAL, "false", "rejected if true: virtual GPUs are not part of this version"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.sharing = flag(arguments, SHARING, False)
        self.counting = flag(arguments, COUNTING, False)
        if flag(arguments, VIRTUAL, False):
            raise PluginError(VIRTUAL, f"{VIRTUAL}: virtual GPUs are not part of this version; use {SHARING}")
        self._tasks: dict[str, dict[Task, None]] = {}  # by node, the tasks that use cards there
        self._epoch = -1  # of the node table that the arrays are about
        self._stale: dict[str, None] = {}  # nodes whose entries in the arrays are outdated
        self._largest: NDArray[np.int64] = np.zeros(0, np.int64)  # per node, the most free memory on one card
        self._unused: NDArray[np.int64] = np.zeros(0, np.int64)  # per node, the cards that no task uses

    # --- rules and filters ------------------------------------------------------------------------------------

    def node_rule(self, leaf: JobNode) -> CardRule | None:
        """The resources that are handed out by cards; the same for all jobs."""
        rule = self._rule()
        return rule if rule.memory >= 0 or rule.number >= 0 else None

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> Mask | None:
        """The nodes whose cards are large enough."""
        memory, _ = self._request(shape)
        if not memory:
            return None
        cards = [self._cards(node) for node in nodes.nodes]
        return np.array([bool(count) and size >= memory for count, size in cards], np.bool_)

    def node_filter_now(self, shape: TaskShape, nodes: NodeTable) -> Mask | None:
        """The nodes with a card that has enough free memory, or with enough unused cards."""
        memory, number = self._request(shape)
        if not memory and not number:
            return None
        self._follow(nodes)
        return (self._largest >= memory) if memory else (self._unused >= number)

    def node_reasons(self, shape: TaskShape, nodes: NodeTable) -> Iterable[tuple[str, Mask]]:
        """Nodes without a card that has room."""
        memory, _ = self._request(shape)
        mask = self.node_filter_now(shape, nodes)
        if mask is None:
            return []
        return [("no GPU with enough free memory" if memory else "too few unused GPUs", mask)]

    # --- tasks ------------------------------------------------------------------------------------------------

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Choose cards for a task, unless it has some; one that only waits on the node may get others later."""
        memory, number = self._request(task.shape)
        if not memory and not number:
            return
        if not task.cards or (task.status is TaskStatus.PIPELINED and not task.spec.cards):
            task.cards = self._choose(node, memory, number)
        self._tasks.setdefault(node.name, {})[task] = None
        self._stale[node.name] = None

    def removed(self, task: Task, node: ClusterNode) -> None:
        """Free the cards of a task."""
        here = self._tasks.get(node.name)
        if here is not None and task in here:
            del here[task]
            self._stale[node.name] = None

    # --- cards ------------------------------------------------------------------------------------------------

    def _rule(self) -> CardRule:
        known = self.registry
        return CardRule(
            known.index(MEMORY) if self.sharing and MEMORY in known else -1,
            known.index(NUMBER) if self.counting and NUMBER in known else -1,
        )

    def _request(self, shape: TaskShape) -> tuple[int, int]:
        """What a task asks of one card, and how many cards it wants for itself; one of both is 0."""
        rule, asks = self._rule(), dict(shape.items)
        number = -(-asks.get(rule.number, 0) // UNIT)
        return (0 if number else asks.get(rule.memory, 0)), number

    def _cards(self, node: ClusterNode) -> tuple[int, int]:
        """How many cards a node has, and the memory of each."""
        known, offered = self.registry, node.allocatable
        amounts = [offered[known.index(name)] if name in known else 0 for name in (NUMBER, MEMORY)]
        count = amounts[0] // UNIT
        return count, amounts[1] // count if count else 0

    def _use(self, node: ClusterNode) -> tuple[list[int], list[bool]]:
        """The free memory of each card, and whether no task uses it."""
        count, size = self._cards(node)
        free, unused = [size] * count, [True] * count
        for task in self._tasks.get(node.name, ()):
            memory, _ = self._request(task.shape)
            for card in task.cards:
                if card < count:
                    free[card] -= memory or size
                    unused[card] = False
        return free, unused

    def _choose(self, node: ClusterNode, memory: int, number: int) -> tuple[int, ...]:
        """The cards with the lowest numbers that have room; if none has, those with the most."""
        free, unused = self._use(node)
        if number:
            return tuple(sorted(sorted(range(len(free)), key=lambda card: (not unused[card], card))[:number]))
        return tuple(sorted(range(len(free)), key=lambda card: (free[card] < memory, card))[:1])

    def _follow(self, nodes: NodeTable) -> None:
        """Bring the arrays in line with the tasks."""
        if self._epoch != nodes.epoch or len(self._largest) != len(nodes.nodes):
            self._epoch = nodes.epoch
            self._largest = np.zeros(len(nodes.nodes), np.int64)
            self._unused = np.zeros(len(nodes.nodes), np.int64)
            self._stale = dict.fromkeys(node.name for node in nodes.nodes)
        for name in self._stale:
            at = nodes.index.get(name, -1)
            if at >= 0:
                free, unused = self._use(nodes.nodes[at])
                self._largest[at] = max(free, default=0)
                self._unused[at] = sum(unused)
        self._stale.clear()
