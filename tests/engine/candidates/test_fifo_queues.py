"""First come first served: queues with dequeueStrategy fifo, and drf without job order.

See docs/fairness.md, section 3.1.
"""

from __future__ import annotations

from tests.support.taking import Shell, taking_engine


def test_jobs_of_a_line_are_served_one_after_another() -> None:
    # 8 cpu, two jobs of eight 1-cpu tasks in one queue: side by side they would have 4 each.
    shell = Shell(taking_engine())
    shell.node("n", 8)
    shell.queue("root/line", fifo=True)
    first, second = (shell.job("line", [(1,)] * 8) for _ in range(2))
    shell.cycle()
    assert (shell.running(first), shell.running(second)) == (8, 0)
    # Three of the first end for good: what is free goes to the second, the first has nothing left to start.
    for task in shell.running_tasks(first)[:3]:
        shell.end(task)
    shell.cycle()
    assert (shell.running(first), shell.running(second)) == (5, 3)


def test_fifo_head_that_does_not_fit_blocks_only_its_queue() -> None:
    # Nodes of 4 and 4 cpu. The head of the line wants 5 on one node once the first has started: never. Another queue
    # goes on.
    shell = Shell(taking_engine(actions="allocate"))
    for name in ("n0", "n1"):
        shell.node(name, 4)
    shell.node("large", 6)
    shell.queue("root/line", fifo=True)
    shell.queue("root/other")
    tall = shell.job("line", [(6,)])
    shell.cycle()
    assert shell.running(tall) == 1
    head = shell.job("line", [(5,)])  # fits the large node alone, which is taken
    behind = shell.job("line", [(1,)] * 2)
    beside = shell.job("other", [(1,)] * 2)
    shell.cycle()
    assert [shell.running(job) for job in (head, behind, beside)] == [0, 0, 2]
    shell.end(f"{tall}-t-0")
    shell.cycle()
    assert [shell.running(job) for job in (head, behind)] == [1, 2]


def test_a_more_important_job_goes_to_the_head() -> None:
    shell = Shell(taking_engine(actions="allocate"))
    shell.node("n", 2)
    shell.queue("root/line", fifo=True)
    early = shell.job("line", [(1,)] * 4, priority=0)
    late = shell.job("line", [(1,)] * 4, priority=10)
    shell.cycle()
    assert (shell.running(early), shell.running(late)) == (0, 2)
    shell.engine.validate()
