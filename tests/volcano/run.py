"""Runs Volcano's end-to-end suites against Pumice and compares the result with ``differences.yaml``.

python -m tests.volcano.run [--server NAME] [--suite NAME]... [--focus REGEX] [--slow] [--together] [--work DIR]

Every suite gets a cluster of its own; two run at a time, on real nodes one. With ``--together`` they run at once on one
cluster, which is for suites whose cases leave room to others: admission, jobp and vcctl.

The run fails if a case fails that is not listed, or if a listed case passes or fails with another message. Listed cases
that wait for minutes until they fail are skipped, unless ``--slow`` asks for them; those that never end always are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.volcano.cluster import conformance_cluster
from tests.volcano.differences import Difference, Verdict, judge, read_differences, skipped_cases
from tests.volcano.servers import SERVERS
from tests.volcano.suite_run import SuiteError, run_suite
from tools.volcano_suites import SUITES, VOLCANO, folder, needed

AT_ONCE = 2
SUITE_SECONDS = 3600.0
"""How long a suite may take. Volcano's own timeouts are up to ten minutes for each wait."""
SLOW_SECONDS = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is run against which server, and where logs and reports go."""

    work: Path
    server: str = "embedded"
    focus: str = ""
    slow: bool = False


def run_one(suite: str, differences: list[Difference], options: RunOptions) -> Verdict:
    """Run a suite on a cluster of its own."""
    work = options.work / suite
    work.mkdir(parents=True, exist_ok=True)
    with conformance_cluster(SERVERS[options.server], work, folder()) as kubeconfig:
        return run_on(kubeconfig, suite, differences, options)


def run_on(kubeconfig: Path, suite: str, differences: list[Difference], options: RunOptions) -> Verdict:
    """Run a suite on a cluster that runs."""
    work = options.work / suite
    work.mkdir(parents=True, exist_ok=True)
    skip = skipped_cases(differences, slow=options.slow or bool(options.focus))
    seconds = SLOW_SECONDS if options.slow else SUITE_SECONDS
    cases = run_suite(suite, folder(), kubeconfig, work, seconds=seconds, focus=options.focus, skip=skip)
    return judge(cases, differences, complete=not options.focus)


def summary(suite: str, verdict: Verdict) -> str:
    """The numbers of a suite, and what is wrong."""
    numbers = f"{verdict.passed} passed, {verdict.differing} differ, {verdict.off} off, {len(verdict.problems)} wrong"
    return "\n".join([f"{suite}: {numbers}", *(f"  {problem}" for problem in verdict.problems), ""])


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.volcano.run", description="Run Volcano's end-to-end suites.")
    servers = "pumice up, a real kube-apiserver, or one with real nodes"
    parser.add_argument("--server", default="embedded", choices=SERVERS, help=servers)
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this suite; may be repeated")
    parser.add_argument("--focus", default="", help="only cases whose text matches this regular expression")
    parser.add_argument("--slow", action="store_true", help="run the listed cases too that wait until they fail")
    parser.add_argument("--together", action="store_true", help="run the suites at once on one cluster")
    parser.add_argument("--work", type=Path, help="folder for logs and reports [default: a temporary one]")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run the suites; 1 if a result is not the expected one."""
    arguments = _arguments(given)
    if lacking := needed():
        sys.stderr.write(f"{', '.join(lacking)} missing in {folder()}: run python -m tools.volcano_suites\n")
        return 1
    suites = arguments.suite or SUITES
    differences = read_differences(arguments.server)
    work = (arguments.work or Path(tempfile.mkdtemp(prefix="volcano-suites-"))).absolute()
    options = RunOptions(work, arguments.server, arguments.focus, arguments.slow)
    sys.stdout.write(f"Volcano {VOLCANO} against {arguments.server}; logs and reports are in {work}\n")
    options.work.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        run: Callable[[str, list[Difference], RunOptions], Verdict] = run_one
        at_once = 1 if arguments.server == "nodes" else AT_ONCE
        if arguments.together:
            cluster = conformance_cluster(SERVERS[arguments.server], work, folder())
            run, at_once = partial(run_on, stack.enter_context(cluster)), len(suites)
        pool = stack.enter_context(ThreadPoolExecutor(at_once))
        stack.callback(pool.shutdown, cancel_futures=True)  # after an interrupt no further suite begins
        runs = {suite: pool.submit(run, suite, differences.get(suite, []), options) for suite in suites}
        found = [_report(suite, run) for suite, run in runs.items()]
    return int(not all(found))


def _report(suite: str, run: Future[Verdict]) -> bool:
    """Write the numbers of a suite once it has ended; returns whether all is as expected."""
    try:
        verdict = run.result()
    except SuiteError as error:
        sys.stdout.write(f"{error}\n")
        return False
    sys.stdout.write(summary(suite, verdict))
    sys.stdout.flush()
    return not verdict.problems


if __name__ == "__main__":
    sys.exit(main())
