// A day with client-go: argument 1 is the name of the job to make; see ../../test_clients.py.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	corev1 "k8s.io/api/core/v1"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func phase(job *unstructured.Unstructured) string {
	found, _, _ := unstructured.NestedString(job.Object, "status", "state", "phase")
	return found
}

func main() {
	ctx, name := context.Background(), os.Args[1]
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	clients, err := dynamic.NewForConfig(config)
	check(err)
	core, err := kubernetes.NewForConfig(config)
	check(err)
	jobs := clients.Resource(schema.GroupVersionResource{
		Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs",
	}).Namespace("default")

	job := &unstructured.Unstructured{}
	check(json.NewDecoder(os.Stdin).Decode(&job.Object))
	made, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	check(err)
	all, err := jobs.List(ctx, metav1.ListOptions{})
	check(err)
	listed := []string{}
	for _, found := range all.Items {
		listed = append(listed, found.GetName())
	}
	watcher, err := jobs.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
	check(err)
	phases := []string{}
	for event := range watcher.ResultChan() {
		found, ok := event.Object.(*unstructured.Unstructured)
		if !ok || found.GetName() != name {
			continue
		}
		phases = append(phases, phase(found))
		if phase(found) == "Completed" {
			watcher.Stop()
			break
		}
	}
	change := []byte(`{"metadata": {"labels": {"patched": "yes"}}}`)
	patched, err := jobs.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{})
	check(err)
	text, err := core.CoreV1().Pods("default").GetLogs(name+"-main-0", &corev1.PodLogOptions{}).DoRaw(ctx)
	check(err)
	check(jobs.Delete(ctx, name, metav1.DeleteOptions{}))
	left, err := jobs.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"listed": listed,
		"phases": phases,
		"labels": patched.GetLabels(),
		"log":    string(text),
		"left":   len(left.Items),
	}))
}
