"""Limits of users in random lives: nothing idles that somebody may have, and starts keep to the definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import NodeSpec, Queue, TaskStatus
from tests.support.limited_users import PLENTY, check_accounts, finished, held, make, submit

Move = tuple[str, int, int]

moves = st.lists(
    st.tuples(
        st.sampled_from(["submit", "finish", "limit", "user", "node", "cycle"]), st.integers(0, 99), st.integers(0, 99)
    ),
    min_size=4,
    max_size=30,
)


@settings(max_examples=40)
@given(moves=moves, rule=st.sampled_from(["steer", "paper"]))
def test_no_start_takes_a_user_above_the_factor_by_more_than_a_unit(moves: list[Move], rule: str) -> None:
    """Random arrivals, ends and changes; each start is judged by the definition, in fractions."""
    engine = make(12, Queue("q", min_user_limit_percent=30), Queue("r", user_limit_factor=0.5), rule=rule, nodes=2)
    limits: dict[str, dict[str, Any]] = {"q": {"min_user_limit_percent": 30}, "r": {"user_limit_factor": 0.5}}
    number = 0
    for what, a, b in (*moves, ("cycle", 0, 0)):
        queue = "qr"[a % 2]
        match what:
            case "submit":
                number += 1
                submit(engine, f"j{number}", queue, f"u{b % 4}", 1 + b % 5, cpu=1 + a % 3, least=1 + a % 2 * (b % 3))
            case "finish":
                finish(engine, a)
            case "limit":
                limits[queue] = [
                    {"min_user_limit_percent": b},
                    {"user_limit_factor": (1 + b) / 20},
                    {"min_user_limit_percent": b, "user_limit_factor": (1 + a) / 20},
                    {},
                ][b % 4]
                engine.apply(Changed(Queue(queue, weight=1 + a % 3, created="qr".index(queue), **limits[queue])))
            case "user":
                specs = [job.spec for job in engine.state.jobs.values() if job.spec is not None]
                if specs:
                    engine.apply(Changed(replace(specs[a % len(specs)], user=f"u{b % 4}")))
            case "node":
                engine.apply(Changed(NodeSpec("n1", ((1 + a % 9) * 1000, (1 + a % 9) * 1000, PLENTY))))
            case _:
                engine.prepare()
                before = {node: list(node.held) for node in engine.tree.root.walk()}
                engine.cycle(engine.now + 1_000_000)
                check_accounts(engine)
                judge(engine, before, limits)
    engine.validate()


def finish(engine: Engine, number: int) -> None:
    """One of the running tasks ends."""
    running = sorted(task.key for task in engine.state.tasks.values() if task.status is TaskStatus.BINDING)
    if running:
        engine.apply(Changed(finished(engine, running[number % len(running)])))


def judge(engine: Engine, before: Mapping[ShareNode, list[int]], limits: Mapping[str, Mapping[str, Any]]) -> None:
    """Of cpu, the only resource asked for here: whoever started something held less than the factor allows before."""
    weights = {name: engine.state.queues[name].weight for name in limits}
    for name, said in limits.items():
        if "user_limit_factor" not in said:
            continue
        queue = engine.tree.root.children[NodeKind.QUEUE, name]
        leaves = [leaf for leaf in queue.walk() if isinstance(leaf, JobNode)]
        configured = Fraction(engine.state.capacity[0] * weights[name], sum(weights.values()))
        limit = configured * Fraction(str(said["user_limit_factor"]))
        for user in {leaf.user for leaf in leaves}:
            mine = [leaf for leaf in leaves if leaf.user == user]
            was = sum(before[leaf][0] for leaf in mine if leaf in before)
            now = sum(leaf.held[0] for leaf in mine)
            started = [leaf for leaf in mine if leaf.held[0] > before.get(leaf, [0])[0]]
            if started:
                # The last unit to start was at most the largest gang; without it the user was below the limit.
                largest = max(max(leaf.held[0] - before.get(leaf, [0])[0], 0) for leaf in started)
                assert was < limit and now - largest < limit, f"{user} held {was}, holds {now} of {limit} in {name}"


jobs = st.tuples(
    st.integers(0, 5), st.integers(1, 8), st.integers(1, 7), st.integers(0, 7), st.integers(1, 3)
)  # user, tasks, cpu, memory, gang
lives = st.lists(st.one_of(jobs, st.lists(st.integers(0, 99), min_size=1, max_size=6)), min_size=3, max_size=14)


@settings(max_examples=80)
@given(
    life=lives,
    rule=st.sampled_from(["steer", "paper"]),
    percent=st.integers(0, 99),
    sibling=st.sampled_from([None, 1, 3]),
    at_once=st.booleans(),
)
def test_nothing_idles_that_a_user_of_the_queue_wants(
    life: list[Any], rule: str, percent: int, sibling: int | None, at_once: bool
) -> None:
    """Users come one by one or together, with tasks of any size; tasks end one by one or several at once.

    The queue's sibling wants nothing. Whenever nothing happens any more, no task that waits would fit anywhere.
    """
    queues = [Queue("q", min_user_limit_percent=percent)]
    if sibling is not None:
        queues.append(Queue("idle", weight=sibling))
    engine = make(20, *queues, rule=rule, nodes=2)
    for number, event in enumerate(life):
        if isinstance(event, tuple):
            user, tasks, cpu, memory, least = event
            submit(engine, f"j{number}", "q", f"u{user}", tasks, cpu=cpu, memory=memory, least=min(tasks, least))
        else:
            for which in event:
                finish(engine, which)
        if not at_once or number == len(life) - 1:
            come_to_rest(engine)
            check_nothing_idles(engine)


def come_to_rest(engine: Engine) -> None:
    for _ in range(40):
        if not engine.cycle(engine.now + 1_000_000):
            return
    raise AssertionError("decisions go on and on")


def check_nothing_idles(engine: Engine) -> None:
    engine.validate()
    for key, leaf in engine.tree.jobs.items():
        assert leaf.job.spec is not None
        if leaf.started or leaf.job.spec.min_member == 1:
            for shape in leaf.job.pending:
                fits = [n.name for n in engine.nodes.nodes if all(n.idle[j] >= amount for j, amount in shape.items)]
                assert not fits, f"{key} of {leaf.user} could start on {fits}"


@settings(max_examples=30)
@given(
    users=st.integers(1, 8),
    rule=st.sampled_from(["steer", "paper"]),
    order=st.permutations(range(8)),
    jobs_each=st.integers(1, 3),
    ends=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=12), max_size=4),
)
def test_users_who_always_want_more_have_equal_parts(
    users: int, rule: str, order: list[int], jobs_each: int, ends: list[list[int]]
) -> None:
    """25 %, 24 cpu, one queue: two users have half each, three a third, four a quarter, five and more no more than it.

    However many jobs each has, in whatever order they came and whatever ends.
    """
    engine = make(24, Queue("q", min_user_limit_percent=25), rule=rule)
    for user in order[:users]:
        for number in range(1 + user % jobs_each):
            submit(engine, f"u{user}-{number}", "q", f"u{user}", 90)
    come_to_rest(engine)
    for ended in ends:
        for which in ended:
            finish(engine, which)
        come_to_rest(engine)
    amounts = sorted(held(engine).values())
    assert sum(amounts) == 24
    assert amounts[-1] <= max(24 / users, 6) + 1
    if users <= 4:
        assert amounts[0] >= 24 // users - (users - 1)
