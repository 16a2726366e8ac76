// Package trial is what the peers have in common: the workload they are measured on, the ledger that
// checks their placements, and the clock and limits of a run.
//
// A peer's program reads a workload (a file of benchmarks/workloads, as JSON) from standard input, fills
// the peer with it, and hands the peer's own scheduling loop to Trial.Measure, which prints one JSON line.
package trial

import (
	"fmt"
	"strconv"
	"strings"
)

// Workload is a cluster and the jobs that wait in its queues when the clock starts.
type Workload struct {
	Name  string
	Nodes struct {
		Count int
		Resources
	}
	Shapes      []Resources // what a task asks for; all tasks of a job have the same shape
	Jobs        int
	TasksPerJob int
	MinMember   int // tasks of a job that are placed together or not at all
	Tree        struct {
		Orgs, Teams, Queues int // organisations, teams in each, queues in each team
	}
	Namespaces int
}

// Resources are what a node has or a task asks for: cores, bytes, devices.
type Resources struct {
	CPU, Memory, GPU, Pods Amount
}

// Amount is a whole number, in JSON also a string with a binary suffix: 64, "64", "512Gi".
type Amount int64

// UnmarshalJSON reads a number or a string.
func (a *Amount) UnmarshalJSON(text []byte) error {
	digits, shift := strings.Trim(string(text), `"`), 0
	for i, suffix := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if number, found := strings.CutSuffix(digits, suffix); found {
			digits, shift = number, 10*(i+1)
		}
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return fmt.Errorf("amount %s: want a whole number, with Ki, Mi, Gi or Ti or nothing behind it", text)
	}
	*a = Amount(number << shift)
	return nil
}

// Queue is a node of the queue tree. Jobs wait in leaves only.
type Queue struct {
	Name     string
	Weight   int
	Children []Queue
}

// Root is the queue tree: organisations over teams over leaf queues, with uneven weights at every level.
// Leaves are numbered through the whole tree, so that their names are unique.
func (w *Workload) Root() Queue {
	root := Queue{Name: "root", Weight: 1}
	leaves := 0
	for o := range w.Tree.Orgs {
		org := Queue{Name: fmt.Sprintf("org%d", o), Weight: 1 + o%3}
		for t := range w.Tree.Teams {
			team := Queue{Name: fmt.Sprintf("team%d", t), Weight: 1 + t%2}
			for q := range w.Tree.Queues {
				team.Children = append(team.Children, Queue{Name: fmt.Sprintf("q%d", leaves), Weight: 1 + q%4})
				leaves++
			}
			org.Children = append(org.Children, team)
		}
		root.Children = append(root.Children, org)
	}
	return root
}

// Leaves are the paths from the root to the leaf queues, in the order of their numbers.
func (w *Workload) Leaves() [][]Queue {
	return w.Root().paths(nil)
}

func (q Queue) paths(above []Queue) (leaves [][]Queue) {
	path := append(above[:len(above):len(above)], q)
	for _, child := range q.Children {
		leaves = append(leaves, child.paths(path)...)
	}
	if len(q.Children) == 0 {
		leaves = append(leaves, path)
	}
	return leaves
}

// Job is a number of equal tasks in one queue.
type Job struct {
	Name, Namespace string
	Leaf            int // index in Leaves
	Shape           Resources
	Tasks           []string
}

// AllJobs deals the jobs round robin over queues and namespaces. The shape moves on at another pace, so
// that every queue and every namespace sees every shape.
func (w *Workload) AllJobs() []Job {
	leaves := w.Tree.Orgs * w.Tree.Teams * w.Tree.Queues
	jobs := make([]Job, w.Jobs)
	for j := range jobs {
		job := Job{
			Name:      fmt.Sprintf("job-%05d", j),
			Namespace: fmt.Sprintf("ns%d", j%w.Namespaces),
			Leaf:      j % leaves,
			Shape:     w.Shapes[(j/4+j/leaves)%len(w.Shapes)],
		}
		for i := range w.TasksPerJob {
			job.Tasks = append(job.Tasks, fmt.Sprintf("%s-%d", job.Name, i))
		}
		jobs[j] = job
	}
	return jobs
}

// NodeNames are the names of the nodes, which are all alike.
func (w *Workload) NodeNames() []string {
	names := make([]string, w.Nodes.Count)
	for i := range names {
		names[i] = fmt.Sprintf("node-%05d", i)
	}
	return names
}
