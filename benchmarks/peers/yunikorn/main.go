// YuniKorn-core's scheduling loop on a workload, in process: a resource manager of ours registers with it,
// adds nodes, applications and asks, and receives the allocations. Nothing is scheduled before every ask
// has arrived. Two things favour YuniKorn: the predicates are the resource manager's business and here
// answer yes at once, and pods per node are not a resource to it.
package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"go.yaml.in/yaml/v3"

	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-core/pkg/mock"
	"github.com/apache/yunikorn-core/pkg/scheduler"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"pumice/benchmarks/peers/trial"
)

const (
	rmID      = "benchmark"
	partition = "default"
	quiet     = "WARN"
)

// schedule is one turn of the production loop: at most one allocation. The core offers no way to call it
// from outside but one that sleeps after each turn.
//
//go:linkname schedule github.com/apache/yunikorn-core/pkg/scheduler.(*ClusterContext).schedule
func schedule(*scheduler.ClusterContext) bool

func main() {
	t := trial.Start("YuniKorn", "github.com/apache/yunikorn-core")
	if t.MinMember > 1 {
		trial.Fail("minMember must be 1: the core places asks one by one; its gangs are placeholder pods of the shim")
	}
	log.UpdateLoggingConfig(map[string]string{"log.level": quiet})
	services := entrypoint.StartAllServicesWithManualScheduler()
	rm := &resourceManager{ledger: t.Ledger}
	_, err := services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: rmID, PolicyGroup: "queues", Version: "1", Config: configuration(&t.Workload),
		ExtraConfig: map[string]string{"log.level": quiet},
	}, rm)
	require(err)
	core := services.Scheduler.GetClusterContext()
	fill(services.RMProxy, core, rm, &t.Workload)

	total := t.Jobs * t.TasksPerJob
	t.Measure(func() {
		for t.Placed() < total && schedule(core) {
		}
	})
}

// resourceManager is the other side of the core: it hears what was accepted and what was allocated.
type resourceManager struct {
	mock.ResourceManagerCallback // answers the calls that do not matter here, and yes to predicates

	ledger                       *trial.Ledger
	nodes, applications, refused atomic.Int64
}

// UpdateNode counts nodes.
func (rm *resourceManager) UpdateNode(response *si.NodeResponse) error {
	rm.nodes.Add(int64(len(response.Accepted)))
	rm.refused.Add(int64(len(response.Rejected)))
	return nil
}

// UpdateApplication counts applications.
func (rm *resourceManager) UpdateApplication(response *si.ApplicationResponse) error {
	rm.applications.Add(int64(len(response.Accepted)))
	rm.refused.Add(int64(len(response.Rejected)))
	return nil
}

// UpdateAllocation records the placements. The core waits for it to return.
func (rm *resourceManager) UpdateAllocation(response *si.AllocationResponse) error {
	for _, allocation := range response.New {
		rm.ledger.Place(allocation.AllocationKey, allocation.NodeID)
	}
	rm.refused.Add(int64(len(response.RejectedAllocations)))
	return nil
}

// fill adds nodes, applications and asks, and waits until the core has them all.
func fill(core api.SchedulerAPI, state *scheduler.ClusterContext, rm *resourceManager, w *trial.Workload) {
	var nodes []*si.NodeInfo
	for _, name := range w.NodeNames() {
		nodes = append(nodes, &si.NodeInfo{
			NodeID: name, Action: si.NodeInfo_CREATE, SchedulableResource: amounts(w.Nodes.Resources),
		})
	}
	require(core.UpdateNode(&si.NodeRequest{RmID: rmID, Nodes: nodes}))
	rm.await("nodes", func() bool { return rm.nodes.Load() == int64(len(nodes)) })

	jobs, leaves := w.AllJobs(), w.Leaves()
	var applications []*si.AddApplicationRequest
	added := map[string]bool{}
	for _, job := range jobs {
		if added[application(job)] {
			continue
		}
		added[application(job)] = true
		applications = append(applications, &si.AddApplicationRequest{
			ApplicationID: application(job), QueueName: queueName(leaves[job.Leaf]), PartitionName: partition,
			Ugi: &si.UserGroupInformation{User: job.Namespace, Groups: []string{job.Namespace}},
		})
	}
	require(core.UpdateApplication(&si.ApplicationRequest{RmID: rmID, New: applications}))
	rm.await("applications", func() bool { return rm.applications.Load() == int64(len(applications)) })

	pending := map[string]int64{}
	for _, job := range jobs {
		var asks []*si.Allocation
		for _, task := range job.Tasks {
			ask := amounts(job.Shape)
			for name, amount := range ask.Resources {
				pending[name] += amount.Value
			}
			asks = append(asks, &si.Allocation{
				AllocationKey: task, ApplicationID: application(job), PartitionName: partition, ResourcePerAlloc: ask,
			})
		}
		require(core.UpdateAllocation(&si.AllocationRequest{RmID: rmID, Allocations: asks}))
	}
	root := state.GetQueue("root", fmt.Sprintf("[%s]%s", rmID, partition))
	rm.await("asks", func() bool {
		known := root.GetPendingResource().Resources
		for name, amount := range pending {
			if int64(known[name]) != amount {
				return false
			}
		}
		return true
	})
}

// application is the job. Single pods share one in their namespace and queue, as YuniKorn's shim has it.
func application(job trial.Job) string {
	if len(job.Tasks) > 1 {
		return job.Name
	}
	return fmt.Sprintf("yunikorn-%s-%d-autogen", job.Namespace, job.Leaf)
}

// await polls until the core has taken in what it was sent.
func (rm *resourceManager) await(what string, arrived func() bool) {
	deadline := time.Now().Add(time.Minute)
	for !arrived() {
		if rm.refused.Load() > 0 || time.Now().After(deadline) {
			trial.Fail("YuniKorn did not take all %s: %d refused", what, rm.refused.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// configuration is the queue tree, fair at every level, with nodes sorted fair. YuniKorn has no weights:
// its fairness is relative to guarantees, so each queue is guaranteed its weighted part of its parent's.
func configuration(w *trial.Workload) string {
	root := queue(w.Root(), trial.Resources{
		CPU:    w.Nodes.CPU * trial.Amount(w.Nodes.Count),
		Memory: w.Nodes.Memory * trial.Amount(w.Nodes.Count),
		GPU:    w.Nodes.GPU * trial.Amount(w.Nodes.Count),
	})
	root.Resources = configs.Resources{} // the root has the nodes, no guarantee
	root.SubmitACL = "*"
	text, err := yaml.Marshal(configs.SchedulerConfig{Partitions: []configs.PartitionConfig{{
		Name:           partition,
		NodeSortPolicy: configs.NodeSortingPolicy{Type: "fair"},
		Queues:         []configs.QueueConfig{root},
	}}})
	require(err)
	return string(text)
}

func queue(q trial.Queue, guaranteed trial.Resources) configs.QueueConfig {
	config := configs.QueueConfig{
		Name:   q.Name,
		Parent: len(q.Children) > 0,
		Resources: configs.Resources{Guaranteed: map[string]string{
			"vcore":          fmt.Sprint(guaranteed.CPU),
			"memory":         fmt.Sprint(guaranteed.Memory),
			"nvidia.com/gpu": fmt.Sprint(guaranteed.GPU),
		}},
	}
	if !config.Parent {
		config.Properties = map[string]string{"application.sort.policy": "fair"}
	}
	weights := 0
	for _, child := range q.Children {
		weights += child.Weight
	}
	for _, child := range q.Children {
		part := func(amount trial.Amount) trial.Amount {
			return amount * trial.Amount(child.Weight) / trial.Amount(weights)
		}
		config.Queues = append(config.Queues, queue(child, trial.Resources{
			CPU: part(guaranteed.CPU), Memory: part(guaranteed.Memory), GPU: part(guaranteed.GPU),
		}))
	}
	return config
}

func queueName(path []trial.Queue) string {
	var names []string
	for _, level := range path {
		names = append(names, level.Name)
	}
	return strings.Join(names, ".")
}

// amounts has the resources that are not zero; cores become thousandths.
func amounts(r trial.Resources) *si.Resource {
	quantities := map[string]*si.Quantity{}
	for name, value := range map[string]trial.Amount{
		"vcore": 1000 * r.CPU, "memory": r.Memory, "nvidia.com/gpu": r.GPU,
	} {
		if value > 0 {
			quantities[name] = &si.Quantity{Value: int64(value)}
		}
	}
	return &si.Resource{Resources: quantities}
}

func require(err error) {
	if err != nil {
		trial.Fail("YuniKorn: %v", err)
	}
}
