"""The numbers that a page shows, read in one moment, to be compared with ``recount``."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

_READ = r"""() => {
  const text = (node) => (node.innerText ?? node.textContent).replace(/\s+/g, " ").trim();
  const cell = (node) => node.querySelector("[aria-label]")?.getAttribute("aria-label") ?? text(node);
  const line = (row) => [...row.children].map((node) => node.matches(".bar") ? cell(node) : text(node));
  const tables = {};
  for (const region of document.querySelectorAll("main [role=region]"))
    tables[region.getAttribute("aria-label")] = [...region.querySelectorAll("tbody tr")].map(line);
  const columns = ["c-weight", "c-bar", "c-used", "c-entitled", "c-jobs", "c-waiting"];
  return {
    cluster: [...document.querySelectorAll(".cluster-line > span")].map(text),
    tree: [...document.querySelectorAll(".tree-body [role=row]")].map((row) =>
      [row.dataset.path, ...columns.map((name) => cell(row.querySelector(`.${name}`)))]),
    bar: document.querySelector(".big-bar svg")?.getAttribute("aria-label"),
    facts: [...document.querySelectorAll(".facts dd")].map(text),
    bands: [...document.querySelectorAll(".flow svg g")].map((band) => [...band.querySelectorAll("text")].map(text)),
    flows: [...document.querySelectorAll(".flow-lists > div")].map((one) => [...one.querySelectorAll("li")].map(text)),
    tables,
  };
}"""


def shown_tree(page: Page) -> dict[str, Any]:
    """The cluster line and the rows of the tree."""
    found = page.evaluate(_READ)
    return {"cluster": found["cluster"], "tree": found["tree"]}


def shown_queue(page: Page) -> dict[str, Any]:
    """The numbers on the page of a queue, keyed as ``Recount.queue_page`` has them."""
    found = page.evaluate(_READ)
    tables = found["tables"]
    with_queue = "Queues below" in tables
    jobs = [[*row[: 7 if with_queue else 6]] for row in tables.get("Jobs", [])]
    phase = 3 if with_queue else 2
    return {
        "bar": found["bar"],
        "facts": found["facts"],
        "flow bands": found["bands"],
        "flow lists": found["flows"],
        "Amounts by resource": tables["Amounts by resource"],
        "Queues below": [_without_badges(row) for row in tables.get("Queues below", [])],
        "Queues beside it": [_without_badges(row) for row in tables.get("Queues beside it", [])],
        "Jobs": sorted([*row[:phase], row[phase].rpartition(" ")[2], *row[phase + 1 :]] for row in jobs),
        **{title: sorted([row[0], *row[2:]] for row in tables.get(title, [])) for title in ("Users", "Namespaces")},
    }


def _without_badges(row: list[str]) -> list[str]:
    return [row[0].partition(" ")[0], *row[1:]]
