"""No start takes a user above the limit, in random lives, judged by the definition in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.fairness.tree import JobNode, Kind, ShareNode
from pumice.model.events import Changed
from pumice.model.objects import NodeSpec, Queue, TaskStatus
from pumice.scheduling.engine import Engine
from tests.support.limited_users import PLENTY, check_accounts, finished, make, submit

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
def test_no_start_takes_a_user_above_the_limit(moves: list[Move], rule: str) -> None:
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
                running = sorted(t.key for t in engine.state.tasks.values() if t.status is TaskStatus.BINDING)
                if running:
                    engine.apply(Changed(finished(engine, running[a % len(running)])))
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
                engine.settle()
                before = {node: list(node.held) for node in engine.tree.root.walk()}
                engine.cycle(engine.now + 1_000_000)
                check_accounts(engine)
                judge(engine, before, limits)
    engine.validate()


def judge(engine: Engine, before: Mapping[ShareNode, list[int]], limits: Mapping[str, Mapping[str, Any]]) -> None:
    """Of cpu, the only resource asked for here: whoever holds more than before is within the limit.

    The base only grows while a cycle places, so the limit at the end is no less than at any start in it.
    """
    weights = {name: engine.state.queues[name].weight for name in limits}
    for name, said in limits.items():
        queue = engine.tree.root.children[Kind.QUEUE, name]
        leaves = [leaf for leaf in queue.walk() if isinstance(leaf, JobNode)]
        active = {leaf.user for leaf in leaves if leaf.demand.pieces}
        configured = Fraction(engine.state.capacity[0] * weights[name], sum(weights.values()))
        base = max(configured, Fraction(queue.held[0]))
        limit: Fraction | None = None
        percent = said.get("min_user_limit_percent")
        if percent is not None and percent != 100 and len(active) > 1:
            limit = max(base / len(active), base * percent / 100)
        if "user_limit_factor" in said:
            by_factor = configured * Fraction(str(said["user_limit_factor"]))
            limit = by_factor if limit is None else min(limit, by_factor)
        for user in active if limit is not None else ():
            assert limit is not None
            mine = [leaf for leaf in leaves if leaf.user == user]
            now = sum(leaf.held[0] for leaf in mine)
            if now > sum(before[leaf][0] for leaf in mine if leaf in before):
                assert now <= limit, f"{user} holds {now} of {limit} in {name}"
