"""The folder of a report: everything is written elsewhere first and moved there at the end, all or nothing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pumice.input_errors import BadInput, Problem
from pumice.simulate.figures import RunFigures
from pumice.simulate.parallel_runs import AnyPlan
from pumice.simulate.report.html_page import html_page
from pumice.simulate.report.jobs_parquet import require_pyarrow, write_parquet
from pumice.simulate.report.series import series_values
from pumice.simulate.simulation_run import JOB_COLUMNS


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """Where runs write their jobs, and where the report goes; both None without ``--out``."""

    target: Path | None = None
    staging: Path | None = None
    parquet: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The files of the report."""
        return ("report.html", "report.json", "jobs.csv", *(("jobs.parquet",) if self.parquet else ()))

    @property
    def jobs_folder(self) -> Path | None:
        """Where each run writes the file of its jobs."""
        return None if self.staging is None else self.staging / "jobs"

    def write(self, values: dict[str, Any], runs: Sequence[RunFigures], plans: Sequence[AnyPlan]) -> None:
        """Write the report and move it to its place."""
        if self.staging is None or self.target is None:
            return
        series = series_values(runs)
        text = json.dumps({**values, "series": series}, indent=2, sort_keys=True, ensure_ascii=False)
        (self.staging / "report.json").write_text(text + "\n", encoding="utf-8")
        (self.staging / "report.html").write_text(html_page(values, series), encoding="utf-8")
        with (self.staging / "jobs.csv").open("w", encoding="utf-8") as together:
            together.write(",".join(JOB_COLUMNS) + "\n")
            for plan in plans:
                assert plan.jobs_file is not None
                with Path(plan.jobs_file).open(encoding="utf-8") as one:
                    shutil.copyfileobj(one, together)
        if self.parquet:
            write_parquet(self.staging / "jobs.csv", self.staging / "jobs.parquet")
        self.target.mkdir(exist_ok=True)
        for name in self.names:
            os.replace(self.staging / name, self.target / name)


@contextmanager
def report_folder(target: Path | None, *, parquet: bool = False) -> Iterator[ReportFolder]:
    """A folder to write to until the report is complete; nothing of it is left behind."""
    if parquet:
        require_pyarrow()
        if target is None:
            raise BadInput([Problem("--parquet", "", "", "needs --out DIR")])
    if target is None:
        yield ReportFolder()
        return
    if target.exists() and not target.is_dir():
        raise BadInput([Problem("--out", "", "", f"{target} is a file; name a folder")])
    # Files can be moved within a file system only, and the folder may be the root of another one.
    beside = target if target.exists() else target.absolute().parent
    try:
        staging = Path(tempfile.mkdtemp(prefix=".pumice-simulate-", dir=beside))
    except OSError as error:
        raise BadInput([Problem("--out", "", "", f"{beside}: {error.strerror}")]) from None
    try:
        (staging / "jobs").mkdir()
        folder = ReportFolder(target, staging, parquet)
        taken = [
            Problem("--out", "", "", f"{target / name} is a folder")
            for name in folder.names
            if (target / name).is_dir()
        ]
        if taken:
            raise BadInput(taken)
        yield folder
    except OSError as error:
        raise BadInput([Problem("--out", "", "", f"{error.filename or target}: {error.strerror or error}")]) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
