"""Enable flags: which of its hooks a plugin is allowed to use.

A plugin's entry in the configuration file may switch each of its hooks on or off (``enableJobOrder: false``). A hook is
on by default, except for the hierarchy, which must be enabled.

All flags of Volcano's configuration files are listed, so that such a file can be read unchanged. ``EFFECTIVE`` are the
flags that a hook or policy of ours consults; the others are accepted with a note. A flag joins ``EFFECTIVE`` together
with the code that consults it.
"""

from __future__ import annotations

from enum import Enum


class Flag(Enum):
    """A hook that the configuration can switch; the value is its key in the file."""

    JOB_ORDER = "enableJobOrder"
    HIERARCHY = "enableHierarchy"
    JOB_READY = "enableJobReady"
    JOB_PIPELINED = "enableJobPipelined"
    TASK_ORDER = "enableTaskOrder"
    PREEMPTABLE = "enablePreemptable"
    RECLAIMABLE = "enableReclaimable"
    PREEMPTIVE = "enablePreemptive"
    QUEUE_ORDER = "enableQueueOrder"
    CLUSTER_ORDER = "enabledClusterOrder"
    PREDICATE = "enablePredicate"
    BEST_NODE = "enableBestNode"
    NODE_ORDER = "enableNodeOrder"
    TARGET_JOB = "enableTargetJob"
    RESERVED_NODES = "enableReservedNodes"
    JOB_ENQUEUED = "enableJobEnqueued"
    VICTIM = "enabledVictim"
    JOB_STARVING = "enableJobStarving"
    OVERUSED = "enabledOverused"
    ALLOCATABLE = "enabledAllocatable"
    HYPER_NODE_ORDER = "enabledHyperNodeOrder"
    SUB_JOB_READY = "enabledSubJobReady"
    SUB_JOB_PIPELINED = "enabledSubJobPipelined"
    SUB_JOB_ORDER = "enabledSubJobOrder"
    HYPER_NODE_GRADIENT = "enabledHyperNodeGradient"
    NAMESPACE_ORDER = "enableNamespaceOrder"


OFF_BY_DEFAULT = frozenset({Flag.HIERARCHY})

ON_BY_DEFAULT = frozenset(Flag) - OFF_BY_DEFAULT

MEANING = {
    Flag.HIERARCHY: "drf: H-DRF over the tree of queues instead of flat DRF; capacity always counts parents (noted)",
    Flag.QUEUE_ORDER: "the plugin orders the queues (the first enabled plugin that can)",
    Flag.NAMESPACE_ORDER: "drf: namespaces are a level of the tree between queues and jobs",
    Flag.JOB_ORDER: "the order of jobs in a queue: by priority, deadline, share",
    Flag.JOB_READY: "gang: a job starts all of its minimum together",
    Flag.JOB_ENQUEUED: "the plugin may keep Pending jobs from being enqueued",
    Flag.OVERUSED: "the plugin may declare a queue overused, which then gets nothing more",
    Flag.ALLOCATABLE: "the plugin may keep jobs from starting: capability, deserved, user limits",
    Flag.PREDICATE: "the plugin filters nodes for a task",
    Flag.NODE_ORDER: "the plugin scores nodes for a task",
    Flag.PREEMPTIVE: "the plugin may keep jobs from reclaiming from other queues",
    Flag.RECLAIMABLE: "the plugin may veto victims of reclaim; the plugin that orders the queues must agree",
    Flag.PREEMPTABLE: "the plugin may veto victims of preempt; priority agrees to lower classes, drf to equals",
}
"""The effect of each flag that a hook or policy of ours consults."""

EFFECTIVE = frozenset(MEANING)


def _spellings() -> dict[str, Flag]:
    """All spellings of the flags: files mix ``enable`` and ``enabled``, and one flag began with a capital."""
    spellings = {}
    for flag in Flag:
        hook = flag.value.removeprefix("enabled").removeprefix("enable")
        for prefix in ("enable", "enabled", "Enable", "Enabled"):
            spellings[prefix + hook] = flag
    return spellings


_SPELLINGS = _spellings()


def flag_spelled(key: str) -> Flag | None:
    """The flag that a key of the file denotes, or None."""
    return _SPELLINGS.get(key)
