"""Rounding of unlike tasks, by hand: a unit that does not fit is passed over for later ones of its job."""

from kubebase.resource_vector import CPU, MEMORY
from tests.engine.fairness.integer_target.test_rounding import hand_made, rounded, whole_cpu


def test_job_passing_over_unit_gets_own_later_units_before_siblings() -> None:
    # 3 cpu, 5 memory, two jobs of one queue: 1.5 cpu each, 3 and 2 memory. One cpu task starts and none fits beside it.
    # Of the memory behind the cpu tasks the first job has 1 task by its own entitlement, the second its 2; 1 is left.
    grove = hand_made(3, 5, 0, 0)
    queue = grove.group()
    grove.job(queue, [(((CPU, 2000),), 2), (((MEMORY, 2000),), 2)])
    grove.job(queue, [(((CPU, 2000),), 2), (((MEMORY, 1000),), 2), (((CPU, 1000), (MEMORY, 3000)), 1)])
    assert rounded(grove) == [[2, 2, 0, 0], [0, 2, 0, 0]]


def test_a_reserve_does_not_overtake_tasks_that_wait() -> None:
    # 4 cpu, 7 memory. The queue is entitled to 4.3 memory, of which a task of either job leaves 0.3. So the second task
    # of the first job does not fit its queue, and the 1 cpu that it reserves for pods to come must not go before that.
    # The second job has its cpu tasks instead, behind those for whose memory there is no room.
    grove = hand_made(4, 7, 0, 0)
    queue = grove.group()
    small, tall = ((CPU, 1000), (MEMORY, 1000)), ((CPU, 1000), (MEMORY, 3000))
    grove.job(queue, [(small, 2)], floor=((CPU, 3000),))
    grove.job(queue, [(tall, 2), (small, 1), (((CPU, 1000),), 2)])
    grove.job(queue, [(((CPU, 3000),), 1), (((CPU, 2000), (MEMORY, 2000)), 2), (((CPU, 3000),), 2)])
    assert rounded(grove) == [[1, 1, 0, 0], [3, 3, 0, 0], [0, 0, 0, 0]]


def test_a_later_task_has_what_is_missing_below_its_queue_before_other_queues_do() -> None:
    # 5 cpu, 2.5 for each queue. The first has a job of 1, 2 and 1 cpu and two gangs of 4: after the first task 1.5 are
    # missing, which hold the third. Otherwise the other queue would have a second task of 2, though it misses only 0.5.
    grove = hand_made(5, 0, 0, 0)
    one, two = grove.group(), grove.group()
    grove.job(one, [(((CPU, 1000),), 1), (((CPU, 2000),), 1), (((CPU, 1000),), 1)])
    for _ in range(2):
        grove.job(one, [(((CPU, 1000),), 4)], gang=4)
    grove.job(two, [(((CPU, 2000),), 3)])
    assert whole_cpu(grove) == [2, 0, 0, 2]


def test_a_task_that_was_passed_over_below_is_first_again_further_up() -> None:
    # 8 cpu, 3.5 for the first queue, whose job has tasks of 2, 2, 1 and 1 cpu: 2 and 1 by its own part. Of the 1.5 that
    # nobody can use wholly the other queue's 5-cpu task can't have any; 2 are left, and the job's second task is next.
    grove = hand_made(8, 0, 0, 0)
    one, two = grove.group(weight=3.5), grove.group(weight=4.5)
    job = grove.job(one, [(((CPU, 2000),), 2), (((CPU, 1000),), 2)])
    grove.job(two, [(((CPU, 3000),), 1), (((CPU, 5000),), 1)])
    assert whole_cpu(grove) == [5, 3]
    assert job.taken == [2, 1]


def test_a_running_task_is_not_passed_over_for_one_that_waits_before_the_roots_pass() -> None:
    # 5 cpu, 2.5 for each queue. The first runs a task of 3 and waits with two of 1, which its part would hold. If these
    # had it, the running task would lose its right, though the other queue with its 2 is not short by a task.
    grove = hand_made(5, 0, 0, 0)
    job = grove.job(grove.group(), [(((CPU, 3000),), 1), (((CPU, 1000),), 2)])
    grove.job(grove.group(), [(((CPU, 1000),), 5)])
    grove.start(grove.tree, job, ((CPU, 3000),), 1)
    assert whole_cpu(grove) == [3, 2]
    assert job.taken == [1, 0]
