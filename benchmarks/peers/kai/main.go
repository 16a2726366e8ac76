// KAI's scheduling cycle on a workload (open session, allocate, close session), in process, without an API server:
// its informers list from fake clients, and its client passes each BindRequest to the ledger. The plugins are those
// of its default configuration. It shares by weight on two levels, departments and their queues, so here the teams
// of all organisations are departments. It knows gangs: a PodGroup with minMember.
package main

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	client "k8s.io/client-go/testing"

	"pumice/benchmarks/peers/kubeobjects"
	"pumice/benchmarks/peers/trial"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v1alpha2"
	queuev2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	"github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
)

const unlimited = -1

func main() {
	t := trial.Start("KAI", "github.com/NVIDIA/KAI-scheduler")
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()
	configuration, err := conf_util.GetDefaultSchedulerConf()
	require(err)
	configuration.Actions = "allocate" // the others find nothing to do: everything fits
	chosen, err := conf_util.GetActionsFromConfig(configuration)
	require(err)
	parameters := conf.SchedulerParams{ // the defaults of its command line
		SchedulerName: constants.DefaultSchedulerName, PartitionParams: &conf.SchedulingNodePoolParams{},
		UseSchedulingSignatures: true, FullHierarchyFairness: true, AllowConsolidatingReclaim: true,
		NumOfStatusRecordingWorkers: 5,
	}
	cluster := newCache(t, parameters)
	pages := http.NewServeMux() // of its plugins, never served
	t.Measure(func() {
		session, err := framework.OpenSession(cluster, configuration, &parameters, "benchmark", pages)
		require(err)
		t.Opened()
		for _, action := range chosen {
			action.Execute(session)
		}
		framework.CloseSession(session)
	})
}

// newCache is KAI's cache on fake clients that hold the workload. What it writes arrives in the ledger or nowhere.
func newCache(t *trial.Trial, parameters conf.SchedulerParams) cache.Cache {
	plain, own := objects(&t.Workload)
	api, kaiAPI := fake.NewSimpleClientset(plain...), kaifake.NewSimpleClientset(own...)
	ignore := func(client.Action) (bool, runtime.Object, error) { return true, nil, nil }
	api.PrependReactor("create", "events", func(action client.Action) (bool, runtime.Object, error) {
		return true, action.(client.CreateAction).GetObject(), nil
	})
	api.PrependReactor("patch", "*", ignore)
	kaiAPI.PrependReactor("patch", "*", ignore)
	kaiAPI.PrependReactor("create", "bindrequests", func(action client.Action) (bool, runtime.Object, error) {
		request := action.(client.CreateAction).GetObject().(*v1alpha2.BindRequest)
		t.Place(request.Spec.PodName, request.Spec.SelectedNode)
		return true, request, nil
	})
	cluster := cache.New(&cache.SchedulerCacheParams{
		SchedulerName: parameters.SchedulerName, NodePoolParams: parameters.PartitionParams,
		KubeClient: api, KAISchedulerClient: kaiAPI, DiscoveryClient: api.Discovery(),
		FullHierarchyFairness:       parameters.FullHierarchyFairness,
		NumOfStatusRecordingWorkers: parameters.NumOfStatusRecordingWorkers,
	})
	forever := context.Background().Done()
	cluster.Run(forever)
	cluster.WaitForCacheSync(forever)
	return cluster
}

// objects are the nodes and pods of a workload, and KAI's own objects: queues and PodGroups.
func objects(w *trial.Workload) (plain, own []runtime.Object) {
	for _, name := range w.NodeNames() {
		plain = append(plain, kubeobjects.Node(name, w.Nodes.Resources))
	}
	leaves := w.Leaves()
	departments := map[string]bool{}
	for _, path := range leaves {
		org, team, leaf := path[1], path[2], path[3]
		department := org.Name + "-" + team.Name
		if !departments[department] {
			departments[department] = true
			own = append(own, queue(department, "", org.Weight*team.Weight))
		}
		own = append(own, queue(leaf.Name, department, leaf.Weight))
	}
	start := time.Now()
	for j, job := range w.AllJobs() {
		created := kubeobjects.Created(start, j)
		path := leaves[job.Leaf]
		own = append(own, &v2alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{
				Name: job.Name, Namespace: job.Namespace, UID: types.UID(job.Name), CreationTimestamp: created,
			},
			Spec: v2alpha2.PodGroupSpec{Queue: path[len(path)-1].Name, MinMember: int32(w.MinMember)},
		})
		for _, task := range job.Tasks {
			pod := kubeobjects.Pod(task, job, created, constants.DefaultSchedulerName)
			pod.Annotations[constants.PodGroupAnnotationForPod] = job.Name
			plain = append(plain, pod)
		}
	}
	return plain, own
}

// queue has no quota of its own, so that the weights alone decide.
func queue(name, parent string, weight int) *queuev2.Queue {
	share := queuev2.QueueResource{Quota: 0, Limit: unlimited, OverQuotaWeight: float64(weight)}
	return &queuev2.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: queuev2.QueueSpec{
			ParentQueue: parent, Resources: &queuev2.QueueResources{GPU: share, CPU: share, Memory: share},
		},
	}
}

func require(err error) {
	if err != nil {
		trial.Fail("KAI: %v", err)
	}
}
