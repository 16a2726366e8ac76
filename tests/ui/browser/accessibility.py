"""axe-core on a page: rules of accessibility that are serious if broken."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parent / "axe/axe.min.js"
GRAVE = ("serious", "critical")


def grave_findings(page: Page) -> list[str]:
    """One line for each broken rule and element."""
    # The page's policy refuses foreign scripts, as it should; the debugger's own evaluation is not subject to it.
    page.evaluate(AXE.read_text() + "; void 0")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:200]}: {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]
