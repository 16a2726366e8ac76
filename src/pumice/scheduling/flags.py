"""Enable flags: which of its hooks a plugin is allowed to use.

A plugin in the configuration file may switch each of its hooks on or off (``enableJobOrder: false``). What
is not said is on, except for the hierarchy, which has to be asked for.

Every flag that files made for Volcano can carry is listed, so that such a file is read as it stands.
``EFFECTIVE`` are those that some hook or policy of ours consults; the others are accepted and noted. A flag
joins ``EFFECTIVE`` together with the code that asks for it.
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

EFFECTIVE = frozenset(
    {
        Flag.JOB_ORDER,
        Flag.HIERARCHY,
        Flag.JOB_READY,
        Flag.QUEUE_ORDER,
        Flag.PREDICATE,
        Flag.NODE_ORDER,
        Flag.JOB_ENQUEUED,
        Flag.ALLOCATABLE,
        Flag.OVERUSED,
        Flag.PREEMPTIVE,
        Flag.RECLAIMABLE,
        Flag.PREEMPTABLE,
        Flag.NAMESPACE_ORDER,
    }
)


def _spellings() -> dict[str, Flag]:
    """Every way a flag is written: ``enable`` and ``enabled`` are mixed, and one began with a capital."""
    spellings = {}
    for flag in Flag:
        hook = flag.value.removeprefix("enabled").removeprefix("enable")
        for prefix in ("enable", "enabled", "Enable", "Enabled"):
            spellings[prefix + hook] = flag
    return spellings


_SPELLINGS = _spellings()


def flag_spelled(key: str) -> Flag | None:
    """The flag that a key of the file means, or None."""
    return _SPELLINGS.get(key)
