"""``pumice simulate --log``: the history in a decision log, under its own configuration and under others."""

from __future__ import annotations

from pathlib import Path

from pumice.cli.simulate.simulate_command import print_report, refuse_same_names, run_plans
from pumice.simulate.policies import read_policy
from pumice.simulate.recorded.log_plan import LogPlan, load_log, log_inputs, read_log_policies
from pumice.simulate.report.report_files import report_folder
from pumice.simulate.report.values import report_values


def simulate_log(
    log: Path,
    policies: tuple[str, ...],
    *,
    until: int | None,
    grace: int,
    out: Path | None,
    parquet: bool,
    output: str,
) -> None:
    """Run a log under each policy and print the figures; raises BadInput."""
    chosen = read_log_policies(policies, read_policy)
    refuse_same_names(chosen)
    found = load_log(log)
    options = {"graceSeconds": grace / 1e6, "untilSeconds": None if until is None else until / 1e6}
    jobs = found.history.jobs
    with report_folder(out, parquet=parquet) as folder:
        plans = [
            LogPlan(
                log,
                policy,
                until,
                grace,
                None if folder.jobs_folder is None else str(folder.jobs_folder / f"{number}-0.csv"),
            )
            for number, policy in enumerate(chosen)
        ]
        runs = run_plans(plans, jobs * len(plans))
        values = report_values(runs, log_inputs(log, found, chosen), options)
        folder.write(values, runs, plans)
    print_report(values, output, out, folder.names)
