"""The measurements. Each function does one run and returns plain numbers; ``run`` repeats and reports.

Rates are wall-clock, as users see them. Ratios of two costs are taken of CPU time within one run, so that other load on
the machine affects both sides alike.
"""

from __future__ import annotations

import gc
import random
import resource
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.workload import Workload
from benchmarks.workload_e import WorkloadE
from benchmarks.workload_n import WorkloadN
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Event, Gone
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.state.job import Job
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

# What the peers run too: their loop has no enqueue and no backfill.
ALLOCATE_ONLY = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}]
"""


def new_engine(actions: str = "allocate", text: str = ALLOCATE_ONLY) -> Engine:
    text = text.replace('"allocate"', f'"{actions}"')
    config = parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS)
    return Engine(config, BUILT_IN)


def peak_mib() -> float:
    """Peak memory of this process alone (``ru_maxrss`` may start at the parent's)."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def allocate(workload: Workload) -> dict[str, float]:
    """From all tasks pending to all placed: one cycle, including targets and the first look at every job."""
    engine = new_engine()
    for event in workload.events(engine.state.registry):
        engine.apply(event)
    gc.collect()
    start, began = perf_counter(), process_time()
    engine.prepare()
    settled = perf_counter()
    decisions = engine.cycle(0)
    seconds, cpu_seconds = perf_counter() - start, process_time() - began
    placed = sum(isinstance(decision, Bind) for decision in decisions)
    engine.validate()
    return {
        "placements": placed,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "settle_seconds": settled - start,
        "placements_per_second": placed / seconds,
        "peak_rss_mib": peak_mib(),
    }


def topology(workload: WorkloadN) -> dict[str, float]:
    """Gangs in domains of the network: one cycle, and its CPU time beside that of the same gangs placed anywhere."""
    figures: dict[str, float] = {}
    cpu: dict[bool, float] = {}
    for inside in (False, True):
        engine = new_engine()
        for event in workload.events(engine.state.registry, topology=inside):
            engine.apply(event)
        gc.collect()
        start, began = perf_counter(), process_time()
        placed = sum(isinstance(decision, Bind) for decision in engine.cycle(0))
        seconds, cpu[inside] = perf_counter() - start, process_time() - began
        engine.validate()
        figures = {
            "placements": placed,
            "waiting": sum(len(tasks) for job in engine.state.jobs.values() for tasks in job.pending.values()),
            "seconds": seconds,
            "placements_per_second": placed / seconds,
            "peak_rss_mib": peak_mib(),
        }
    return {**figures, "percent_of_anywhere": 100 * cpu[True] / cpu[False]}


def small_changes(workload: Workload, text: str = ALLOCATE_ONLY) -> dict[str, float]:
    """On a full cluster: a cycle in which nothing changed, and one with a job more and ten tasks fewer."""
    engine = new_engine(text=text)
    for event in workload.events(engine.state.registry):
        engine.apply(event)
    gc.collect()
    placing = _cpu(lambda: engine.cycle(0))
    running = [task for task in engine.state.tasks.values() if task.status.held]
    waiting = len(engine.state.tasks) - len(running)
    engine.cycle(1_000_000)
    nothing = min(_cpu(lambda: engine.cycle(2_000_000)) for _ in range(3))
    costs = []
    for round_number in range(5):
        for task in running[round_number * 1000 : round_number * 1000 + 10]:
            spec = task.spec
            done = TaskSpec(
                spec.namespace, spec.name, spec.request, spec.job, spec.created, status=TaskStatus.SUCCEEDED
            )
            engine.apply(Changed(done))
        name, sample = f"late-{round_number}", running[round_number].spec
        engine.apply(Changed(JobSpec("ns0", name, "q7", 10**6, phase=JobPhase.INQUEUE)))
        for i in range(10):
            engine.apply(Changed(TaskSpec("ns0", f"{name}-{i}", sample.request, f"ns0/{name}", 10**6)))
        costs.append(_cpu(lambda: engine.cycle(3_000_000)))
    costs.sort()
    return {
        "running": len(running),
        "waiting": waiting,
        "placing_seconds": placing,
        "nothing_percent": 100 * nothing / placing,
        "small_change_percent": 100 * costs[len(costs) // 2] / placing,
    }


def reclaim(workload: Workload, sleeper: str = "q7") -> dict[str, float]:
    """On a full cluster a queue that slept wakes and takes its part back: the reclaim action alone, after allocate."""
    engine = new_engine("allocate, reclaim")
    late, sleeping = [], set()
    for event in workload.events(engine.state.registry):
        described = event.object
        if isinstance(described, JobSpec) and described.queue == sleeper:
            sleeping.add(described.key)
        if getattr(described, "job", None) in sleeping or getattr(described, "key", None) in sleeping:
            late.append(event)
        else:
            engine.apply(event)
    gc.collect()
    start = perf_counter()
    binds = [decision for decision in engine.cycle(0) if isinstance(decision, Bind)]
    fill = perf_counter() - start
    for bind in binds:
        spec = engine.state.tasks[bind.task].spec
        engine.apply(Changed(replace(spec, node=bind.node, status=TaskStatus.RUNNING, started=1)))
    engine.cycle(1_000_000)
    for event in late:
        engine.apply(event)
    engine.context.now, engine.context.decided.decisions = 2_000_000, []
    start = perf_counter()
    engine.prepare()
    ACTIONS["allocate"](engine.context)
    before = perf_counter()
    ACTIONS["reclaim"](engine.context)
    taking = perf_counter() - before
    evicted = sum(isinstance(decision, Evict) for decision in engine.context.decided.decisions)
    claims = sum(isinstance(decision, Pipeline) for decision in engine.context.decided.decisions)
    engine.validate()
    return {
        "placements": len(binds),
        "evictions": evicted,
        "claims": claims,
        "seconds": taking,
        "cycle_seconds": taking + before - start,
        "decisions_per_second": (evicted + claims) / taking,
        "placements_per_second": len(binds) / fill,
        "percent_of_allocation": 100 * (evicted + claims) / taking / (len(binds) / fill),
        "peak_rss_mib": peak_mib(),
    }


def churn_e(workload: WorkloadE, rounds: int = 3) -> dict[str, float]:
    """Workload E: the first fill, then rounds of completions and arrivals."""
    engine = new_engine()
    for event in workload.events(engine.state.registry):
        engine.apply(event)
    gc.collect()
    start = perf_counter()
    first = sum(isinstance(decision, Bind) for decision in engine.cycle(0))
    fill = perf_counter() - start
    later, spent = 0, 0.0
    for number in range(1, rounds + 1):
        for event in workload.round(engine.state, number):
            engine.apply(event)
        start = perf_counter()
        later += sum(isinstance(decision, Bind) for decision in engine.cycle(number * 1_000_000))
        spent += perf_counter() - start
    engine.validate()
    return {
        "placements": first,
        "seconds": fill,
        "placements_per_second": first / fill,
        "later_placements": later,
        "later_per_second": later / spent if spent else 0.0,
        "peak_rss_mib": peak_mib(),
    }


# --- the share tree alone -------------------------------------------------------------------------------------------


def rounding_cost(name: str, times: int = 20) -> dict[str, float]:
    """On a full cluster: integer targets from scratch, after one task has ended, and after one job was added."""
    engine = new_engine()
    for event in _waiting(name, engine):
        engine.apply(event)
    engine.cycle(0)
    order = engine.order
    assert isinstance(order, TargetOrder)
    order.rounding.forget_all()
    gc.collect()
    first = _cpu(lambda: order.rounding.run(engine.state.capacity))
    running = [task for task in engine.state.tasks.values() if task.status.held]
    ended = came = 0.0
    for n in range(times):
        gone = running[n * len(running) // times].spec
        engine.apply(Gone(TaskSpec, gone.key))
        ended += _cpu(lambda: order.refresh_targets(demand_changed=False))
        pattern = engine.state.jobs[gone.job or ""].spec
        assert pattern is not None
        new = replace(pattern, name=f"late-{n}", created=10**9 + n)
        engine.apply(Changed(new))
        engine.apply(Changed(replace(gone, name=f"late-{n}-0", job=new.key)))
        came += _cpu(engine.prepare)
    return {"first_ms": first * 1000, "task_ended_ms": ended / times * 1000, "job_came_ms": came / times * 1000}


def _waiting(name: str, engine: Engine) -> Iterable[Event]:
    """A workload by name; ``singles`` is one queue of 10,000 jobs of one task on a cluster that holds a tenth."""
    if name == "E":
        return WorkloadE.load("E").events(engine.state.registry)
    if name != "singles":
        return Workload.load(name).events(engine.state.registry)
    events: list[Event] = [Changed(NodeSpec("pool", (1_000_000, 10**12, 10**6))), Changed(Queue("q"))]
    for i in range(10_000):
        events.append(Changed(JobSpec("ns", f"j{i:05d}", "q", i, phase=JobPhase.INQUEUE)))
        events.append(Changed(TaskSpec("ns", f"j{i:05d}-0", (1000, 1, 1), job=f"ns/j{i:05d}")))
    return events


def tree_events(leaves: int, events: int = 2000) -> dict[str, float]:
    """One pick with its placement, or one release, on a tree of so many leaves; against a full recursion."""
    tree, order = _grown_tree(leaves)
    rng = random.Random(1)
    held = []
    places, releases = 0.0, 0.0
    for stamp in range(1, events + 1):
        start = process_time()
        leaf = order.next_job()
        assert leaf is not None and leaf.ask is not None
        order.charge(leaf, leaf.ask, stamp)
        places += process_time() - start
        held.append((leaf, stamp))
        if rng.random() < 0.5:
            at = rng.randrange(len(held))
            held[at], held[-1] = held[-1], held[at]
            victim, when = held.pop()
            start = process_time()
            order.uncharge(victim, victim.ask or (), when)
            releases += process_time() - start
    repeats = max(1, 20_000 // leaves)
    start = process_time()
    for _ in range(repeats):
        _full_recursion(tree.root, order.capacity)
    full = (process_time() - start) / repeats
    return {
        "leaves": leaves,
        "place_microseconds": places / events * 1e6,
        "release_microseconds": releases / (events / 2) * 1e6,
        "full_recursion_microseconds": full * 1e6,
        "times_faster": full / (places / events),
    }


def _grown_tree(leaves: int) -> tuple[ShareTree, TargetOrder]:
    """Depth 4: ten organisations, ten or a hundred teams, jobs below them, all wanting more than there is."""
    tree = ShareTree(3)
    capacity = [leaves * 4000, leaves * 16 * 2**30, 0]
    order = TargetOrder(tree, capacity, patience=-1)
    teams = 10 if leaves <= 10_000 else 100
    per_team = leaves // (10 * teams)
    for o in range(10):
        organisation = tree.child(tree.root, NodeKind.QUEUE, f"org{o}")
        organisation.weight = 1.0 + o % 3
        for t in range(teams):
            team = tree.child(organisation, NodeKind.QUEUE, f"team{t}")
            team.weight = 1.0 + t % 2
            for n in range(per_team):
                _add_leaf(tree, team, f"ns/{o}-{t}-{n}", n)
    order.refresh_targets(demand_changed=True)
    for leaf in tree.jobs.values():
        order.set_candidate(leaf, leaf.demand.parts[0][0], True)
    for node in list(tree.root.walk()):
        if node.children:
            order.first_child(node)  # every heap is built before anything is timed
    return tree, order


def _add_leaf(tree: ShareTree, parent: ShareNode, key: str, n: int) -> JobNode:
    leaf = tree.add_job(Job(key), parent)
    leaf.rank = (n, NodeKind.JOB, key)
    ask = ((0, 1000), (1, (2 + n % 3) * 2**30))
    leaf.demand = Demand(((ask, 10),), (), ask)
    return leaf


def _full_recursion(node: ShareNode, capacity: list[int]) -> list[int]:
    """The cost of a scheduler that recomputes the tree for one decision: vector and share of every node."""
    if not node.children:
        held = list(node.held)
    else:
        held = [0] * len(capacity)
        for child in node.children.values():
            for j, amount in enumerate(_full_recursion(child, capacity)):
                held[j] += amount
    share = 0.0
    for j, amount in enumerate(held):
        if capacity[j]:
            share = max(share, amount / capacity[j])
    return held


def _cpu(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start
