package trial

import "sync"

// Ledger records where tasks were placed, as the peer's binder reports it, and judges the outcome.
type Ledger struct {
	mu       sync.Mutex
	asks     map[string]Resources // by task
	capacity map[string]Resources // by node
	nodeOf   map[string]string
	repeated int
}

// Check counts what must not happen. Missing tasks are no fault of a run that a limit stopped.
type Check struct {
	OK           bool `json:"ok"`
	Missing      int  `json:"missing"`       // tasks without a node
	Repeated     int  `json:"repeated"`      // placements of a task that had a node already
	Unknown      int  `json:"unknown"`       // placements of a task or on a node that does not exist
	OverCapacity int  `json:"over_capacity"` // nodes holding more than they have
}

func newLedger(w *Workload) *Ledger {
	l := &Ledger{asks: map[string]Resources{}, capacity: map[string]Resources{}, nodeOf: map[string]string{}}
	for _, job := range w.AllJobs() {
		for _, task := range job.Tasks {
			l.asks[task] = job.Shape
		}
	}
	for _, node := range w.NodeNames() {
		l.capacity[node] = w.Nodes.Resources
	}
	return l
}

// WholeCluster is the only node after OneNode.
const WholeCluster = "cluster"

// OneNode makes all nodes one, for peers that hold jobs to what the cluster has and pick no nodes.
func (l *Ledger) OneNode() {
	var all Resources
	for _, c := range l.capacity {
		all = Resources{CPU: all.CPU + c.CPU, Memory: all.Memory + c.Memory, GPU: all.GPU + c.GPU, Pods: all.Pods + c.Pods}
	}
	l.capacity = map[string]Resources{WholeCluster: all}
}

// Place records one placement.
func (l *Ledger) Place(task, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, placed := l.nodeOf[task]; placed {
		l.repeated++
	}
	l.nodeOf[task] = node
}

// Placed is the number of tasks that have a node.
func (l *Ledger) Placed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.nodeOf)
}

// Check adds up what every node holds.
func (l *Ledger) Check(partial bool) Check {
	l.mu.Lock()
	defer l.mu.Unlock()
	check := Check{Missing: len(l.asks), Repeated: l.repeated}
	used := map[string]Resources{}
	for task, node := range l.nodeOf {
		ask, asked := l.asks[task]
		if _, exists := l.capacity[node]; !asked || !exists {
			check.Unknown++
			continue
		}
		check.Missing--
		u := used[node]
		used[node] = Resources{CPU: u.CPU + ask.CPU, Memory: u.Memory + ask.Memory, GPU: u.GPU + ask.GPU, Pods: u.Pods + 1}
	}
	for node, u := range used {
		c := l.capacity[node]
		if u.CPU > c.CPU || u.Memory > c.Memory || u.GPU > c.GPU || u.Pods > c.Pods {
			check.OverCapacity++
		}
	}
	check.OK = check.Repeated+check.Unknown+check.OverCapacity == 0 && (partial || check.Missing == 0)
	return check
}
