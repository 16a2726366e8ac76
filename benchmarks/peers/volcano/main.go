// Volcano's scheduling cycle (open session, allocate, close session) on a workload, in process, without an
// API server: objects go straight into its scheduler cache, and its binder writes to the ledger. The
// configuration is hierarchical DRF. By its own default Volcano looks at a sample of the nodes for a task.
package main

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"pumice/benchmarks/peers/kubeobjects"
	"pumice/benchmarks/peers/trial"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/metrics"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
	"volcano.sh/volcano/pkg/scheduler/util"
)

const schedulerName = "volcano"

const configuration = `
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
    enableHierarchy: true
  - name: predicates
  - name: nodeorder
`

func main() {
	t := trial.Start("Volcano", "volcano.sh/volcano")
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	metrics.InitKubeSchedulerRelatedMetrics()
	options.Default()

	actions, tiers, arguments, _, err := scheduler.UnmarshalSchedulerConf(configuration)
	if err != nil {
		trial.Fail("Volcano refuses its configuration: %v", err)
	}
	conf.EnabledActionMap = map[string]bool{}
	for _, action := range actions {
		conf.EnabledActionMap[action.Name()] = true
	}

	cluster := newCache(t.Ledger)
	fill(cluster, &t.Workload)
	t.Measure(func() {
		session := framework.OpenSession(cluster, tiers, arguments)
		t.Opened()
		for _, action := range actions {
			action.Initialize()
			action.Execute(session)
			action.UnInitialize()
		}
		framework.CloseSession(session)
	})
}

// binder is where Volcano's decisions arrive.
type binder struct{ ledger *trial.Ledger }

// Bind records the tasks as placed; none fails.
func (b binder) Bind(_ kubernetes.Interface, tasks []*api.TaskInfo) map[api.TaskID]string {
	for _, task := range tasks {
		b.ledger.Place(task.Name, task.NodeName)
	}
	return nil
}

// newCache is a scheduler cache without an API server behind it, made as Volcano's own tests make it.
func newCache(ledger *trial.Ledger) *cache.SchedulerCache {
	cluster := cache.NewCustomMockSchedulerCache(
		schedulerName, binder{ledger}, util.NewFakeEvictor(0), &util.FakeStatusUpdater{}, nil, &record.FakeRecorder{})
	forever := make(chan struct{})
	cluster.Run(forever)
	cluster.WaitForCacheSync(forever)
	ready := new(atomic.Bool)
	ready.Store(true)
	cluster.HyperNodesInfo = api.NewHyperNodesInfoWithCache(nil, nil, nil, ready)
	return cluster
}

// fill adds nodes, queues, and jobs that are admitted and wait for their first placement.
func fill(cluster *cache.SchedulerCache, w *trial.Workload) {
	for _, name := range w.NodeNames() {
		cluster.AddOrUpdateNode(kubeobjects.Node(name, w.Nodes.Resources))
	}
	leaves := w.Leaves()
	for _, path := range leaves {
		cluster.AddQueueV1beta1(queue(path))
	}
	start := time.Now()
	for j, job := range w.AllJobs() {
		path := leaves[job.Leaf]
		created := kubeobjects.Created(start, j)
		cluster.AddPodGroupV1beta1(&v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{
				Name: job.Name, Namespace: job.Namespace, UID: types.UID(job.Name), CreationTimestamp: created,
			},
			Spec:   v1beta1.PodGroupSpec{Queue: path[len(path)-1].Name, MinMember: int32(w.MinMember)},
			Status: v1beta1.PodGroupStatus{Phase: v1beta1.PodGroupInqueue},
		})
		for _, task := range job.Tasks {
			pod := kubeobjects.Pod(task, job, created, schedulerName)
			pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = job.Name
			cluster.AddPod(pod)
		}
	}
}

// queue states its place in the tree the way hierarchical DRF reads it: root/org0/team0/q0, 1/1/1/1.
func queue(path []trial.Queue) *v1beta1.Queue {
	var names, weights []string
	for _, level := range path {
		names = append(names, level.Name)
		weights = append(weights, fmt.Sprint(level.Weight))
	}
	return &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: names[len(names)-1], Annotations: map[string]string{
			v1beta1.KubeHierarchyAnnotationKey:       strings.Join(names, "/"),
			v1beta1.KubeHierarchyWeightAnnotationKey: strings.Join(weights, "/"),
		}},
		Spec:   v1beta1.QueueSpec{Weight: 1},
		Status: v1beta1.QueueStatus{State: v1beta1.QueueStateOpen},
	}
}
