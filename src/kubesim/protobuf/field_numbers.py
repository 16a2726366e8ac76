"""The numbers by which protobuf knows the fields that the shapes of ``kinds`` know by name.

``python -m tools.protobuf_numbers`` made this file from k8s.io/api and k8s.io/apimachinery v0.36.4: do not edit it.
A shape is a name on a line of its own, then its fields::

    VolumeMount
      name=1 readOnly=2 mountPath=3 mountPropagation=5*

``2.19`` is field 19 of a message 2 that has no name in JSON: there its fields stand beside the others. ``*`` is a
field of which JSON shows the zero, because it is only sent if it is set or because JSON never leaves it out; zeros of
the others are left out unless the shape requires the field. After ``:`` comes what the wire holds, where it is not what
the shape says: ``micro`` (a time in microseconds), ``bytes`` (of which JSON has the base64) or ``nothing`` that the
server keeps.
"""

from typing import Final

NUMBERS: Final = """
ObjectMeta
  name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7 creationTimestamp=8
  deletionTimestamp=9 deletionGracePeriodSeconds=10* labels=11 annotations=12 ownerReferences=13 finalizers=14
  managedFields=17:nothing
OwnerReference
  kind=1 name=3 uid=4 apiVersion=5 controller=6* blockOwnerDeletion=7*
DeleteOptions
  gracePeriodSeconds=1* preconditions=2 orphanDependents=3* propagationPolicy=4* dryRun=5
Preconditions
  uid=1* resourceVersion=2*
Binding
  metadata=1 target=2
Eviction
  metadata=1 deleteOptions=2
Scale
  metadata=1 spec=2 status=3
ScaleSpec
  replicas=1
ScaleStatus
  replicas=1 selector=2
ObjectReference
  kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7

PodTemplateSpec
  metadata=1 spec=2
TemplateMeta
  name=1 generateName=2 namespace=3 creationTimestamp=8 labels=11 annotations=12 finalizers=14
PodSpec
  volumes=1 containers=2 restartPolicy=3 terminationGracePeriodSeconds=4* activeDeadlineSeconds=5* dnsPolicy=6
  nodeSelector=7 serviceAccountName=8 serviceAccount=9 nodeName=10 hostNetwork=11 hostPID=12 hostIPC=13
  securityContext=14 imagePullSecrets=15 hostname=16 subdomain=17 affinity=18 schedulerName=19 initContainers=20
  automountServiceAccountToken=21* tolerations=22 hostAliases=23 priorityClassName=24 priority=25* dnsConfig=26
  shareProcessNamespace=27* readinessGates=28 runtimeClassName=29* enableServiceLinks=30* preemptionPolicy=31*
  overhead=32 topologySpreadConstraints=33 ephemeralContainers=34 setHostnameAsFQDN=35* os=36 hostUsers=37*
  schedulingGates=38 resourceClaims=39 resources=40 hostnameOverride=41* schedulingGroup=43
NameReference
  name=1
PullSecret
  name=1
PodOS
  name=1
PodReadinessGate
  conditionType=1
PodSchedulingGate
  name=1
PodSchedulingGroup
  podGroupName=1*
PodResourceClaim
  name=1 resourceClaimName=3* resourceClaimTemplateName=4*
HostAlias
  ip=1 hostnames=2
PodDNSConfig
  nameservers=1 searches=2 options=3
DNSOption
  name=1 value=2*
Toleration
  key=1 operator=2 value=3 effect=4 tolerationSeconds=5*
TopologySpreadConstraint
  maxSkew=1 topologyKey=2 whenUnsatisfiable=3 labelSelector=4 minDomains=5* nodeAffinityPolicy=6* nodeTaintsPolicy=7*
  matchLabelKeys=8
Affinity
  nodeAffinity=1 podAffinity=2 podAntiAffinity=3
NodeAffinity
  requiredDuringSchedulingIgnoredDuringExecution=1 preferredDuringSchedulingIgnoredDuringExecution=2
PreferredSchedulingTerm
  weight=1 preference=2
NodeSelector
  nodeSelectorTerms=1
NodeSelectorTerm
  matchExpressions=1 matchFields=2
Requirement
  key=1 operator=2 values=3
PodAffinity
  requiredDuringSchedulingIgnoredDuringExecution=1 preferredDuringSchedulingIgnoredDuringExecution=2
WeightedPodAffinityTerm
  weight=1 podAffinityTerm=2
PodAffinityTerm
  labelSelector=1 namespaces=2 topologyKey=3 namespaceSelector=4 matchLabelKeys=5 mismatchLabelKeys=6
LabelSelector
  matchLabels=1 matchExpressions=2
Container
  name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 volumeMounts=9 livenessProbe=10
  readinessProbe=11 lifecycle=12 terminationMessagePath=13 imagePullPolicy=14 securityContext=15 stdin=16 stdinOnce=17
  tty=18 envFrom=19 terminationMessagePolicy=20 volumeDevices=21 startupProbe=22 resizePolicy=23 restartPolicy=24*
  restartPolicyRules=25
EphemeralContainer
  name=1.1 image=1.2 command=1.3 args=1.4 workingDir=1.5 ports=1.6 env=1.7 resources=1.8 volumeMounts=1.9
  livenessProbe=1.10 readinessProbe=1.11 lifecycle=1.12 terminationMessagePath=1.13 imagePullPolicy=1.14
  securityContext=1.15 stdin=1.16 stdinOnce=1.17 tty=1.18 envFrom=1.19 terminationMessagePolicy=1.20
  volumeDevices=1.21 startupProbe=1.22 resizePolicy=1.23 restartPolicy=1.24* restartPolicyRules=1.25
  targetContainerName=2
EnvVar
  name=1 value=2 valueFrom=3
EnvVarSource
  fieldRef=1 resourceFieldRef=2 configMapKeyRef=3 secretKeyRef=4 fileKeyRef=5
KeySelector
  name=1.1 key=2 optional=3*
FieldSelector
  apiVersion=1 fieldPath=2
FileKeySelector
  volumeName=1 path=2 key=3 optional=4*
ResourceFieldSelector
  containerName=1 resource=2 divisor=3
EnvFromSource
  prefix=1 configMapRef=2 secretRef=3
OptionalReference
  name=1.1 optional=2*
ContainerPort
  name=1 hostPort=2 containerPort=3 protocol=4 hostIP=5
ContainerResizePolicy
  resourceName=1 restartPolicy=2
ContainerRestartRule
  action=1 exitCodes=2
ExitCodes
  operator=1 values=2
Resources
  limits=1 requests=2 claims=3
ResourceClaim
  name=1 request=2
VolumeDevice
  name=1 devicePath=2
VolumeMount
  name=1 readOnly=2 mountPath=3 subPath=4 mountPropagation=5* subPathExpr=6 recursiveReadOnly=7*
Lifecycle
  postStart=1 preStop=2 stopSignal=3*
LifecycleHandler
  exec=1 httpGet=2 tcpSocket=3 sleep=4
Probe
  exec=1.1 httpGet=1.2 tcpSocket=1.3 grpc=1.4 initialDelaySeconds=2 timeoutSeconds=3 periodSeconds=4
  successThreshold=5 failureThreshold=6 terminationGracePeriodSeconds=7*
ExecAction
  command=1
HTTPGetAction
  path=1 port=2 host=3 scheme=4 httpHeaders=5
NameAndValue
  name=1 value=2
SleepAction
  seconds=1
TCPSocketAction
  port=1 host=2
GRPCAction
  port=1 service=2*
SecurityContext
  capabilities=1 privileged=2* seLinuxOptions=3 runAsUser=4* runAsNonRoot=5* readOnlyRootFilesystem=6*
  allowPrivilegeEscalation=7* runAsGroup=8* procMount=9* windowsOptions=10 seccompProfile=11 appArmorProfile=12
PodSecurityContext
  seLinuxOptions=1 runAsUser=2* runAsNonRoot=3* supplementalGroups=4 fsGroup=5* runAsGroup=6* sysctls=7
  windowsOptions=8 fsGroupChangePolicy=9* seccompProfile=10 appArmorProfile=11 supplementalGroupsPolicy=12*
  seLinuxChangePolicy=13*
Profile
  type=1 localhostProfile=2*
Capabilities
  add=1 drop=2
SELinuxOptions
  user=1 role=2 type=3 level=4
WindowsOptions
  gmsaCredentialSpecName=1* gmsaCredentialSpec=2* runAsUserName=3* hostProcess=4*
Volume
  name=1 hostPath=2.1 emptyDir=2.2 gcePersistentDisk=2.3 awsElasticBlockStore=2.4 gitRepo=2.5 secret=2.6 nfs=2.7
  iscsi=2.8 glusterfs=2.9 persistentVolumeClaim=2.10 rbd=2.11 flexVolume=2.12 cinder=2.13 cephfs=2.14 flocker=2.15
  downwardAPI=2.16 fc=2.17 azureFile=2.18 configMap=2.19 vsphereVolume=2.20 quobyte=2.21 azureDisk=2.22
  photonPersistentDisk=2.23 portworxVolume=2.24 scaleIO=2.25 projected=2.26 storageos=2.27 csi=2.28 ephemeral=2.29
  image=2.30
ConfigMapVolume
  name=1.1 items=2 defaultMode=3* optional=4*
SecretVolume
  secretName=1 items=2 defaultMode=3* optional=4*
KeyToPath
  key=1 path=2 mode=3*
CSIVolume
  driver=1 readOnly=2* fsType=3* volumeAttributes=4 nodePublishSecretRef=5
DownwardAPIVolume
  items=1 defaultMode=2*
DownwardAPIFile
  path=1 fieldRef=2 resourceFieldRef=3 mode=4*
EmptyDirVolume
  medium=1 sizeLimit=2
EphemeralVolume
  volumeClaimTemplate=1
HostPathVolume
  path=1 type=2*
ImageVolume
  reference=1 pullPolicy=2
NFSVolume
  server=1 path=2 readOnly=3
ClaimVolume
  claimName=1 readOnly=2
ProjectedVolume
  sources=1 defaultMode=2*
Projection
  secret=1 downwardAPI=2 configMap=3 serviceAccountToken=4 clusterTrustBundle=5 podCertificate=6
ConfigMapProjection
  name=1.1 items=2 optional=4*
DownwardAPIProjection
  items=1
TokenProjection
  audience=1 expirationSeconds=2* path=3

Pod
  spec=2 status=3
PodStatus
  phase=1 conditions=2 message=3 reason=4 hostIP=5 podIP=6 startTime=7 containerStatuses=8 qosClass=9
  initContainerStatuses=10 nominatedNodeName=11 podIPs=12 ephemeralContainerStatuses=13 resize=14
  resourceClaimStatuses=15 hostIPs=16 observedGeneration=17 extendedResourceClaimStatus=18 allocatedResources=19
  resources=20 nodeAllocatableResourceClaimStatuses=21
PodCondition
  type=1 status=2 lastProbeTime=3 lastTransitionTime=4 reason=5 message=6 observedGeneration=7
PodIP
  ip=1
PodResourceClaimStatus
  name=1 resourceClaimName=2*
ContainerStatus
  name=1 state=2 lastState=3 ready=4 restartCount=5 image=6 imageID=7 containerID=8 started=9* allocatedResources=10
  resources=11 volumeMounts=12 user=13 allocatedResourcesStatus=14 stopSignal=15*
ContainerState
  waiting=1 running=2 terminated=3
ContainerStateRunning
  startedAt=1
ContainerStateTerminated
  exitCode=1 signal=2 reason=3 message=4 startedAt=5 finishedAt=6 containerID=7
ContainerStateWaiting
  reason=1 message=2

WorkloadCondition
  type=1 status=2 lastTransitionTime=3 reason=4 message=5
Deployment
  spec=2 status=3
DeploymentSpec
  replicas=1* selector=2 template=3 strategy=4 minReadySeconds=5 revisionHistoryLimit=6* paused=7
  progressDeadlineSeconds=9*
DeploymentStrategy
  type=1 rollingUpdate=2
RollingUpdate
  maxUnavailable=1 maxSurge=2
DeploymentStatus
  observedGeneration=1 replicas=2 updatedReplicas=3 availableReplicas=4 unavailableReplicas=5 conditions=6
  readyReplicas=7 collisionCount=8* terminatingReplicas=9*
DeploymentCondition
  type=1 status=2 reason=4 message=5 lastUpdateTime=6 lastTransitionTime=7
ReplicaSet
  spec=2 status=3
ReplicaSetSpec
  replicas=1* selector=2 template=3 minReadySeconds=4
ReplicaSetStatus
  replicas=1 fullyLabeledReplicas=2 observedGeneration=3 readyReplicas=4 availableReplicas=5 conditions=6
  terminatingReplicas=7*

Job
  spec=2 status=3
JobSpec
  parallelism=1* completions=2* activeDeadlineSeconds=3* selector=4 manualSelector=5* template=6 backoffLimit=7*
  ttlSecondsAfterFinished=8* completionMode=9* suspend=10* podFailurePolicy=11 backoffLimitPerIndex=12*
  maxFailedIndexes=13* podReplacementPolicy=14* managedBy=15* successPolicy=16
PodFailurePolicy
  rules=1
FailureRule
  action=1 onExitCodes=2 onPodConditions=3
FailureExitCodes
  containerName=1* operator=2 values=3
PodConditionPattern
  type=1 status=2*
SuccessPolicy
  rules=1
SuccessRule
  succeededIndexes=1* succeededCount=2*
JobStatus
  conditions=1 startTime=2 completionTime=3 active=4 succeeded=5 failed=6 completedIndexes=7 uncountedTerminatedPods=8
  ready=9* failedIndexes=10* terminating=11*
JobCondition
  type=1 status=2 lastProbeTime=3 lastTransitionTime=4 reason=5 message=6
UncountedPods
  succeeded=1 failed=2

Node
  spec=2 status=3
NodeSpec
  podCIDR=1 externalID=2 providerID=3 unschedulable=4 taints=5 configSource=6 podCIDRs=7
Taint
  key=1 value=2 effect=3 timeAdded=4
NodeStatus
  capacity=1 allocatable=2 phase=3 conditions=4 addresses=5 daemonEndpoints=6 nodeInfo=7 images=8 volumesInUse=9
  volumesAttached=10 config=11 runtimeHandlers=12 features=13 declaredFeatures=14
NodeAddress
  type=1 address=2
NodeCondition
  type=1 status=2 lastHeartbeatTime=3 lastTransitionTime=4 reason=5 message=6
NodeDaemonEndpoints
  kubeletEndpoint=1
DaemonEndpoint
  Port=1
ContainerImage
  names=1 sizeBytes=2
NodeSystemInfo
  machineID=1 systemUUID=2 bootID=3 kernelVersion=4 osImage=5 containerRuntimeVersion=6 kubeletVersion=7
  kubeProxyVersion=8 operatingSystem=9 architecture=10 swap=11

Namespace
  spec=2 status=3
NamespaceSpec
  finalizers=1
NamespaceStatus
  phase=1 conditions=2
NamespaceCondition
  type=1 status=2 lastTransitionTime=4 reason=5 message=6

ResourceQuota
  spec=2 status=3
ResourceQuotaSpec
  hard=1 scopes=2 scopeSelector=3
ResourceQuotaStatus
  hard=1 used=2
ScopeSelector
  matchExpressions=1
ScopeRequirement
  scopeName=1 operator=2 values=3

PriorityClass
  value=2 globalDefault=3 description=4 preemptionPolicy=5*

Event
  involvedObject=2 reason=3 message=4 source=5 firstTimestamp=6 lastTimestamp=7 count=8 type=9 eventTime=10:micro
  series=11 action=12 related=13 reportingComponent=14 reportingInstance=15
EventSeries
  count=1 lastObservedTime=2:micro
EventSource
  component=1 host=2

ConfigMap
  data=2 binaryData=3:{bytes} immutable=4*
Secret
  data=2:{bytes} type=3 stringData=4 immutable=5*

ServiceAccount
  secrets=2 imagePullSecrets=3 automountServiceAccountToken=4*

Lease
  spec=2
LeaseSpec
  holderIdentity=1* leaseDurationSeconds=2* acquireTime=3:micro renewTime=4:micro leaseTransitions=5* strategy=6*
  preferredHolder=7*

PodDisruptionBudget
  spec=2 status=3
BudgetSpec
  minAvailable=1 selector=2 maxUnavailable=3 unhealthyPodEvictionPolicy=4*
BudgetStatus
  observedGeneration=1 disruptedPods=2 disruptionsAllowed=3 currentHealthy=4 desiredHealthy=5 expectedPods=6
  conditions=7
Condition
  type=1 status=2 observedGeneration=3 lastTransitionTime=4 reason=5 message=6

NetworkPolicy
  spec=2
NetworkPolicySpec
  podSelector=1 ingress=2 egress=3 policyTypes=4
NetworkPolicyEgressRule
  ports=1 to=2
NetworkPolicyIngressRule
  ports=1 from=2
NetworkPolicyPeer
  podSelector=1 namespaceSelector=2 ipBlock=3
NetworkPolicyPort
  protocol=1* port=2 endPort=3*
IPBlock
  cidr=1 except=2

SelfSubjectAccessReview
  spec=2 status=3
AccessSpec
  resourceAttributes=1 nonResourceAttributes=2
NonResourceAttributes
  path=1 verb=2
ResourceAttributes
  namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7 fieldSelector=8 labelSelector=9
AccessStatus
  allowed=1 reason=2 evaluationError=3 denied=4
SelfSubjectRulesReview
  spec=2 status=3
RulesSpec
  namespace=1
RulesStatus
  resourceRules=1 nonResourceRules=2 incomplete=3 evaluationError=4
NonResourceRule
  verbs=1 nonResourceURLs=2
ResourceRule
  verbs=1 apiGroups=2 resources=3 resourceNames=4
SelfSubjectReview
  status=2
SelfSubjectStatus
  userInfo=1
UserInfo
  username=1 uid=2 groups=3 extra=4

PersistentVolume
  spec=2 status=3
VolumeSpec
  capacity=1 gcePersistentDisk=2.1 awsElasticBlockStore=2.2 hostPath=2.3 glusterfs=2.4 nfs=2.5 rbd=2.6 iscsi=2.7
  cinder=2.8 cephfs=2.9 fc=2.10 flocker=2.11 flexVolume=2.12 azureFile=2.13 vsphereVolume=2.14 quobyte=2.15
  azureDisk=2.16 photonPersistentDisk=2.17 portworxVolume=2.18 scaleIO=2.19 local=2.20 storageos=2.21 csi=2.22
  accessModes=3 claimRef=4 persistentVolumeReclaimPolicy=5 storageClassName=6 mountOptions=7 volumeMode=8*
  nodeAffinity=9 volumeAttributesClassName=10*
CSIPersistentVolume
  driver=1 volumeHandle=2 readOnly=3 fsType=4 volumeAttributes=5 controllerPublishSecretRef=6 nodeStageSecretRef=7
  nodePublishSecretRef=8 controllerExpandSecretRef=9 nodeExpandSecretRef=10
SecretReference
  name=1 namespace=2
LocalVolume
  path=1 fsType=2*
VolumeNodeAffinity
  required=1
VolumeStatus
  phase=1 message=2 reason=3 lastPhaseTransitionTime=4
PersistentVolumeClaim
  spec=2 status=3
ClaimSpec
  accessModes=1 resources=2 volumeName=3 selector=4 storageClassName=5* volumeMode=6* dataSource=7 dataSourceRef=8
  volumeAttributesClassName=9*
LocalSource
  apiGroup=1* kind=2 name=3
AnySource
  apiGroup=1* kind=2 name=3 namespace=4*
VolumeResources
  limits=1 requests=2
ClaimStatus
  phase=1 accessModes=2 capacity=3 conditions=4 allocatedResources=5 allocatedResourceStatuses=7
  currentVolumeAttributesClassName=8* modifyVolumeStatus=9
ClaimCondition
  type=1 status=2 lastProbeTime=3 lastTransitionTime=4 reason=5 message=6
ModifyVolumeStatus
  targetVolumeAttributesClassName=1 status=2

StorageClass
  provisioner=2 parameters=3 reclaimPolicy=4* mountOptions=5 allowVolumeExpansion=6* volumeBindingMode=7*
  allowedTopologies=8
TopologyTerm
  matchLabelExpressions=1
TopologyRequirement
  key=1 values=2
CSINode
  spec=2
CSINodeSpec
  drivers=1
CSINodeDriver
  name=1 nodeID=2 topologyKeys=3 allocatable=4
VolumeNodeResources
  count=1*
CSIDriver
  spec=2
CSIDriverSpec
  attachRequired=1* podInfoOnMount=2* volumeLifecycleModes=3 storageCapacity=4* fsGroupPolicy=5* tokenRequests=6
  requiresRepublish=7* seLinuxMount=8* nodeAllocatableUpdatePeriodSeconds=9* serviceAccountTokenInSecrets=10*
  preventPodSchedulingIfMissing=11*
DriverToken
  audience=1 expirationSeconds=2*
CSIStorageCapacity
  nodeTopology=2 storageClassName=3 capacity=4 maximumVolumeSize=5

Service
  spec=2 status=3
ServiceSpec
  ports=1 selector=2 clusterIP=3 type=4 externalIPs=5 sessionAffinity=7 loadBalancerIP=8 loadBalancerSourceRanges=9
  externalName=10 externalTrafficPolicy=11 healthCheckNodePort=12 publishNotReadyAddresses=13 sessionAffinityConfig=14
  ipFamilyPolicy=17* clusterIPs=18 ipFamilies=19 allocateLoadBalancerNodePorts=20* loadBalancerClass=21*
  internalTrafficPolicy=22* trafficDistribution=23*
ServicePort
  name=1 protocol=2 port=3 targetPort=4 nodePort=5 appProtocol=6*
SessionAffinityConfig
  clientIP=1
ClientIPConfig
  timeoutSeconds=1*
ServiceStatus
  loadBalancer=1 conditions=2
LoadBalancerStatus
  ingress=1
LoadBalancerIngress
  ip=1 hostname=2 ipMode=3* ports=4
LoadBalancerPort
  port=1 protocol=2 error=3*

Endpoints
  subsets=2
EndpointSubset
  addresses=1 notReadyAddresses=2 ports=3
EndpointAddress
  ip=1 targetRef=2 hostname=3 nodeName=4*
SubsetPort
  name=1 port=2 protocol=3 appProtocol=4*
EndpointSlice
  endpoints=2 ports=3 addressType=4
Endpoint
  addresses=1 conditions=2 hostname=3* targetRef=4 deprecatedTopology=5 nodeName=6* zone=7* hints=8
EndpointConditions
  ready=1* serving=2* terminating=3*
EndpointHints
  forZones=1 forNodes=2
NodeHint
  name=1
ZoneHint
  name=1
SlicePort
  name=1* protocol=2* port=3* appProtocol=4*

ReplicationController
  spec=2 status=3
ReplicationControllerSpec
  replicas=1* selector=2 template=3 minReadySeconds=4
ReplicationControllerStatus
  replicas=1 fullyLabeledReplicas=2 observedGeneration=3 readyReplicas=4 availableReplicas=5 conditions=6

StatefulSet
  spec=2 status=3
StatefulSetSpec
  replicas=1* selector=2 template=3 volumeClaimTemplates=4 serviceName=5* podManagementPolicy=6 updateStrategy=7
  revisionHistoryLimit=8* minReadySeconds=9 persistentVolumeClaimRetentionPolicy=10 ordinals=11
Ordinals
  start=1
ClaimRetention
  whenDeleted=1 whenScaled=2
StatefulSetUpdate
  type=1 rollingUpdate=2
PartitionedUpdate
  partition=1* maxUnavailable=2
StatefulSetStatus
  observedGeneration=1 replicas=2 readyReplicas=3 currentReplicas=4 updatedReplicas=5 currentRevision=6
  updateRevision=7 collisionCount=9* conditions=10 availableReplicas=11
ControllerRevision
  data=2 revision=3

DaemonSet
  spec=2 status=3
DaemonSetSpec
  selector=1 template=2 updateStrategy=3 minReadySeconds=4 revisionHistoryLimit=6*
DaemonSetUpdate
  type=1 rollingUpdate=2
DaemonSetStatus
  currentNumberScheduled=1 numberMisscheduled=2 desiredNumberScheduled=3 numberReady=4 observedGeneration=5
  updatedNumberScheduled=6 numberAvailable=7 numberUnavailable=8 collisionCount=9* conditions=10

CronJob
  spec=2 status=3
CronJobSpec
  schedule=1 startingDeadlineSeconds=2* concurrencyPolicy=3 suspend=4* jobTemplate=5 successfulJobsHistoryLimit=6*
  failedJobsHistoryLimit=7* timeZone=8*
JobTemplateSpec
  metadata=1 spec=2
CronJobStatus
  active=1 lastScheduleTime=4 lastSuccessfulTime=5
"""
