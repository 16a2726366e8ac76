"""What came out against what was expected."""

import pytest

from pumice.sim.expectations import find_differences
from tests.sim.samples import job, node, queue, queue_at, ran, scenario

# 8 cpu for two queues of weights 3 and 1 under eng: 6 and 2.
DOCUMENTS = (
    node("n1", cpu=8, memory="8Gi"),
    queue_at("prod", "root/eng/prod", "1/1/3"),
    queue_at("dev", "root/eng/dev", "1/1/1"),
    job("a", "prod", 8, cpu=1, memory="1Gi"),
    job("b", "dev", 8, cpu=1, memory="1Gi"),
)


def found(expect, **spec):
    simulation = ran(scenario(expect=expect, **spec), *DOCUMENTS)
    return [(one.where, one.expected, one.actual) for one in find_differences(simulation)]


def test_empty_expectations_have_no_difference():
    assert find_differences(ran(*DOCUMENTS)) == []
    assert found({}) == []


HOLDS = {
    "jobs": {
        "default/a": {"running": 6, "pending": 2, "allocated": {"cpu": 6, "memory": "6Gi"}, "phase": "Running"},
        "default/b": {"allocated": {"cpu": "2000m"}},
    },
    "queues": {
        "prod": {"allocated": {"cpu": 6}, "share": 0.75, "entitled": {"cpu": 6}},
        "root/eng": {"allocated": {"cpu": 8}, "share": 1.0},
        "root/eng/dev/default": {"share": 0.25},
        "root": {"share": 1},
    },
    "evicted": [],
}


def test_met_expectations_have_no_difference():
    assert found(HOLDS) == []


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ({"jobs": {"default/a": {"running": 5}}}, ("jobs.default/a.running", "5", "6")),
        ({"jobs": {"default/a": {"pending": 3}}}, ("jobs.default/a.pending", "3", "2")),
        ({"jobs": {"default/a": {"phase": "Inqueue"}}}, ("jobs.default/a.phase", "Inqueue", "Running")),
        ({"jobs": {"default/a": {"allocated": {"cpu": 5}}}}, ("jobs.default/a.allocated.cpu", "5", "6")),
        ({"jobs": {"default/a": {"allocated": {"memory": "5Gi"}}}}, ("jobs.default/a.allocated.memory", "5Gi", "6Gi")),
        (
            {"jobs": {"default/a": {"allocated": {"gpu": 1}}}},
            ("jobs.default/a.allocated.gpu", "1.0", "0, did you mean 'cpu'?"),
        ),
        ({"jobs": {"default/c": {}}}, ("jobs.default/c", "a job", "no such job, did you mean 'default/b'?")),
        ({"queues": {"prod": {"share": 0.7}}}, ("queues.prod.share", "0.7", "0.75")),
        ({"queues": {"dev": {"entitled": {"cpu": 3}}}}, ("queues.dev.entitled.cpu", "3", "2")),
        ({"queues": {"root/eng": {"allocated": {"cpu": 7}}}}, ("queues.root/eng.allocated.cpu", "7", "8")),
        ({"queues": {"prd": {}}}, ("queues.prd", "a queue", "no such queue, did you mean 'prod'?")),
        ({"evicted": ["default/a-t-0"]}, ("evicted.default/a-t-0", "evicted", "nothing")),
        ({"pipelined": {"default/a": ["n1"]}}, ("pipelined.default/a", "on n1", "nothing")),
        ({"errors": [{"object": "Queue/x"}]}, ("errors[0].Queue/x", "refused", "let in")),
        (
            {"errors": [{"object": "Queue/x", "contains": "exceeds"}]},
            ("errors[0].Queue/x", "refused, with 'exceeds'", "let in"),
        ),
    ],
)
def test_unmet_expectations_are_named(expect, difference):
    assert found(expect) == [difference]


def test_binds_are_compared_as_a_whole():
    binds = {f"default/a-t-{i}": "n1" for i in range(6)} | {f"default/b-t-{i}": "n1" for i in range(2)}
    assert found({"binds": binds}) == []
    assert found({"binds": binds | {"default/b-t-1": "n2", "default/b-t-7": "n1"}}) == [
        ("binds.default/b-t-1", "n2", "n1"),
        ("binds.default/b-t-7", "n1", "nothing"),
    ]
    del binds["default/a-t-0"]
    assert found({"binds": binds}) == [("binds.default/a-t-0", "nothing", "n1")]


def test_an_error_is_found_by_its_object_and_what_it_says():
    event = {"cycle": 2, "apply": queue("x", parent="nope")}
    assert found({"errors": [{"object": "Queue/x", "contains": "Not found: 'nope'"}]}, events=[event]) == []
    ((where, _, actual),) = found({"errors": [{"object": "Queue/x", "contains": "exceeds"}]}, events=[event])
    assert where == "errors[0].Queue/x"
    assert "Not found: 'nope'" in actual


@pytest.mark.parametrize(
    ("expect", "tolerance", "holds"),
    [
        # 6 run: off by one task, or by two.
        ({"jobs": {"default/a": {"running": 5}}}, {"tasks": 1}, True),
        ({"jobs": {"default/a": {"running": 4}}}, {"tasks": 1}, False),
        # An amount may be off by a task of the node, which is 1 cpu.
        ({"queues": {"prod": {"allocated": {"cpu": 5}}}}, {"tasks": 1}, True),
        ({"queues": {"prod": {"allocated": {"cpu": "4999m"}}}}, {"tasks": 1}, False),
        # The share is .75.
        ({"queues": {"prod": {"share": 0.74}}}, {"share": 0.02}, True),
        ({"queues": {"prod": {"share": 0.72}}}, {"share": 0.02}, False),
        # Entitled to 6 of 8 cpu: 2 % of 8 cpu are 160m, and 1m for rounding down the target of its one job.
        ({"queues": {"prod": {"entitled": {"cpu": "5840m"}}}}, {"share": 0.02}, True),
        ({"queues": {"prod": {"entitled": {"cpu": "5838m"}}}}, {"share": 0.02}, False),
    ],
)
def test_figures_may_be_off_by_the_tolerance(expect, tolerance, holds):
    assert (found(expect | {"tolerance": tolerance}) == []) is holds


def test_means_are_compared_like_counts():
    churn = {"seed": 1, "completions": 20}
    assert found({"jobs": {"default/a": {"running": 6, "allocated": {"cpu": 6}}}}, churn=churn) == []
    assert found({"jobs": {"default/a": {"running": 5.5, "allocated": {"cpu": 5}}}}, churn=churn) == [
        ("jobs.default/a.running", "5.5", "6"),
        ("jobs.default/a.allocated.cpu", "5", "6"),
    ]
