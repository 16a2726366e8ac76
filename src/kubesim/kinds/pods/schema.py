"""The schema of a pod: its spec (``podspec``) and the status that schedulers and nodes write."""

from __future__ import annotations

from functools import cache
from typing import Final

from kubesim.kinds.podspec import SHAPES as SPEC_SHAPES
from kubesim.kinds.schema_dsl import OpenApi, expand_schema


@cache
def pod_openapi(*, custom: bool = False) -> OpenApi:
    """The schema of a Pod without what every object has."""
    return expand_schema(SPEC_SHAPES + SHAPES, "Pod", custom=custom)


SHAPES: Final = """
Pod
  spec! PodSpec
  status PodStatus

PodStatus
  allocatedResources {quantity}
  conditions [PodCondition] by type
  containerStatuses [ContainerStatus]
  ephemeralContainerStatuses [ContainerStatus]
  extendedResourceClaimStatus any
  hostIP text
  hostIPs [PodIP] merging ip
  initContainerStatuses [ContainerStatus]
  message text
  nodeAllocatableResourceClaimStatuses [any]
  nominatedNodeName text
  observedGeneration int64
  phase text
  podIP text
  podIPs [PodIP] by ip
  qosClass text
  reason text
  resize text
  resourceClaimStatuses [PodResourceClaimStatus] by name retaining
  resources Resources
  startTime time
PodCondition
  lastProbeTime time
  lastTransitionTime time
  message text
  observedGeneration int64
  reason text
  status! text
  type! text
PodIP
  ip! text
PodResourceClaimStatus
  name! text
  resourceClaimName text

ContainerStatus
  allocatedResources {quantity}
  allocatedResourcesStatus [any]
  containerID text
  image! text
  imageID! text
  lastState ContainerState
  name! text
  ready! bool
  resources Resources
  restartCount! int32
  started bool
  state ContainerState
  stopSignal text
  user any
  volumeMounts [any]
ContainerState
  running ContainerStateRunning
  terminated ContainerStateTerminated
  waiting ContainerStateWaiting
ContainerStateRunning
  startedAt time
ContainerStateTerminated
  containerID text
  exitCode! int32
  finishedAt time
  message text
  reason text
  signal int32
  startedAt time
ContainerStateWaiting
  message text
  reason text
"""
