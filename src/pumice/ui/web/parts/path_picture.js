/**
 * The path from the root to a job: at each level the queues that compete there, what they use and what they are entitled
 * to, and which of them is served first.
 * @module
 */

import { html } from "../lib/html.js";
import { number, percent, shortOrOver, withoutUids } from "../lib/units.js";
import { ShareBar } from "./share_bar.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").Rung} Rung */
/** @typedef {import("../lib/contract.js").Competitor} Competitor */

const SHOWN = 6;

/**
 * @param {string} path
 * @returns {string}
 */
const lastPart = (path) => withoutUids(path.split("/").at(-1) ?? path);

/** @param {{rungs: Rung[], measure: string}} props */
export function PathPicture({ rungs, measure }) {
  return html`<ol class="path">
    ${rungs.map((rung, level) => html`<${Level} rung=${rung} level=${level} measure=${measure} />`)}
  </ol>`;
}

/** @param {{rung: Rung, level: number, measure: string}} props */
function Level({ rung, level, measure }) {
  const { ours, first, place, rivals } = rung;
  const ahead = first
    ? rung.competitors.find((other) => other.path === first.name || other.name === first.name)
    : undefined;
  const rows = shortened(rung.competitors, ahead);
  const kind = rung.competitors[0]?.kind ?? "queue";
  const hidden = rung.competitorsTotal - rows.length;
  return html`<li class="path-level">
    <div class="path-title">
      ${kind !== "queue" && html`<span class="quiet">${kind}</span>`} <b title=${ours.name}>${lastPart(ours.name)}</b>
      <span>${verdict(rung, level)}</span>
    </div>
    <ul class="path-rows">
      ${rows.map((row) => {
        const side = row.ours ? ours : row === ahead ? first : null;
        return html`<${CompetitorRow} row=${row} side=${side} first=${row === ahead} />`;
      })}
      ${hidden > 0 && html`<li class="quiet path-more">and ${number(hidden)} more</li>`}
    </ul>
    ${
      first &&
      place !== 1 &&
      rivals > 1 &&
      html`<p class="quiet path-key">
        ${
          measure === "want"
            ? html`<${Word} is="want" />: ${lastPart(first.name)} is ${shortOrOver(first.key)},${" "}
                ${lastPart(ours.name)} is ${shortOrOver(ours.key)}.`
            : html`Lower comes first: ${lastPart(first.name)} ${percent(first.key)}, ${lastPart(ours.name)} ${percent(ours.key)}.`
        }
        ${rung.decidedBy && rung.decidedBy !== measure && html` Decided by ${rung.decidedBy}.`}
      </p>`
    }
  </li>`;
}

/**
 * @param {Competitor[]} all
 * @param {Competitor | undefined} ahead
 * @returns {Competitor[]} ours and the one that is first always among them
 */
function shortened(all, ahead) {
  if (all.length <= SHOWN) return all;
  const kept = new Set([...all.filter((row) => row.ours || row === ahead), ...all].slice(0, SHOWN));
  return all.filter((row) => kept.has(row));
}

/**
 * @param {Rung} rung
 * @param {number} level
 * @returns {string}
 */
function verdict({ first, place, rivals }, level) {
  const where = level === 0 ? "in the cluster" : "at this level";
  if (rivals <= 1) return "is next: nothing beside it waits";
  if (place === 1 || !first) return `is next in line ${where}`;
  if (place === null) return `is not in line; ${lastPart(first.name)} is next`;
  return `is number ${place} of ${rivals} in line; ${lastPart(first.name)} is next`;
}

/**
 * @param {{row: Competitor, side: import("../lib/contract.js").Side | null, first: boolean}} props side: what the
 *   scheduler's order says about it, which is known of ours and of the first
 */
function CompetitorRow({ row, side, first }) {
  const used = row.usedShare ?? 0;
  const entitled = row.entitledShare ?? side?.entitledShare ?? null;
  // Only what decides the order: the bar is what it uses, the mark what it is entitled to.
  const shares = { used, borrowed: 0, owed: 0, lent: 0, own: entitled ?? 0, limit: null, entitled };
  const right = entitled === null ? "" : `, entitled to ${percent(entitled)}`;
  const label = `${row.name} uses ${percent(used)} of the cluster${right}`;
  return html`<li class=${row.ours ? "path-row ours" : "path-row"}>
    <span class="path-name" title=${row.path}>
      ${lastPart(row.name)}${first && html` <span class="badge">first</span>`}
    </span>
    <span class="path-weight quiet">${row.weight === null ? "" : `weight ${number(row.weight)}`}</span>
    <${ShareBar} shares=${shares} label=${label} />
    <span class="num">${percent(used)} <small>${entitled === null ? "" : `of ${percent(entitled)}`}</small></span>
  </li>`;
}
