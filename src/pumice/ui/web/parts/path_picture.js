/**
 * The path from the root to a job: at each level the queues that compete there, what they use and what they are entitled
 * to, and which of them is served first.
 * @module
 */

import { html } from "../lib/html.js";
import { number, percent } from "../lib/units.js";
import { ShareBar } from "./share_bar.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").Rung} Rung */
/** @typedef {import("../lib/contract.js").Competitor} Competitor */

const SHOWN = 6;

/** @param {{rungs: Rung[], measure: string}} props */
export function PathPicture({ rungs, measure }) {
  return html`<ol class="path">
    ${rungs.map((rung, level) => html`<${Level} rung=${rung} level=${level} measure=${measure} />`)}
  </ol>`;
}

/** @param {{rung: Rung, level: number, measure: string}} props */
function Level({ rung, level, measure }) {
  const { ours, first, place, rivals } = rung;
  const ahead = first ? rung.competitors.find((other) => other.name === first.name) : undefined;
  const rows = shortened(rung.competitors, ahead);
  const hidden = rung.competitorsTotal - rows.length;
  return html`<li class="path-level">
    <div class="path-title">
      <b>${ours.name}</b>
      <span>${verdict(rung, level)}</span>
    </div>
    <ul class="path-rows">
      ${rows.map((row) => html`<${CompetitorRow} row=${row} first=${row === ahead} />`)}
      ${hidden > 0 && html`<li class="quiet path-more">and ${number(hidden)} more</li>`}
    </ul>
    ${
      first &&
      place !== 1 &&
      rivals > 1 &&
      html`<p class="quiet path-key">
        ${
          measure === "want"
            ? html`<${Word} is="want" />: ${first.name} misses ${percent(first.key)}, ${ours.name} ${percent(ours.key)}.`
            : html`Lower comes first: ${first.name} ${percent(first.key)}, ${ours.name} ${percent(ours.key)}.`
        }
        ${rung.decidedBy && html` Decided by ${rung.decidedBy}.`}
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
  const where = level === 0 ? "in the cluster" : "beside its siblings";
  if (rivals <= 1) return "nothing else waits here";
  if (place === 1 || !first) return `is served first ${where}`;
  if (place === null) return `is not in line; ${first.name} is served first`;
  return `is number ${place} of ${rivals} in line; ${first.name} is first`;
}

/** @param {{row: Competitor, first: boolean}} props */
function CompetitorRow({ row, first }) {
  const used = row.usedShare ?? 0;
  const entitled = row.entitledShare ?? 0;
  const shares = {
    used,
    borrowed: Math.max(0, used - entitled),
    owed: Math.max(0, entitled - used),
    lent: 0,
    own: 0,
    limit: null,
    entitled,
  };
  const label = `${row.name} uses ${percent(used)} of the cluster and is entitled to ${percent(entitled)}`;
  return html`<li class=${row.ours ? "path-row ours" : "path-row"}>
    <span class="path-name" title=${row.path}>${row.name}${first && html` <span class="badge">first</span>`}</span>
    <span class="path-weight quiet">${row.weight === null ? "" : `weight ${number(row.weight)}`}</span>
    <${ShareBar} shares=${shares} label=${label} />
    <span class="num">${percent(used)} <small>of ${percent(entitled)}</small></span>
  </li>`;
}
