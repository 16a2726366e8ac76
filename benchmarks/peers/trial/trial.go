package trial

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Trial is one measured run of one peer on one workload, in a process of its own.
type Trial struct {
	Workload
	*Ledger
	peer, version string
	limit         time.Duration
	memory        int
	opening       atomic.Int64 // nanoseconds from the start to Opened
	openingCPU    atomic.Int64 // CPU time in them
	start         time.Time
	startCPU      time.Duration
}

// Result is the line a trial prints.
type Result struct {
	Peer                string  `json:"peer"`
	Version             string  `json:"version"`
	Workload            string  `json:"workload"`
	Placements          int     `json:"placements"`
	Seconds             float64 `json:"seconds"` // of a partial run, since it was opened
	PlacementsPerSecond float64 `json:"placements_per_second"`
	CPUSeconds          float64 `json:"cpu_seconds"` // of all threads, collector included; of a partial run likewise
	PeakRSSMiB          int     `json:"peak_rss_mib"`
	Partial             bool    `json:"partial"` // a limit stopped the run before the peer was done
	Reason              string  `json:"reason,omitempty"`
	Check               Check   `json:"check"`
}

// Start reads the limits from the command line and the workload from standard input. The version is the
// one of the peer's module that this program was built with.
func Start(peer, module string) *Trial {
	limit := flag.Duration("limit", time.Minute, "stop scheduling after this time")
	memory := flag.Int("memory", 8000, "stop scheduling above this many MiB of resident memory")
	flag.Parse()

	t := &Trial{peer: peer, limit: *limit, memory: *memory}
	if err := json.NewDecoder(os.Stdin).Decode(&t.Workload); err != nil {
		Fail("standard input must be a workload in JSON: %v", err)
	}
	if t.Nodes.Count < 1 || t.Jobs < 1 || t.TasksPerJob < 1 || t.Namespaces < 1 || len(t.Shapes) < 1 ||
		t.Tree.Orgs*t.Tree.Teams*t.Tree.Queues < 1 {
		Fail("the workload needs nodes, shapes, jobs, tasksPerJob, namespaces and a tree")
	}
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			t.version = dependency.Version
		}
	}
	t.Ledger = newLedger(&t.Workload)
	return t
}

// Measure runs the peer's scheduling until it returns or a limit stops it, prints the result and ends the
// process. Placements that are still on their way to the ledger when schedule returns are waited for, off
// the clock.
//
// A run that was stopped had no time to earn back the fixed cost of its opening, which a full run spreads
// over all placements, so its rate and its CPU time leave the opening out.
func (t *Trial) Measure(schedule func()) {
	runtime.GC() // what was needed to set up is not the peer's to collect
	done := make(chan struct{})
	t.start = time.Now()
	t.startCPU = cpuTime()
	go func() {
		schedule()
		close(done)
	}()
	reason := t.waitWithinLimits(done)
	elapsed, cpu := time.Since(t.start), cpuTime()-t.startCPU
	if reason == "" {
		t.settle()
	} else {
		elapsed -= time.Duration(t.opening.Load())
		cpu -= time.Duration(t.openingCPU.Load())
	}
	placed := t.Placed()
	line, _ := json.Marshal(Result{
		Peer: t.peer, Version: t.version, Workload: t.Name,
		Placements: placed, Seconds: elapsed.Seconds(), PlacementsPerSecond: float64(placed) / elapsed.Seconds(),
		CPUSeconds: cpu.Seconds(), PeakRSSMiB: residentMiB("VmHWM"),
		Partial: reason != "", Reason: reason, Check: t.Check(reason != ""),
	})
	fmt.Println(string(line))
	os.Exit(0)
}

// Opened is called by a schedule function after what it does once per cycle, before its first placement.
func (t *Trial) Opened() {
	t.opening.Store(int64(time.Since(t.start)))
	t.openingCPU.Store(int64(cpuTime() - t.startCPU))
}

// waitWithinLimits returns "" when done, else the limit that was reached.
func (t *Trial) waitWithinLimits(done <-chan struct{}) string {
	deadline := time.After(t.limit)
	tick := time.Tick(200 * time.Millisecond)
	for {
		select {
		case <-done:
			return ""
		case <-deadline:
			return fmt.Sprintf("stopped after %v", t.limit)
		case <-tick:
			if residentMiB("VmRSS") > t.memory {
				return fmt.Sprintf("stopped above %d MiB", t.memory)
			}
		}
	}
}

// settle waits until every task is placed or none has been for two seconds.
func (t *Trial) settle() {
	total := t.Jobs * t.TasksPerJob
	for before := -1; before < t.Placed() && t.Placed() < total; {
		before = t.Placed()
		time.Sleep(2 * time.Second)
	}
}

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		Fail("getrusage: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentMiB reads a field of /proc/self/status. VmHWM is the peak of this program alone; getrusage
// would count what the process was before it became this program.
func residentMiB(field string) int {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			kib, _ := strconv.Atoi(strings.Fields(value)[0])
			return kib / 1024
		}
	}
	return 0
}

// Fail ends the program with a message.
func Fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
