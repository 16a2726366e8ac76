/**
 * The bar of a queue: used, borrowed, owed and lent as parts of the cluster, with its own part and its limit as marks.
 *
 * Each kind has a pattern of its own beside its colour: used is solid, borrowed is hatched, owed is an empty frame,
 * lent is dotted, the limit is a line.
 * @module
 */

import { html } from "../lib/html.js";
import { amount, dominantShare, percent } from "../lib/units.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */
/** @typedef {import("../lib/contract.js").Amounts} Amounts */

/**
 * Parts of the whole that a bar shows.
 * @typedef {object} BarShares
 * @property {number} used
 * @property {number} borrowed
 * @property {number} owed
 * @property {number} lent
 * @property {number} own
 * @property {number | null} limit
 * @property {number | null} entitled
 */

/**
 * @param {QueueRow} row
 * @param {Amounts} capacity
 * @param {string} measure a resource, or "" for the share by the dominant resource
 * @returns {BarShares}
 */
export function barShares(row, capacity, measure) {
  const all = capacity[measure] ?? 0;
  const part = (/** @type {Amounts | null} */ amounts) => (all > 0 ? (amounts?.[measure] ?? 0) / all : 0);
  const used = measure ? part(row.used) : (row.share.used ?? 0);
  const entitled = row.entitled === null ? null : measure ? part(row.entitled) : row.share.entitled;
  const own = measure ? part(row.own) : (row.share.own ?? 0);
  const limited = measure ? row.limit[measure] : undefined;
  const limit = measure ? (limited === undefined || all === 0 ? null : limited / all) : row.share.limit;
  return {
    used,
    borrowed: measure ? part(row.borrowed) : Math.max(0, used - own),
    owed: measure ? part(row.owed) : Math.max(0, (entitled ?? used) - used),
    // By dominant resource, used and lent may be of different resources: only what lies within the own part is shown.
    lent: measure ? part(row.lent) : Math.min(dominantShare(row.lent, capacity), Math.max(0, own - used)),
    own,
    limit,
    entitled,
  };
}

/**
 * @param {BarShares} shares
 * @param {number} whole what the full width of the bar stands for
 * @returns {BarShares}
 */
export function scaled(shares, whole) {
  const over = (/** @type {number} */ share) => share / whole;
  return {
    used: over(shares.used),
    borrowed: over(shares.borrowed),
    owed: over(shares.owed),
    lent: over(shares.lent),
    own: over(shares.own),
    limit: shares.limit === null ? null : over(shares.limit),
    entitled: shares.entitled === null ? null : over(shares.entitled),
  };
}

/**
 * @param {BarShares} shares
 * @returns {number} what the bar must have room for
 */
export function extent(shares) {
  return Math.max(shares.used, shares.own, shares.entitled ?? 0, shares.used + shares.lent);
}

/** @param {number} share */
const across = (share) => `${(Math.max(0, Math.min(1, share)) * 100).toFixed(2)}%`;

/** @param {{shares: BarShares, label: string}} props */
export function ShareBar({ shares, label }) {
  const { used, borrowed, owed, lent, own, limit } = shares;
  const mine = Math.max(0, used - borrowed);
  return html`<svg class="share-bar" role="img" aria-label=${label} width="100%" height="14">
    <rect class="bar-ground" width="100%" height="14" rx="2" />
    ${lent > 0.0005 && html`<rect class="bar-lent" x=${across(used)} width=${across(lent)} height="14" fill="url(#dots)" />`}
    <rect class="bar-used" width=${across(mine)} height="14" />
    ${
      borrowed > 0.0005 &&
      html`<rect class="bar-borrowed" x=${across(mine)} width=${across(Math.min(borrowed, 1 - mine))} height="14" />
        <rect x=${across(mine)} width=${across(Math.min(borrowed, 1 - mine))} height="14" fill="url(#hatch)" />`
    }
    ${
      owed > 0.0005 &&
      html`<rect class="bar-owed" x=${across(used)} y="1" width=${across(Math.min(owed, 1 - used))} height="12" />`
    }
    ${own > 0.0005 && own < 0.9995 && html`<line class="bar-own" x1=${across(own)} x2=${across(own)} y1="0" y2="14" />`}
    ${limit !== null && limit <= 1 && html`<line class="bar-limit" x1=${across(limit)} x2=${across(limit)} y1="0" y2="14" />`}
  </svg>`;
}

/**
 * @param {QueueRow} row
 * @param {BarShares} shares
 * @returns {string} the bar in words
 */
export function barLabel(row, shares) {
  const parts = [`${row.name}: uses ${percent(shares.used)} of the cluster`];
  if (shares.entitled !== null) parts.push(`entitled to ${percent(shares.entitled)}`);
  if (shares.borrowed > 0.0005) parts.push(`${percent(shares.borrowed)} borrowed`);
  if (shares.owed > 0.0005) parts.push(`owed ${percent(shares.owed)}`);
  if (shares.lent > 0.0005) parts.push(`lends ${percent(shares.lent)}`);
  if (shares.limit !== null) parts.push(`limit ${percent(shares.limit)}`);
  return parts.join(", ");
}

/** The meaning of each pattern; every word can be asked for. */
export function BarLegend() {
  const key = (/** @type {string} */ name, /** @type {import("../lib/html.js").Children} */ mark) =>
    html`<li><svg width="18" height="12" aria-hidden="true">${mark}</svg><${Word} is=${name} /></li>`;
  return html`<ul class="legend" aria-label="Legend">
    ${key("used", html`<rect class="bar-used" width="18" height="12" />`)}
    ${key(
      "borrowed",
      html`<rect class="bar-borrowed" width="18" height="12" /><rect width="18" height="12" fill="url(#hatch)" />`,
    )}
    ${key("owed", html`<rect class="bar-owed" x="1" y="1" width="16" height="10" />`)}
    ${key("lent", html`<rect class="bar-ground" width="18" height="12" /><rect width="18" height="12" fill="url(#dots)" />`)}
    ${key(
      "own",
      html`<rect class="bar-ground" width="18" height="12" /><line class="bar-own" x1="9" x2="9" y1="0" y2="12" />`,
    )}
    ${key(
      "limit",
      html`<rect class="bar-ground" width="18" height="12" /><line class="bar-limit" x1="9" x2="9" y1="0" y2="12" />`,
    )}
  </ul>`;
}

/** The patterns that bars refer to; once per page. */
export function BarPatterns() {
  return html`<svg class="patterns" width="0" height="0" aria-hidden="true">
    <defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch-line" width="2" height="6" />
      </pattern>
      <pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">
        <circle class="dot" cx="2.5" cy="2.5" r="1.1" />
      </pattern>
    </defs>
  </svg>`;
}

/**
 * @param {QueueRow} row
 * @param {string} measure
 * @param {keyof Pick<QueueRow, "used" | "entitled" | "owed" | "lent" | "borrowed" | "own" | "limit">} field
 * @param {number} share
 * @returns {string} a share, or an amount where a resource is chosen
 */
export function shareText(row, measure, field, share) {
  if (!measure) return percent(share);
  return amount(measure, row[field]?.[measure] ?? 0);
}
