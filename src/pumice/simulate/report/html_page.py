"""report.html: the plots and tables of a simulation in one file, which needs no network.

uPlot is that of the web page. The data is JSON in the page; a less-than sign in it is escaped, so that no name of a
queue or file can end the element or add another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

_EXPORT = "export { uPlot as default };"


def html_page(values: dict[str, Any], series: Sequence[dict[str, Any]]) -> str:
    """The page, with the figures of ``report_values`` and ``series_values``."""
    web, vendor = files("pumice.simulate") / "report" / "web", files("pumice.ui") / "web" / "vendor"
    plot = (vendor / "uplot.js").read_text(encoding="utf-8")
    assert plot.rstrip().endswith(_EXPORT), "uPlot is a module with one export"
    data = {"report": values, "series": series}
    parts = {
        "/*uplot.css*/": (vendor / "uplot.css").read_text(encoding="utf-8"),
        "/*report.css*/": (web / "report.css").read_text(encoding="utf-8"),
        "/*data*/": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "/*uplot.js*/": plot.rstrip().removesuffix(_EXPORT),
        "/*report.js*/": (web / "report.js").read_text(encoding="utf-8"),
    }
    page = (web / "report.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, _, after = page.partition(mark)
        page = before + part + after
    return page
