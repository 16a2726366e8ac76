// Kueue's scheduling cycle on a workload, in process, without an API server: cohorts, queues and workloads go
// straight into its queue manager and its cache, and its client passes each admission to the ledger. Fair sharing
// is on, with organisations and teams as cohorts. The root cohort has the whole cluster as its quota and everybody
// borrows by weight, which is what hierarchical fair sharing means elsewhere. Kueue decides about whole jobs and
// picks no nodes, so the ledger sees the cluster as one node, and all tasks of a job at once.
package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"pumice/benchmarks/peers/kubeobjects"
	"pumice/benchmarks/peers/trial"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	cache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/util/expectations"
)

const flavor = "default"

func main() {
	t := trial.Start("Kueue", "sigs.k8s.io/kueue")
	ctrl.SetLogger(logr.Discard())
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	t.OneNode()
	api := newClient(t)
	preemptions := expectations.NewStore("preemptions")
	state := cache.New(api, cache.WithFairSharing(true))
	waiting := queues.NewManagerForUnitTests(api, state, queues.WithPreemptionExpectations(preemptions))
	core := scheduler.New(waiting, state, api, &events.FakeRecorder{},
		scheduler.WithFairSharing(&config.FairSharing{}), scheduler.WithPreemptionExpectations(preemptions))
	fill(ctx, state, waiting, &t.Workload)

	total := t.Jobs * t.TasksPerJob
	t.Measure(func() {
		require(core.Start(ctx))
		for t.Placed() < total {
			time.Sleep(time.Millisecond)
		}
	})
}

// apiClient is where Kueue's decisions arrive. Namespaces exist and have no limits.
type apiClient struct {
	client.Client // nil: what is not overridden is not called

	trial *trial.Trial
	tasks map[string][]string // by job
}

func newClient(t *trial.Trial) *apiClient {
	api := &apiClient{trial: t, tasks: map[string][]string{}}
	for _, job := range t.AllJobs() {
		api.tasks[job.Name] = job.Tasks
	}
	return api
}

// Get finds every object that is asked for.
func (*apiClient) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List finds nothing.
func (*apiClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// Status is how an admission is written.
func (api *apiClient) Status() client.SubResourceWriter { return statusWriter{api: api} }

type statusWriter struct {
	client.SubResourceWriter // nil

	api *apiClient
}

// Patch records the tasks of a job as placed once the job has a quota.
func (s statusWriter) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	if workload := o.(*kueue.Workload); workload.Status.Admission != nil {
		for _, task := range s.api.tasks[workload.Name] {
			s.api.trial.Place(task, trial.WholeCluster)
		}
	}
	return nil
}

// fill adds the cohorts, a ClusterQueue for every leaf with a LocalQueue in every namespace, and the jobs.
func fill(ctx context.Context, state *cache.Cache, waiting *queues.Manager, w *trial.Workload) {
	log := logr.Discard()
	state.AddOrUpdateResourceFlavor(log, &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: flavor}})
	addCohorts(ctx, state, waiting, w, w.Root(), "")
	leaves := w.Leaves()
	namespaces := map[[2]string]bool{}
	for j, job := range w.AllJobs() {
		path := leaves[job.Leaf]
		queue := path[len(path)-1].Name
		if !namespaces[[2]string{job.Namespace, queue}] {
			namespaces[[2]string{job.Namespace, queue}] = true
			local := &kueue.LocalQueue{
				ObjectMeta: metav1.ObjectMeta{Name: queue, Namespace: job.Namespace},
				Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue)},
			}
			require(state.AddLocalQueue(local))
			require(waiting.AddLocalQueue(ctx, local))
		}
		created := kubeobjects.Created(time.Now(), j)
		pod := kubeobjects.Pod(job.Name, job, created, "")
		require(waiting.AddOrUpdateWorkload(log, &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Name: job.Name, Namespace: job.Namespace, UID: types.UID(job.Name), CreationTimestamp: created,
			},
			Spec: kueue.WorkloadSpec{
				QueueName: kueue.LocalQueueName(queue),
				PodSets: []kueue.PodSet{{
					Name: kueue.DefaultPodSetName, Count: int32(len(job.Tasks)),
					Template: v1.PodTemplateSpec{Spec: pod.Spec},
				}},
			},
		}))
	}
}

// addCohorts adds a queue and everything below it: ClusterQueues for leaves, cohorts above them.
func addCohorts(ctx context.Context, state *cache.Cache, waiting *queues.Manager, w *trial.Workload, q trial.Queue, above string) {
	sharing := &kueue.FairSharing{Weight: resource.NewQuantity(int64(q.Weight), resource.DecimalSI)}
	if len(q.Children) == 0 {
		leaf := &kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: q.Name},
			Spec: kueue.ClusterQueueSpec{
				CohortName: kueue.CohortReference(above), NamespaceSelector: &metav1.LabelSelector{},
				QueueingStrategy: kueue.BestEffortFIFO, ResourceGroups: quota(w, 0), FairSharing: sharing,
			},
		}
		require(state.AddClusterQueue(ctx, leaf))
		require(waiting.AddClusterQueue(ctx, leaf))
		return
	}
	name := q.Name
	if above != "" {
		name = above + "." + q.Name // teams of all organisations have the same names
	}
	cohort := &kueue.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       kueue.CohortSpec{ParentName: kueue.CohortReference(above), FairSharing: sharing},
	}
	if above == "" {
		cohort.Spec.ResourceGroups = quota(w, w.Nodes.Count)
	}
	require(state.AddOrUpdateCohort(cohort))
	waiting.AddOrUpdateCohort(ctx, cohort)
	for _, child := range q.Children {
		addCohorts(ctx, state, waiting, w, child, name)
	}
}

// quota is what so many nodes have.
func quota(w *trial.Workload, nodes int) []kueue.ResourceGroup {
	group := kueue.ResourceGroup{Flavors: []kueue.FlavorQuotas{{Name: flavor}}}
	each := kubeobjects.List(w.Nodes.Resources)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "nvidia.com/gpu", v1.ResourcePods} {
		amount := each[name]
		group.CoveredResources = append(group.CoveredResources, name)
		group.Flavors[0].Resources = append(group.Flavors[0].Resources, kueue.ResourceQuota{
			Name: name, NominalQuota: *resource.NewQuantity(amount.Value()*int64(nodes), resource.BinarySI),
		})
	}
	return []kueue.ResourceGroup{group}
}

func require(err error) {
	if err != nil {
		trial.Fail("Kueue: %v", err)
	}
}
