"""The jobs of all runs as a Parquet file, for notebooks and databases. Needs pyarrow, which is an optional extra."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pumice.input_errors import BadInput, Problem

_NUMBERS = ("submit", "start", "end", "wait", "lost")
_COUNTS = ("repeat", "tasks", "evictions")


def require_pyarrow() -> None:
    """Refuse before anything runs; raises BadInput."""
    if find_spec("pyarrow") is None:
        message = "needs pyarrow, which is not installed: pip install 'pumice[parquet]'"
        raise BadInput([Problem("--parquet", "", "", message)])


def write_parquet(jobs: Path, target: Path) -> None:
    """Convert the CSV of jobs; times that are not known become null."""
    from pyarrow import csv, float64, int64, parquet, string  # noqa: PLC0415 - optional, and large

    types = dict.fromkeys(_NUMBERS, float64()) | dict.fromkeys(_COUNTS, int64())
    names = jobs.open(encoding="utf-8").readline().strip().split(",")
    types |= {name: string() for name in names if name not in types}
    table = csv.read_csv(jobs, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False))
    parquet.write_table(table, target)
