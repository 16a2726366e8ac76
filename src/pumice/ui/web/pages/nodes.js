/**
 * Nodes: a map with one square for each node, filled as far as the node is used.
 * @module
 */

import { html, useMemo } from "../lib/html.js";
import { useNodes } from "../lib/live.js";
import { address, go, querySetter } from "../lib/router.js";
import { amount, counted, percent, resources } from "../lib/units.js";
import { Missing, Search, Select } from "../parts/controls.js";

/** @typedef {import("../lib/contract.js").NodeRow} NodeRow */

const FEW = 64; // up to this many, a square has room for names and numbers

/** @type {[string, string][]} */
const ORDERS = [
  ["", "Name"],
  ["most", "Fullest first"],
  ["least", "Emptiest first"],
];

/**
 * @param {NodeRow} node
 * @param {string} measure
 * @returns {number | null} null: the node offers none of it
 */
function use(node, measure) {
  if (!measure) return node.share;
  const offered = node.offered[measure] ?? 0;
  return offered > 0 ? (node.used[measure] ?? 0) / offered : null;
}

/** @param {{query: URLSearchParams}} props */
export function NodesPage({ query }) {
  const nodes = useNodes();
  const measure = query.get("by") ?? "";
  const order = query.get("order") ?? "";
  const text = (query.get("text") ?? "").toLowerCase();
  const shown = useMemo(() => {
    const rows = (nodes?.nodes ?? []).filter((node) => node.name.toLowerCase().includes(text));
    const sign = order === "most" ? -1 : 1;
    return order ? rows.sort((a, b) => sign * ((use(a, measure) ?? -1) - (use(b, measure) ?? -1))) : rows;
  }, [nodes, measure, order, text]);
  if (!nodes) return html`<${Missing} document="nodes" what="the nodes" />`;
  const out = shown.filter((node) => node.state !== "Ready" || !node.schedulable).length;
  return html`<section class="page" aria-label="Nodes">
    <h1 class="sr-only">Nodes</h1>
    <div class="toolbar" role="search">
      <${Search} label="Find a node" value=${query.get("text") ?? ""} set=${querySetter("text")} />
      <${Select}
        label="Filled by"
        value=${measure}
        options=${[["", "Fullest resource"], ...resources().map((resource) => [resource.name, resource.label])]}
        set=${querySetter("by")}
      />
      <${Select} label="Sort by" value=${order} options=${ORDERS} set=${querySetter("order")} />
      <span class="quiet count">${counted(shown.length, "node")}${out > 0 && `, ${out} not in use`}</span>
    </div>
    ${shown.length > FEW && html`<${MapLegend} />`}
    ${
      shown.length
        ? html`<${NodeMap} nodes=${shown} measure=${measure} />`
        : html`<p class="empty">No node matches.</p>`
    }
  </section>`;
}

function MapLegend() {
  return html`<ul class="legend" aria-label="Legend">
    ${[0, 0.25, 0.5, 0.75, 1].map(
      (share) =>
        html`<li><span class="square sample" style=${{ "--use": percent(share) }}></span>${percent(share)}</li>`,
    )}
    <li><span class="square sample cordoned"></span>cordoned</li>
    <li><span class="square sample lost"></span>not ready</li>
  </ul>`;
}

/**
 * Arrow keys move between squares, so that the map is one stop of the Tab key.
 * @param {{nodes: NodeRow[], measure: string}} props
 */
function NodeMap({ nodes, measure }) {
  const large = nodes.length <= FEW;
  // A row that did not change gives the same element, which the renderer skips: a thousand squares, a few changes.
  const made = useMemo(
    () => /** @type {WeakMap<NodeRow, import("../lib/html.js").VNode>} */ (new WeakMap()),
    [measure, large],
  );
  const square = (/** @type {NodeRow} */ node, /** @type {boolean} */ first) => {
    const held = made.get(node);
    if (held && held.props.first === first) return held;
    const fresh = html`<${Square} key=${node.name} node=${node} measure=${measure} first=${first} large=${large} />`;
    made.set(node, fresh);
    return fresh;
  };
  const onKeyDown = (/** @type {any} */ event) => {
    const squares = [...event.currentTarget.children].map((item) => item.firstElementChild);
    const at = squares.indexOf(event.target);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(squares), ArrowUp: -columns(squares) }[
      /** @type {string} */ (event.key)
    ];
    if (at < 0 || step === undefined) return;
    event.preventDefault();
    const next = squares[Math.max(0, Math.min(squares.length - 1, at + step))];
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };
  const onClick = (/** @type {any} */ event) => {
    const link = event.target.closest("a");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  };
  return html`<ul class=${large ? "map large" : "map"} aria-label="Nodes by use" onKeyDown=${onKeyDown} onClick=${onClick}>
    ${nodes.map((node, index) => square(node, index === 0))}
  </ul>`;
}

/**
 * @param {HTMLElement[]} squares
 * @returns {number} how many stand in the first row
 */
function columns(squares) {
  const top = squares[0]?.offsetTop;
  const end = squares.findIndex((square) => square.offsetTop !== top);
  return end < 0 ? squares.length : end;
}

/** @param {{node: NodeRow, measure: string, first: boolean, large: boolean}} props */
function Square({ node, measure, first, large }) {
  const share = use(node, measure);
  const state = node.state !== "Ready" ? "lost" : node.schedulable ? "" : "cordoned";
  const label = describe(node, share, measure);
  return html`<li>
    <a
      class=${`square ${state} ${share !== null && share > 0.55 ? "dark" : ""}`}
      href=${address(["nodes", node.name])}
      tabindex=${first ? 0 : -1}
      style=${{ "--use": `${Math.round(Math.min(1, share ?? 0) * 100)}%` }}
      title=${label}
      aria-label=${large ? undefined : label}
    >${large && html`<${NodeFace} node=${node} share=${share} />`}</a>
  </li>`;
}

/** @param {{node: NodeRow, share: number | null}} props what a large square says, in addition to its label */
function NodeFace({ node, share }) {
  return html`<span class="square-name">${node.name}</span>
    <span class="square-use">${share === null ? "–" : percent(share)}</span>
    ${resources()
      .filter((resource) => (node.offered[resource.name] ?? 0) > 0)
      .slice(0, 4)
      .map((resource) => {
        const part = (node.used[resource.name] ?? 0) / (node.offered[resource.name] ?? 1);
        return html`<span class="square-line">
          <span>${resource.label}</span>
          <svg class="mini-bar" width="100%" height="6" role="img" aria-label=${percent(part)}>
            <rect class="bar-ground" width="100%" height="6" />
            <rect class="bar-used" width=${`${Math.min(100, part * 100)}%`} height="6" />
          </svg>
        </span>`;
      })}
    <span class="square-tasks">${counted(node.tasks, "task")}</span>`;
}

/**
 * @param {NodeRow} node
 * @param {number | null} share
 * @param {string} measure
 * @returns {string}
 */
function describe(node, share, measure) {
  const parts = [`${node.name}: ${share === null ? "none of it" : `${percent(share)} used`}`];
  for (const resource of measure ? [measure] : Object.keys(node.offered).filter((name) => name !== "pods"))
    parts.push(`${amount(resource, node.used[resource] ?? 0)} of ${amount(resource, node.offered[resource] ?? 0)}`);
  parts.push(counted(node.tasks, "task"));
  if (node.state !== "Ready") parts.push("not ready");
  if (!node.schedulable) parts.push("cordoned");
  return parts.join(", ");
}
