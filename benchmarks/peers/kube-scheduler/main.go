// kube-scheduler's own loop on a workload, in process, without an API server: its informers list from a fake
// client, its queue takes the pods in, and the fake client passes each binding to the ledger. The default profile
// is on; of many nodes it looks at a sample, as is its default. It has no queues, so pods are served in the order
// of their creation. Gangs are PodGroups, behind feature gates that are off by default.
package main

import (
	"context"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	client "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"

	"pumice/benchmarks/peers/kubeobjects"
	"pumice/benchmarks/peers/trial"
)

func main() {
	t := trial.Start("kube-scheduler", "k8s.io/kubernetes")
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if t.MinMember > 1 {
		require(feature.DefaultMutableFeatureGate.Set("GenericWorkload=true,GangScheduling=true"))
	}
	ctx := context.Background()
	api := fake.NewSimpleClientset(objects(&t.Workload)...)
	api.PrependReactor("create", "pods", func(action client.Action) (bool, runtime.Object, error) {
		binding := action.(client.CreateAction).GetObject().(*v1.Binding) // the scheduler creates nothing else of pods
		t.Place(binding.Name, binding.Target.Name)
		return true, binding, nil
	})
	informers := scheduler.NewInformerFactory(api, 0)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	core, err := scheduler.New(ctx, api, informers, nil, recorder)
	require(err)
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	require(core.WaitForHandlersSync(ctx))

	total := t.Jobs * t.TasksPerJob
	t.Measure(func() {
		go core.Run(ctx)
		for t.Placed() < total {
			time.Sleep(time.Millisecond)
		}
	})
}

// objects are the nodes and pods of a workload, and the PodGroups of gangs.
func objects(w *trial.Workload) (all []runtime.Object) {
	for _, name := range w.NodeNames() {
		all = append(all, kubeobjects.Node(name, w.Nodes.Resources))
	}
	start := time.Now()
	for j, job := range w.AllJobs() {
		created := kubeobjects.Created(start, j)
		var group *v1.PodSchedulingGroup
		if w.MinMember > 1 {
			group = &v1.PodSchedulingGroup{PodGroupName: &job.Name}
			all = append(all, &schedulingv1alpha2.PodGroup{
				ObjectMeta: metav1.ObjectMeta{
					Name: job.Name, Namespace: job.Namespace, UID: types.UID(job.Name), CreationTimestamp: created,
				},
				Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
					Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(w.MinMember)},
				}},
			})
		}
		for _, task := range job.Tasks {
			pod := kubeobjects.Pod(task, job, created, v1.DefaultSchedulerName)
			pod.Spec.SchedulingGroup = group
			all = append(all, pod)
		}
	}
	return all
}

func require(err error) {
	if err != nil {
		trial.Fail("kube-scheduler: %v", err)
	}
}
