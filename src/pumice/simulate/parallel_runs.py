"""Several runs at once, each in a process of its own, with their progress reported to one place."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic

from pumice.input_errors import BadInput
from pumice.simulate.figures import RunFigures
from pumice.simulate.recorded.log_plan import LogPlan
from pumice.simulate.simulation_run import RunPlan

REPORT_SECONDS = 0.25

AnyPlan = RunPlan | LogPlan
Watch = Callable[[int], None]
"""Gets the number of jobs that have ended in all runs so far."""


class FailedRunError(RuntimeError):
    """A process ended without a result."""


def run_all(plans: Sequence[AnyPlan], watch: Watch, workers: int | None = None) -> list[RunFigures]:
    """The figures of all plans, in their order. One plan runs in this process."""
    if len(plans) == 1:
        return [_watched_run(plans[0], watch)]
    return _Pool(plans, watch, workers or os.cpu_count() or 1).run()


class _Pool:
    def __init__(self, plans: Sequence[AnyPlan], watch: Watch, workers: int) -> None:
        self._plans = plans
        self._watch = watch
        self._workers = workers
        self._ended = [0] * len(plans)
        self._figures: list[RunFigures | None] = [None] * len(plans)
        self._running: dict[Connection, tuple[int, SpawnProcess]] = {}

    def run(self) -> list[RunFigures]:
        waiting = list(range(len(self._plans)))
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._workers:
                    self._start(waiting.pop(0))
                for ready in wait(list(self._running)):
                    assert isinstance(ready, Connection)
                    self._receive(ready)
        finally:
            for _, process in self._running.values():
                process.terminate()
                process.join()
        return [figures for figures in self._figures if figures is not None]

    def _start(self, number: int) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(self._plans[number], theirs), daemon=True)
        process.start()
        theirs.close()
        self._running[ours] = number, process

    def _receive(self, connection: Connection) -> None:
        number, process = self._running[connection]
        try:
            message = connection.recv()
        except EOFError:
            process.join()
            plan = self._plans[number]
            raise FailedRunError(
                f"the process of policy {plan.policy.name} ended without a result (exit status {process.exitcode})"
            ) from None
        if isinstance(message, int):
            self._ended[number] = message
            self._watch(sum(self._ended))
            return
        if isinstance(message, list):
            raise BadInput(message)
        if isinstance(message, str):
            raise FailedRunError(message)
        self._figures[number] = message
        connection.close()
        process.join()
        del self._running[connection]


def _child(plan: AnyPlan, parent: Connection) -> None:
    """A process: run a plan, and send numbers of ended jobs, then the figures or an error."""
    try:
        parent.send(_watched_run(plan, parent.send))
    except BadInput as error:
        parent.send(list(error.problems))
    except KeyboardInterrupt:
        return
    except Exception:
        parent.send(f"policy {plan.policy.name}: {traceback.format_exc(limit=-1).strip().splitlines()[-1]}")


class _Throttled:
    """Reports at most a few times a second, and at the end."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report
        self._last = monotonic()
        self._ended = 0

    def __call__(self, ended: int, now: int) -> None:
        self._ended = ended
        if monotonic() - self._last >= REPORT_SECONDS:
            self._last = monotonic()
            self._report(ended)

    def finish(self) -> None:
        self._report(self._ended)


def _watched_run(plan: AnyPlan, report: Callable[[int], None]) -> RunFigures:
    progress = _Throttled(report)
    figures = plan.run(progress)
    progress.finish()
    return figures
