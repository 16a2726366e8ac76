/**
 * Decisions: the scheduler's binds and evictions as they happen; an eviction with both sides before and after.
 * @module
 */

import { html, useMemo, useRef, useState } from "../lib/html.js";
import { live, useDecisions } from "../lib/live.js";
import { address, Link, querySetter } from "../lib/router.js";
import { counted, number, percent, shortOrOver } from "../lib/units.js";
import { Choice, Missing, Search, Time } from "../parts/controls.js";
import { keyAddress } from "../parts/job_table.js";
import { Word } from "../parts/word.js";

/** @typedef {import("../lib/contract.js").Decision} Decision */

const SHOWN = 200;

/** @param {{query: URLSearchParams}} props */
export function DecisionsPage({ query }) {
  const current = useDecisions();
  const [paused, setPaused] = useState(false);
  const frozen = useRef(current);
  if (!paused) frozen.current = current;
  const document = frozen.current;
  const kind = query.get("kind") ?? "";
  const text = (query.get("text") ?? "").toLowerCase();
  const shown = useMemo(
    () => (document?.decisions ?? []).filter((decision) => (!kind || decision.kind === kind) && holds(decision, text)),
    [document, kind, text],
  );
  if (!document) return html`<${Missing} document="decisions" what="the decisions" />`;
  const evictions = document.decisions.filter((decision) => decision.kind === "evict").length;
  return html`<section class="page" aria-label="Decisions">
    <h1 class="sr-only">Decisions</h1>
    <div class="toolbar" role="search">
      <${Search} label="Find a job, queue, user or node" value=${query.get("text") ?? ""} set=${querySetter("text")} />
      <${Choice}
        label="Kind"
        value=${kind}
        options=${[["", "All"], ["bind", "Placed"], ["evict", `Evictions (${number(evictions)})`]]}
        set=${querySetter("kind")}
      />
      <button type="button" aria-pressed=${String(paused)} onClick=${() => setPaused(!paused)}>
        ${paused ? "Continue" : "Pause"}
      </button>
      <span class="quiet count">last ${counted(document.decisions.length, "decision")}</span>
    </div>
    ${
      document.source === "events" &&
      html`<p class="quiet">From Events of the cluster: without the decision log, nothing says how both sides of an eviction stood.</p>`
    }
    ${
      shown.length
        ? html`<ol class="stream card" aria-label="Decisions, newest first">
            ${shown.slice(0, SHOWN).map((decision) => html`<${DecisionRow} key=${decision.id} decision=${decision} />`)}
          </ol>`
        : html`<p class="empty">${document.decisions.length ? "No decision matches." : "No decisions yet."}</p>`
    }
  </section>`;
}

/**
 * @param {Decision} decision
 * @param {string} text
 * @returns {boolean}
 */
function holds(decision, text) {
  if (!text) return true;
  const fields = [
    decision.task,
    decision.job,
    decision.queue,
    decision.user,
    decision.node,
    decision.preemptor,
    decision.preemptorQueue,
  ];
  return fields.some((field) => field?.toLowerCase().includes(text));
}

/** @param {{decision: Decision}} props */
function DecisionRow({ decision }) {
  const evicts = decision.kind === "evict";
  const action = decision.action === "reclaim" ? html`<${Word} is="reclaim">reclaim<//>` : decision.action;
  return html`<li class=${evicts ? "decision evict" : "decision"}>
    <span class="when"><${Time} at=${decision.time} /></span>
    <span class="kind">
      <span class=${evicts ? "badge warn" : "badge"}>
        <${Word} is=${decision.kind}>${evicts ? "evicted" : "placed"}<//>
      </span>
    </span>
    <div class="what">
      <p>
        <b>${decision.task}</b>
        ${decision.node && html` ${evicts ? "from" : "on"} <${Link} to=${address(["nodes", decision.node])}>${decision.node}<//>`}
        ${
          evicts &&
          (decision.preemptor
            ? html` for <${Link} to=${keyAddress(decision.preemptor)}>${decision.preemptor}<//>
                ${decision.preemptorQueue && html` <small>of ${decision.preemptorQueue}</small>`}`
            : html` <small>${reasonOf(decision.action)}</small>`)
        }
      </p>
      <p class="quiet">
        ${decision.job && html`<${Link} to=${keyAddress(decision.job)} class="plain">${decision.job}<//>`}
        ${decision.queue && html` in <${Link} to=${address(["queues", decision.queue])} class="plain">${decision.queue}<//>`}
        ${decision.user && html` by ${decision.user}`}
        ${evicts && decision.action && html`, ${action}`}
        ${live.about?.features.then && html` · <${Link} to=${address(["then"], { time: decision.time })}>the tree then<//>`}
      </p>
      ${decision.sides && html`<${Sides} sides=${decision.sides} />`}
    </div>
  </li>`;
}

/**
 * @param {string | undefined} action
 * @returns {string}
 */
function reasonOf(action) {
  if (action === "repair-gangs") return "because its gang cannot be completed";
  if (action === "relieve-nodes") return "because its node is overcommitted";
  return action ?? "";
}

/** @param {{sides: NonNullable<Decision["sides"]>}} props both sides at their common ancestor, before and after */
function Sides({ sides }) {
  const most = Math.max(...sides.before.map(Math.abs), ...sides.after.map(Math.abs), 0.01);
  return html`<div class="sides">
    <p class="quiet">
      <${Word} is="ancestor" /> <${Link} to=${address(["queues", sides.ancestor])} class="plain">${sides.ancestor}<//>, by
      ${sides.measure === "want" ? html` <${Word} is="want" />` : ` ${sides.measure}`}
    </p>
    <table>
      <thead>
        <tr>
          <th scope="col">Side</th>
          <th scope="col" class="num">before</th>
          <th scope="col" class="num">after</th>
          <th scope="col"><span class="sr-only">picture</span></th>
        </tr>
      </thead>
      <tbody>
        <${SideRow} path=${sides.preemptor} does="takes" sides=${sides} at=${0} most=${most} />
        <${SideRow} path=${sides.victim} does="gives" sides=${sides} at=${1} most=${most} />
      </tbody>
    </table>
  </div>`;
}

/**
 * @param {{path: string, does: string, sides: NonNullable<Decision["sides"]>, at: 0 | 1, most: number}} props at: the
 *   side's place in the pairs of keys
 */
function SideRow({ path, does, sides, at, most }) {
  const before = sides.before[at];
  const after = sides.after[at];
  return html`<tr>
    <th scope="row">${path.split("/").at(-1) ?? path} <small>${does}</small></th>
    <td class="num">${key(sides.measure, before)}</td>
    <td class="num">${key(sides.measure, after)}</td>
    <td><${Shift} before=${before} after=${after} most=${most} /></td>
  </tr>`;
}

/**
 * @param {string} measure
 * @param {number} value
 * @returns {string}
 */
function key(measure, value) {
  if (measure === "priority") return number(value);
  return measure === "want" ? shortOrOver(value) : percent(value);
}

/** @param {{before: number, after: number, most: number}} props a move around zero: short is left, over is right */
function Shift({ before, after, most }) {
  const x = (/** @type {number} */ value) => 60 - (value / most) * 54;
  return html`<svg class="shift" width="120" height="14" aria-hidden="true">
    <line class="shift-zero" x1="60" x2="60" y1="1" y2="13" />
    <line class="shift-move" x1=${x(before)} x2=${x(after)} y1="7" y2="7" />
    <circle class="shift-before" cx=${x(before)} cy="7" r="3.5" />
    <circle class="shift-after" cx=${x(after)} cy="7" r="4" />
  </svg>`;
}
