// kube-scheduler's own loop (ScheduleOne) on a workload, in process, without an API server: nodes go straight into
// its cache and pods into its queue, as its event handlers put them there, and a bind plugin writes to the ledger.
// The profile is the default one, with all its plugins. It has no queues and no fairness, and by its own default it
// looks at a sample of the nodes for a pod.
package main

import (
	"context"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"

	"pumice/benchmarks/peers/kubeobjects"
	"pumice/benchmarks/peers/trial"
)

const ledgerBinder = "LedgerBinder"

func main() {
	t := trial.Start("kube-scheduler", "k8s.io/kubernetes")
	if t.MinMember > 1 {
		trial.Fail("minMember must be 1: by default kube-scheduler places pods one by one")
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx := context.Background()

	sched := newScheduler(ctx, t.Ledger)
	logger := klog.FromContext(ctx)
	for _, name := range t.NodeNames() {
		sched.Cache.AddNode(logger, kubeobjects.Node(name, t.Nodes.Resources))
	}
	start := time.Now()
	for j, job := range t.AllJobs() {
		created := kubeobjects.Created(start, j)
		for _, task := range job.Tasks {
			sched.SchedulingQueue.Add(ctx, kubeobjects.Pod(task, job, created, v1.DefaultSchedulerName))
		}
	}
	total := t.Jobs * t.TasksPerJob
	t.Measure(func() {
		for range total {
			sched.ScheduleOne(ctx)
		}
	})
}

// binder is where decisions arrive.
type binder struct{ ledger *trial.Ledger }

// Name is the plugin's.
func (binder) Name() string { return ledgerBinder }

// Bind records the pod as placed.
func (b binder) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	b.ledger.Place(pod.Name, node)
	return nil
}

// newScheduler has the default profile, but binds to the ledger. Its informers see an empty cluster.
func newScheduler(ctx context.Context, ledger *trial.Ledger) *scheduler.Scheduler {
	plugins := defaults.ExpandedPluginsV1.DeepCopy()
	plugins.Bind = schedulerapi.PluginSet{Enabled: []schedulerapi.Plugin{{Name: ledgerBinder}}}
	profile := schedulerapi.KubeSchedulerProfile{
		SchedulerName: v1.DefaultSchedulerName, Plugins: plugins, PluginConfig: defaults.PluginConfigsV1,
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profile),
		scheduler.WithFrameworkOutOfTreeRegistry(map[string]func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error){
			ledgerBinder: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return binder{ledger}, nil },
		}),
	)
	if err != nil {
		trial.Fail("kube-scheduler: %v", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return sched
}
