"""The schema of a pod's spec, which pods have and workload kinds carry in a template.

Names and types are those of the core API, version 1. Volume sources of storage that no simulated node can mount are
open objects: they are kept as written.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kubesim.kinds.schema_dsl import OpenApi, expand_schema


@cache
def pod_spec_schema(*, custom: bool = False) -> OpenApi:
    """The schema of a PodSpec: as kube-apiserver reads its own kinds, or as a custom resource is held to it."""
    return expand_schema(SHAPES, "PodSpec", custom=custom)


@cache
def pod_template_schema(*, custom: bool = False) -> OpenApi:
    """The schema of a PodTemplateSpec, metadata and spec."""
    return expand_schema(SHAPES, "PodTemplateSpec", custom=custom)


SHAPES: Final = """
PodTemplateSpec
  metadata TemplateMeta
  spec PodSpec

TemplateMeta
  name text
  generateName text
  namespace text
  labels {text}
  annotations {text}
  finalizers [text]
  creationTimestamp time

PodSpec
  activeDeadlineSeconds int64
  affinity Affinity
  automountServiceAccountToken bool
  containers! [Container] by name
  dnsConfig PodDNSConfig
  dnsPolicy text
  enableServiceLinks bool
  ephemeralContainers [EphemeralContainer] by name
  hostAliases [HostAlias] by ip
  hostIPC bool
  hostNetwork bool
  hostPID bool
  hostUsers bool
  hostname text
  hostnameOverride text
  imagePullSecrets [PullSecret] by name
  initContainers [Container] by name
  nodeName text
  nodeSelector {text} atomic
  os PodOS
  overhead {quantity}
  preemptionPolicy text
  priority int32
  priorityClassName text
  readinessGates [PodReadinessGate]
  resourceClaims [PodResourceClaim] by name retaining
  resources Resources
  restartPolicy text
  runtimeClassName text
  schedulerName text
  schedulingGates [PodSchedulingGate] by name
  schedulingGroup PodSchedulingGroup
  securityContext PodSecurityContext
  serviceAccount text
  serviceAccountName text
  setHostnameAsFQDN bool
  shareProcessNamespace bool
  subdomain text
  terminationGracePeriodSeconds int64
  tolerations [Toleration]
  topologySpreadConstraints [TopologySpreadConstraint] by topologyKey,whenUnsatisfiable
  volumes [Volume] by name retaining

NameReference
  name text
PullSecret
  name text = ""
PodOS
  name! text
PodReadinessGate
  conditionType! text
PodSchedulingGate
  name! text
PodSchedulingGroup
  podGroupName text
PodResourceClaim
  name! text
  resourceClaimName text
  resourceClaimTemplateName text
HostAlias
  hostnames [text]
  ip! text
PodDNSConfig
  nameservers [text]
  options [DNSOption]
  searches [text]
DNSOption
  name text
  value text

Toleration
  effect text
  key text
  operator text
  tolerationSeconds int64
  value text
TopologySpreadConstraint
  labelSelector LabelSelector
  matchLabelKeys [text]
  maxSkew! int32
  minDomains int32
  nodeAffinityPolicy text
  nodeTaintsPolicy text
  topologyKey! text
  whenUnsatisfiable! text

Affinity
  nodeAffinity NodeAffinity
  podAffinity PodAffinity
  podAntiAffinity PodAffinity
NodeAffinity
  preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution NodeSelector
PreferredSchedulingTerm
  preference! NodeSelectorTerm
  weight! int32
NodeSelector
  nodeSelectorTerms! [NodeSelectorTerm]
NodeSelectorTerm
  matchExpressions [Requirement]
  matchFields [Requirement]
Requirement
  key! text
  operator! text
  values [text]
PodAffinity
  preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm]
WeightedPodAffinityTerm
  podAffinityTerm! PodAffinityTerm
  weight! int32
PodAffinityTerm
  labelSelector LabelSelector
  matchLabelKeys [text]
  mismatchLabelKeys [text]
  namespaceSelector LabelSelector
  namespaces [text]
  topologyKey! text
LabelSelector
  matchExpressions [Requirement]
  matchLabels {text}

Container
  args [text]
  command [text]
  env [EnvVar] by name
  envFrom [EnvFromSource]
  image text
  imagePullPolicy text
  lifecycle Lifecycle
  livenessProbe Probe
  name! text
  ports [ContainerPort] by containerPort,protocol
  readinessProbe Probe
  resizePolicy [ContainerResizePolicy]
  resources Resources
  restartPolicy text
  restartPolicyRules [ContainerRestartRule]
  securityContext SecurityContext
  startupProbe Probe
  stdin bool
  stdinOnce bool
  terminationMessagePath text
  terminationMessagePolicy text
  tty bool
  volumeDevices [VolumeDevice] by devicePath
  volumeMounts [VolumeMount] by mountPath
  workingDir text

EphemeralContainer
  args [text]
  command [text]
  env [EnvVar] by name
  envFrom [EnvFromSource]
  image text
  imagePullPolicy text
  lifecycle Lifecycle
  livenessProbe Probe
  name! text
  ports [ContainerPort] by containerPort,protocol
  readinessProbe Probe
  resizePolicy [ContainerResizePolicy]
  resources Resources
  restartPolicy text
  restartPolicyRules [ContainerRestartRule]
  securityContext SecurityContext
  startupProbe Probe
  stdin bool
  stdinOnce bool
  targetContainerName text
  terminationMessagePath text
  terminationMessagePolicy text
  tty bool
  volumeDevices [VolumeDevice] by devicePath
  volumeMounts [VolumeMount] by mountPath
  workingDir text

EnvVar
  name! text
  value text
  valueFrom EnvVarSource
EnvVarSource
  configMapKeyRef KeySelector
  fieldRef FieldSelector
  fileKeyRef FileKeySelector
  resourceFieldRef ResourceFieldSelector
  secretKeyRef KeySelector
KeySelector
  key! text
  name text
  optional bool
FieldSelector
  apiVersion text
  fieldPath! text
FileKeySelector
  key! text
  optional bool
  path! text
  volumeName! text
ResourceFieldSelector
  containerName text
  divisor quantity
  resource! text
EnvFromSource
  configMapRef OptionalReference
  prefix text
  secretRef OptionalReference
OptionalReference
  name text
  optional bool

ContainerPort
  containerPort! int32
  hostIP text
  hostPort int32
  name text
  protocol text = "TCP"
ContainerResizePolicy
  resourceName! text
  restartPolicy! text
ContainerRestartRule
  action! text
  exitCodes ExitCodes
ExitCodes
  operator! text
  values [int32]
Resources
  claims [ResourceClaim]
  limits {quantity}
  requests {quantity}
ResourceClaim
  name! text
  request text
VolumeDevice
  devicePath! text
  name! text
VolumeMount
  mountPath! text
  mountPropagation text
  name! text
  readOnly bool
  recursiveReadOnly text
  subPath text
  subPathExpr text

Lifecycle
  postStart LifecycleHandler
  preStop LifecycleHandler
  stopSignal text
LifecycleHandler
  exec ExecAction
  httpGet HTTPGetAction
  sleep SleepAction
  tcpSocket TCPSocketAction
Probe
  exec ExecAction
  failureThreshold int32
  grpc GRPCAction
  httpGet HTTPGetAction
  initialDelaySeconds int32
  periodSeconds int32
  successThreshold int32
  tcpSocket TCPSocketAction
  terminationGracePeriodSeconds int64
  timeoutSeconds int32
ExecAction
  command [text]
HTTPGetAction
  host text
  httpHeaders [NameAndValue]
  path text
  port! int-or-text
  scheme text
NameAndValue
  name! text
  value! text
SleepAction
  seconds! int64
TCPSocketAction
  host text
  port! int-or-text
GRPCAction
  port! int32
  service text

SecurityContext
  allowPrivilegeEscalation bool
  appArmorProfile Profile
  capabilities Capabilities
  privileged bool
  procMount text
  readOnlyRootFilesystem bool
  runAsGroup int64
  runAsNonRoot bool
  runAsUser int64
  seLinuxOptions SELinuxOptions
  seccompProfile Profile
  windowsOptions WindowsOptions
PodSecurityContext
  appArmorProfile Profile
  fsGroup int64
  fsGroupChangePolicy text
  runAsGroup int64
  runAsNonRoot bool
  runAsUser int64
  seLinuxChangePolicy text
  seLinuxOptions SELinuxOptions
  seccompProfile Profile
  supplementalGroups [int64]
  supplementalGroupsPolicy text
  sysctls [NameAndValue]
  windowsOptions WindowsOptions
Profile
  localhostProfile text
  type! text
Capabilities
  add [text]
  drop [text]
SELinuxOptions
  level text
  role text
  type text
  user text
WindowsOptions
  gmsaCredentialSpec text
  gmsaCredentialSpecName text
  hostProcess bool
  runAsUserName text

Volume
  awsElasticBlockStore any
  azureDisk any
  azureFile any
  cephfs any
  cinder any
  configMap ConfigMapVolume
  csi CSIVolume
  downwardAPI DownwardAPIVolume
  emptyDir EmptyDirVolume
  ephemeral EphemeralVolume
  fc any
  flexVolume any
  flocker any
  gcePersistentDisk any
  gitRepo any
  glusterfs any
  hostPath HostPathVolume
  image ImageVolume
  iscsi any
  name! text
  nfs NFSVolume
  persistentVolumeClaim ClaimVolume
  photonPersistentDisk any
  portworxVolume any
  projected ProjectedVolume
  quobyte any
  rbd any
  scaleIO any
  secret SecretVolume
  storageos any
  vsphereVolume any
ConfigMapVolume
  defaultMode int32
  items [KeyToPath]
  name text
  optional bool
SecretVolume
  defaultMode int32
  items [KeyToPath]
  optional bool
  secretName text
KeyToPath
  key! text
  mode int32
  path! text
CSIVolume
  driver! text
  fsType text
  nodePublishSecretRef NameReference
  readOnly bool
  volumeAttributes {text}
DownwardAPIVolume
  defaultMode int32
  items [DownwardAPIFile]
DownwardAPIFile
  fieldRef FieldSelector
  mode int32
  path! text
  resourceFieldRef ResourceFieldSelector
EmptyDirVolume
  medium text
  sizeLimit quantity
EphemeralVolume
  volumeClaimTemplate any
HostPathVolume
  path! text
  type text
ImageVolume
  pullPolicy text
  reference text
NFSVolume
  path! text
  readOnly bool
  server! text
ClaimVolume
  claimName! text
  readOnly bool
ProjectedVolume
  defaultMode int32
  sources [Projection]
Projection
  clusterTrustBundle any
  configMap ConfigMapProjection
  downwardAPI DownwardAPIProjection
  podCertificate any
  secret ConfigMapProjection
  serviceAccountToken TokenProjection
ConfigMapProjection
  items [KeyToPath]
  name text
  optional bool
DownwardAPIProjection
  items [DownwardAPIFile]
TokenProjection
  audience text
  expirationSeconds int64
  path! text
"""
