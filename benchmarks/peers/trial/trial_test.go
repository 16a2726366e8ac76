package trial

import (
	"encoding/json"
	"testing"
)

// One node of 4 cores, two jobs of two tasks with 1 and 2 cores: 2·1 + 2·2 = 6 cores, so one node holds
// all but one of the larger tasks.
const small = `{
	"name": "small", "nodes": {"count": 2, "cpu": 4, "memory": "8Gi", "pods": 3},
	"shapes": [{"cpu": 1, "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}],
	"jobs": 2, "tasksPerJob": 2, "minMember": 1, "tree": {"orgs": 1, "teams": 1, "queues": 1}, "namespaces": 1
}`

func ledger(t *testing.T, tasksAndNodes ...string) *Ledger {
	var w Workload
	if err := json.Unmarshal([]byte(small), &w); err != nil {
		t.Fatal(err)
	}
	if w.Nodes.Memory != 8<<30 {
		t.Fatalf("8Gi was read as %d", w.Nodes.Memory)
	}
	l := newLedger(&w)
	for i := 0; i < len(tasksAndNodes); i += 2 {
		l.Place(tasksAndNodes[i], tasksAndNodes[i+1])
	}
	return l
}

func TestCheck(t *testing.T) {
	const a0, a1, b0, b1 = "job-00000-0", "job-00000-1", "job-00001-0", "job-00001-1"
	const m, n = "node-00000", "node-00001"
	for name, c := range map[string]struct {
		ledger  *Ledger
		partial bool
		want    Check
	}{
		"all placed":       {ledger(t, a0, m, a1, m, b0, m, b1, n), false, Check{OK: true}},
		"one missing":      {ledger(t, a0, m, a1, m, b0, m), false, Check{Missing: 1}},
		"stopped":          {ledger(t, a0, m, a1, m, b0, m), true, Check{OK: true, Missing: 1}},
		"placed twice":     {ledger(t, a0, m, a1, m, b0, m, b1, n, a0, n), false, Check{Repeated: 1}},
		"no such node":     {ledger(t, a0, "other", a1, m, b0, m, b1, n), false, Check{Unknown: 1, Missing: 1}},
		"cores: 6 of 4":    {ledger(t, a0, m, a1, m, b0, m, b1, m), false, Check{OverCapacity: 1}},
		"stopped and over": {ledger(t, b0, m, b1, m, a0, m), true, Check{Missing: 1, OverCapacity: 1}},
	} {
		if got := c.ledger.Check(c.partial); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The same cluster as one node has 8 cores, which hold all 6, and 6 pods.
func TestCheckOfClusterAsOneNode(t *testing.T) {
	const a0, a1, b0, b1 = "job-00000-0", "job-00000-1", "job-00001-0", "job-00001-1"
	for name, c := range map[string]struct {
		lost int // pods of the cluster
		node string
		want Check
	}{
		"all placed":      {0, WholeCluster, Check{OK: true}},
		"pods: 4 of 3":    {3, WholeCluster, Check{OverCapacity: 1}},
		"on a single one": {0, "node-00000", Check{Missing: 4, Unknown: 4}},
	} {
		l := ledger(t)
		l.OneNode()
		room := l.capacity[WholeCluster]
		room.Pods -= Amount(c.lost)
		l.capacity[WholeCluster] = room
		for _, task := range []string{a0, a1, b0, b1} {
			l.Place(task, c.node)
		}
		if got := l.Check(false); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
