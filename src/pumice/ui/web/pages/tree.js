/**
 * Tree: all queues, with what they use, borrow, lend and are owed.
 * @module
 */

import { html, useMemo } from "../lib/html.js";
import { useTree } from "../lib/live.js";
import { SORTS, treeLines } from "../lib/queue_order.js";
import { querySetter, setQuery } from "../lib/router.js";
import { counted, resources } from "../lib/units.js";
import { Missing, Search, Select } from "../parts/controls.js";
import { BarLegend, barShares, extent } from "../parts/share_bar.js";
import { TreeGrid } from "../parts/tree_grid.js";

/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */

/** @param {{query: URLSearchParams}} props */
export function TreePage({ query }) {
  const tree = useTree();
  if (!tree) return html`<${Missing} document="tree" what="the queues" />`;
  return html`<section class="page fill" aria-label="Tree of queues">
    <h1 class="sr-only">Queues</h1>
    <${TreeView} tree=${tree} query=${query} label="Queues of the cluster" />
  </section>`;
}

/**
 * The controls, the legend and the grid over one tree document.
 * @param {{tree: import("../lib/contract.js").TreeDocument, query: URLSearchParams, label: string}} props
 */
export function TreeView({ tree, query, label }) {
  const sort = query.get("sort") ?? "name";
  const text = query.get("text") ?? "";
  const measure = query.get("by") ?? "";
  const folded = query.getAll("closed").join("\n");
  const closed = useMemo(() => new Set(folded ? folded.split("\n") : []), [folded]);
  const zoomed = query.get("scale") === "level";
  const lines = useMemo(() => {
    const { capacity } = tree.cluster;
    const largest = (/** @type {QueueRow[]} */ rows) =>
      rows.reduce((most, row) => Math.max(most, extent(barShares(row, capacity, measure))), 0);
    return treeLines(tree.queues, { sort, closed, text }, zoomed ? largest : null);
  }, [tree, sort, closed, text, zoomed, measure]);
  const fold = (/** @type {string} */ path, /** @type {boolean} */ open) => {
    const next = new Set(closed);
    if (open) next.delete(path);
    else next.add(path);
    setClosed(next);
  };
  const parents = tree.queues.filter((row) => !row.leaf && row.parent !== null).map((row) => row.path);
  return html`<div class="toolbar" role="search">
      <${Search} label="Find a queue" value=${text} set=${querySetter("text")} />
      <${Select}
        label="Show"
        value=${measure}
        options=${[["", "Largest share"], ...resources().map((resource) => [resource.name, resource.label])]}
        set=${querySetter("by")}
      />
      <${Select}
        label="Sort by"
        value=${sort}
        options=${Object.entries(SORTS).map(([name, { label }]) => [name, label])}
        set=${(/** @type {string} */ value) => setQuery({ sort: value === "name" ? "" : value })}
      />
      <${Select}
        label="Bars"
        value=${zoomed ? "level" : ""}
        options=${[["", "of the cluster"], ["level", "enlarged per level"]]}
        set=${querySetter("scale")}
      />
      <span class="buttons">
        <button type="button" onClick=${() => setClosed(new Set(parents))}>Fold all</button>
        <button type="button" onClick=${() => setClosed(new Set())}>Open all</button>
      </span>
      <span class="quiet count">${counted(lines.length, "queue")}</span>
    </div>
    <${BarLegend} />
    ${tree.notes.length > 0 && html`<${Notes} notes=${tree.notes} />`}
    ${
      lines.length
        ? html`<${TreeGrid} lines=${lines} capacity=${tree.cluster.capacity} measure=${measure} label=${label} fold=${fold} />`
        : html`<p class="empty">No queue has “${text}” in its name.</p>`
    }`;
}

/** @param {Set<string>} paths */
function setClosed(paths) {
  setQuery({ closed: [...paths] });
}

/** @param {{notes: string[]}} props */
function Notes({ notes }) {
  return html`<details class="notes">
    <summary>${counted(notes.length, "queue is", "queues are")} not as written</summary>
    <ul>
      ${notes.map((note) => html`<li>${note}</li>`)}
    </ul>
  </details>`;
}
