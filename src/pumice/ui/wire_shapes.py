"""Objects as the API sends them, with the fields that only the page shows."""

from __future__ import annotations

from pumice.kube.decode import api_types


class Owner(api_types.Owner, frozen=True):
    """The owner of an object, by kind and name."""

    kind: str = ""
    name: str = ""


class OwnedMetadata(api_types.Metadata, frozen=True):
    """Metadata with the owners."""

    owner_references: tuple[Owner, ...] = ()


class GroupStatus(api_types.PodGroupStatus, frozen=True):
    """The status of a PodGroup with its conditions."""

    conditions: tuple[api_types.PodCondition, ...] = ()


class Group(api_types.PodGroup, frozen=True):
    """A PodGroup with its owners and conditions."""

    metadata: OwnedMetadata = OwnedMetadata()
    status: GroupStatus = GroupStatus()


class Waiting(api_types.Wire, frozen=True):
    """Why a container waits."""

    reason: str = ""
    message: str = ""


class ContainerState(api_types.Wire, frozen=True):
    """The state of a container, if it waits."""

    waiting: Waiting | None = None


class ContainerStatus(api_types.ContainerStatus, frozen=True):
    """The status of a container with its state."""

    state: ContainerState = ContainerState()


class PodStatus(api_types.PodStatus, frozen=True):
    """The status of a pod with the reasons that the page shows."""

    reason: str = ""
    message: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(api_types.Pod, frozen=True):
    """A pod with the reasons that the page shows."""

    status: PodStatus = PodStatus()


class QueueStatus(api_types.QueueStatus, frozen=True):
    """The status of a queue with its conditions."""

    conditions: tuple[api_types.PodCondition, ...] = ()


class Queue(api_types.Queue, frozen=True):
    """A queue with its conditions."""

    status: QueueStatus = QueueStatus()
