/**
 * Who a queue borrows from and lends to: bands from the lenders on the left through the queue to the borrowers on the
 * right, as wide as the amounts. The same as a list for those who do not see it.
 * @module
 */

import { html } from "../lib/html.js";
import { address, Link } from "../lib/router.js";
import { amount } from "../lib/units.js";

/** @typedef {import("../lib/contract.js").Flow} Flow */

const WIDTH = 640;
const MOST = 6; // bands on a side; the smaller ones are drawn together
const SCALE = 120; // height of the largest side
const GAP = 22;
const BOX = { left: 270, right: 370 };

/**
 * @param {Flow[]} flows largest first
 * @returns {Flow[]}
 */
function shortened(flows) {
  if (flows.length <= MOST) return flows;
  const rest = flows.slice(MOST - 1);
  const sum = rest.reduce((total, flow) => total + flow.amount, 0);
  return [...flows.slice(0, MOST - 1), { path: "", name: `${rest.length} others`, amount: sum }];
}

/**
 * @param {{name: string, resource: string, borrowsFrom: Flow[], lendsTo: Flow[]}} props
 */
export function FlowPicture({ name, resource, borrowsFrom, lendsTo }) {
  const left = shortened(borrowsFrom);
  const right = shortened(lendsTo);
  if (!left.length && !right.length) return html`<p class="quiet">Nothing is borrowed or lent at the moment.</p>`;
  const sum = (/** @type {Flow[]} */ flows) => flows.reduce((total, flow) => total + flow.amount, 0);
  const unit = SCALE / Math.max(sum(left), sum(right));
  const rows = Math.max(left.length, right.length);
  const height = Math.max(SCALE + 16, rows * GAP + SCALE);
  return html`<div class="flow">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} aria-hidden="true">
      ${bands(left, unit, height, "left", resource)} ${bands(right, unit, height, "right", resource)}
      <rect class="flow-box" x=${BOX.left} y=${8} width=${BOX.right - BOX.left} height=${height - 16} rx="6" />
      <text class="flow-name" x=${WIDTH / 2} y=${height / 2} text-anchor="middle" dominant-baseline="middle">
        ${clipped(name, 14)}
      </text>
    </svg>
    <div class="columns flow-lists">
      <${FlowList} title="Borrows from" flows=${borrowsFrom} resource=${resource} />
      <${FlowList} title="Lends to" flows=${lendsTo} resource=${resource} />
    </div>
  </div>`;
}

/**
 * @param {string} text
 * @param {number} length
 * @returns {string}
 */
function clipped(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/**
 * @param {Flow[]} flows
 * @param {number} unit
 * @param {number} height
 * @param {"left" | "right"} side
 * @param {string} resource
 */
function bands(flows, unit, height, side, resource) {
  const total = flows.reduce((sum, flow) => sum + flow.amount * unit, 0);
  let outer = (height - total - (flows.length - 1) * GAP) / 2;
  let inner = (height - total) / 2;
  const [near, far] = side === "left" ? [BOX.left, 150] : [BOX.right, WIDTH - 150];
  const middle = (near + far) / 2;
  return flows.map((flow) => {
    const size = Math.max(1.5, flow.amount * unit);
    const d =
      `M${far} ${outer} C${middle} ${outer} ${middle} ${inner} ${near} ${inner} ` +
      `V${inner + size} C${middle} ${inner + size} ${middle} ${outer + size} ${far} ${outer + size} Z`;
    const label = side === "left" ? { x: far - 8, anchor: "end" } : { x: far + 8, anchor: "start" };
    const y = outer + size / 2;
    outer += size + GAP;
    inner += size;
    return html`<g>
      <path class=${side === "left" ? "flow-borrowed" : "flow-lent"} d=${d} />
      ${side === "left" ? html`<path d=${d} fill="url(#hatch)" opacity="0.5" />` : html`<path d=${d} fill="url(#dots)" />`}
      <text x=${label.x} y=${y - 2} text-anchor=${label.anchor}>${clipped(flow.name, 20)}</text>
      <text class="flow-amount" x=${label.x} y=${y + 12} text-anchor=${label.anchor}>
        ${amount(resource, flow.amount)}
      </text>
    </g>`;
  });
}

/** @param {{title: string, flows: Flow[], resource: string}} props */
function FlowList({ title, flows, resource }) {
  return html`<div>
    <h3>${title}</h3>
    ${
      flows.length
        ? html`<ul>
            ${flows.map(
              (flow) =>
                html`<li>
                  <${Link} to=${address(["queues", flow.path])}>${flow.name}<//>${" "}
                  <span class="quiet">${amount(resource, flow.amount)}</span>
                </li>`,
            )}
          </ul>`
        : html`<p class="quiet">no queue</p>`
    }
  </div>`;
}
