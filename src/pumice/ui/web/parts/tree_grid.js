/**
 * The tree of queues as a grid that folds and scrolls: for the cluster as it is, and as it was.
 *
 * Keys: up and down move, right opens and left folds (or goes to the parent), Enter opens the queue's page.
 * @module
 */

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { address, go, Link } from "../lib/router.js";
import { number, percent } from "../lib/units.js";
import { NARROW, useMedia, useWindow } from "../lib/window.js";
import { barLabel, barShares, ShareBar, scaled, shareText } from "./share_bar.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */
/** @typedef {import("../lib/queue_order.js").TreeLine} TreeLine */

const ROW = 36;
const NARROW_ROW = 58;
const HEAD = 37;
const PAGE = 10;

/**
 * @param {QueueRow} row
 * @returns {string}
 */
export function queueAddress(row) {
  return address(["queues", row.object ? row.name : row.path]);
}

/**
 * @param {{
 *   lines: TreeLine[], capacity: import("../lib/contract.js").Amounts, measure: string, label: string,
 *   fold: (path: string, open: boolean) => void
 * }} props
 */
export function TreeGrid({ lines, capacity, measure, label, fold }) {
  const narrow = useMedia(NARROW);
  const rowHeight = narrow ? NARROW_ROW : ROW;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { first, end } = useWindow(box, lines.length, rowHeight);
  const [active, setActive] = useState(/** @type {string | null} */ (null));
  const focusNext = useRef(/** @type {string | null} */ (null));
  const found = lines.findIndex((line) => line.row.path === active);
  const at = Math.max(0, found);

  useEffect(() => {
    if (focusNext.current === null) return;
    /** @type {HTMLElement | null | undefined} */
    const row = box.current?.querySelector('[role="row"][tabindex="0"]');
    if (row?.dataset.path !== focusNext.current) return; // not rendered yet: the scroll brings it into the window
    focusNext.current = null;
    row.focus({ preventScroll: true });
  });

  const move = (/** @type {number} */ to) => {
    const target = Math.max(0, Math.min(lines.length - 1, to));
    const element = box.current;
    if (!element || !lines[target]) return;
    const top = target * rowHeight;
    const room = element.clientHeight - HEAD;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + room) element.scrollTop = top + rowHeight - room;
    focusNext.current = lines[target].row.path;
    setActive(focusNext.current);
  };

  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const line = lines[at];
    if (!line || /** @type {HTMLElement} */ (event.target).getAttribute("role") !== "row") return;
    if (!handleKey(event.key, line)) return;
    event.preventDefault();
  };

  /**
   * @param {string} key
   * @param {TreeLine} line
   * @returns {boolean} whether the key means something here
   */
  const handleKey = (key, line) => {
    const { row, hasChildren, open } = line;
    if (key === "ArrowDown") move(at + 1);
    else if (key === "ArrowUp") move(at - 1);
    else if (key === "PageDown") move(at + PAGE);
    else if (key === "PageUp") move(at - PAGE);
    else if (key === "Home") move(0);
    else if (key === "End") move(lines.length - 1);
    else if (key === "Enter") go(queueAddress(row));
    else if (key === "ArrowRight" && hasChildren) open ? move(at + 1) : fold(row.path, true);
    else if (key === "ArrowLeft" && hasChildren && open) fold(row.path, false);
    else if (key === "ArrowLeft") move(lines.findIndex((other) => other.row.path === row.parent));
    else return false;
    return true;
  };

  return html`<div class="tree" ref=${box} role="treegrid" aria-label=${label} aria-rowcount=${lines.length + 1}
    style=${{ flexBasis: `${lines.length * rowHeight + HEAD + 2}px` }}
  >
    <div class="tree-head" role="rowgroup">
      <div class="tree-row" role="row" aria-rowindex="1">
        <span role="columnheader"><${Word} is="queue" /></span>
        <span role="columnheader" class="num c-weight"><${Word} is="weight" /></span>
        <span role="columnheader" class="c-bar">
          <${Word} is="share">${measure ? "Part of the cluster" : "Share of the cluster"}<//>
        </span>
        <span role="columnheader" class="num"><${Word} is="used" /></span>
        <span role="columnheader" class="num c-entitled"><${Word} is="entitled" /></span>
        <span role="columnheader" class="num c-jobs">Jobs</span>
        <span role="columnheader" class="num c-waiting"><${Word} is="waiting" /></span>
      </div>
    </div>
    <div class="tree-body" role="rowgroup" onKeyDown=${onKeyDown}>
      <div role="presentation" style=${{ height: `${first * rowHeight}px` }}></div>
      ${lines.slice(first, end).map(
        (line, offset) => html`<${TreeRow}
          key=${line.row.path}
          line=${line}
          index=${first + offset}
          active=${first + offset === at}
          capacity=${capacity}
          measure=${measure}
          narrow=${narrow}
          fold=${fold}
          focus=${setActive}
        />`,
      )}
      <div role="presentation" style=${{ height: `${(lines.length - end) * rowHeight}px` }}></div>
    </div>
  </div>`;
}

/**
 * @param {{
 *   line: TreeLine, index: number, active: boolean, capacity: import("../lib/contract.js").Amounts, measure: string,
 *   narrow: boolean, fold: (path: string, open: boolean) => void, focus: (path: string) => void
 * }} props
 */
function TreeRow({ line, index, active, capacity, measure, narrow, fold, focus }) {
  const { row, hasChildren, open } = line;
  const shares = barShares(row, capacity, measure);
  const shown = line.scale === 1 ? shares : scaled(shares, line.scale);
  const toggle = (/** @type {Event} */ event) => {
    event.stopPropagation();
    fold(row.path, !open);
  };
  const jobs = row.jobs.running + row.jobs.inqueue + row.jobs.pending + row.jobs.unknown;
  const part = row.part === null || row.parent === null ? "" : ` ${percent(row.part)}`;
  return html`<div
    class="tree-row"
    role="row"
    aria-rowindex=${index + 2}
    aria-level=${row.depth + 1}
    aria-expanded=${hasChildren ? String(open) : undefined}
    tabindex=${active ? 0 : -1}
    onFocus=${() => focus(row.path)}
    data-path=${row.path}
  >
    <span role="gridcell" class="c-name" style=${{ "--depth": String(narrow ? Math.min(row.depth, 8) : row.depth) }}>
      ${
        hasChildren
          ? html`<button
              type="button"
              class="fold"
              tabindex="-1"
              aria-label=${`${open ? "Fold" : "Open"} ${row.name}`}
              onClick=${toggle}
            >
              <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
                <path d=${open ? "M1 3l4 4 4-4" : "M3 1l4 4-4 4"} />
              </svg>
            </button>`
          : html`<span class="fold"></span>`
      }
      <${Link} to=${queueAddress(row)} class="name" tabindex="-1" title=${row.path}>${row.name}<//>
      <${QueueState} row=${row} />
    </span>
    <span role="gridcell" class="num c-weight" title=${row.part === null ? undefined : `${percent(row.part)} of its parent`}>
      ${row.weight === null ? "–" : number(row.weight)}<small>${part}</small>
    </span>
    <span role="gridcell" class="c-bar"><${ShareBar} shares=${shown} label=${barLabel(row, shares)} /></span>
    <span role="gridcell" class="num c-used">${shareText(row, measure, "used", shares.used)}</span>
    <span role="gridcell" class="num c-entitled"
      >${shares.entitled === null ? "–" : shareText(row, measure, "entitled", shares.entitled)}</span
    >
    <span role="gridcell" class="num c-jobs">${number(jobs)}</span>
    <span role="gridcell" class="num c-waiting">
      ${row.tasks.waiting ? number(row.tasks.waiting) : html`<span class="quiet">0</span>`}
    </span>
  </div>`;
}

/** @param {{row: QueueRow}} props what is out of the ordinary about a queue, as badges */
export function QueueState({ row }) {
  const message = row.conditions.map((condition) => `${condition.type}: ${condition.message}`).join("\n");
  return html`${row.state && row.state !== "Open" && html`<span class="badge warn">${row.state}</span>`}
  ${row.placed === false && html`<span class="badge warn">no place in the tree</span>`}
  ${message && html`<span class="badge warn" title=${message} aria-label=${message}>!</span>`}
  ${
    Object.keys(row.guarantee).length > 0 &&
    html`<span class="badge" title="Some capacity is kept free for this queue">guarantee</span>`
  }
  ${Object.keys(row.limit).length > 0 && html`<span class="badge" title="This queue may not hold more">limit</span>`}`;
}
