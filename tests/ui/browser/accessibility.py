"""axe-core on a page: rules of accessibility that are serious if broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parent / "axe/axe.min.js"
GRAVE = ("serious", "critical")


def grave_findings(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """One line for each broken rule and element; of all rules, if none are named."""
    # The page's policy refuses foreign scripts, as it should; the debugger's own evaluation is not subject to it.
    page.evaluate(AXE.read_text() + "; void 0")
    options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:200]}: {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]
