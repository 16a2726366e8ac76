// Package kubeobjects makes the nodes and pods of a workload for those peers that read Kubernetes objects.
package kubeobjects

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pumice/benchmarks/peers/trial"
)

// Node is ready and empty.
func Node(name string, capacity trial.Resources) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity: List(capacity), Allocatable: List(capacity),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// Pod is a pending pod of a job, for the scheduler of the name.
func Pod(task string, job trial.Job, created metav1.Time, scheduler string) *v1.Pod {
	requests := List(job.Shape)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: task, Namespace: job.Namespace, UID: types.UID(task), CreationTimestamp: created,
			Labels: map[string]string{"app": job.Name}, Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{
			SchedulerName: scheduler,
			Containers: []v1.Container{{
				Name: "main", Image: "main", Resources: v1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// Created is the time at which a job came: an hour ago, jobs one millisecond apart, so that their order is total.
func Created(start time.Time, job int) metav1.Time {
	return metav1.NewTime(start.Add(-time.Hour + time.Duration(job)*time.Millisecond))
}

// List has the resources that are not zero.
func List(r trial.Resources) v1.ResourceList {
	amounts := v1.ResourceList{}
	for name, amount := range map[v1.ResourceName]trial.Amount{
		v1.ResourceCPU: r.CPU, v1.ResourceMemory: r.Memory, "nvidia.com/gpu": r.GPU, v1.ResourcePods: r.Pods,
	} {
		if amount > 0 {
			amounts[name] = *resource.NewQuantity(int64(amount), resource.BinarySI)
		}
	}
	return amounts
}
