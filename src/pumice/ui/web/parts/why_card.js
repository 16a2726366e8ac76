/**
 * Why a job waits: the answer of `pumice why`, the sentence first, then the picture, then the numbers behind it.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { clusterNow } from "../lib/live.js";
import { address, Link } from "../lib/router.js";
import { secondsSince, span } from "../lib/times.js";
import { amountList, counted, number, withoutUids } from "../lib/units.js";
import { Card, Failure, Loading, Time } from "./controls.js";
import { PathPicture } from "./path_picture.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").WhyDocument} WhyDocument */

const WAIT = 3000; // milliseconds: an answer costs a pass of the engine over the whole cluster

/** @param {{namespace: string, name: string}} props */
export function WhyCard({ namespace, name }) {
  const path = `/api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/why`;
  /** @type {import("../lib/documents.js").Fetched<WhyDocument>} */
  const { document, error } = useDocument(path, {
    concerns: (changed) => changed.queues !== undefined || changed.keys !== undefined,
    every: 15_000,
    wait: WAIT,
  });
  if (!document)
    return html`<${Card} title="Why does it wait?" class="why">
      ${error ? html`<${Failure} error=${error} />` : html`<${Loading} what="the answer" />`}
    <//>`;
  const done = document.cause === "running" || document.cause === "finished";
  return html`<${Card} title=${done ? "What it has" : "Why does it wait?"} class="why">
    <p class="verdict" title=${document.verdict}>${withoutUids(document.verdict)}</p>
    ${document.needs.length > 0 && html`<${Needs} needs=${document.needs} startsAt=${document.outlook?.startsAt ?? null} />`}
    ${!done && html`<${Claim} why=${document} />`}
    <div class="why-grid">
      ${
        document.contest &&
        document.contest.rungs.length > 0 &&
        !done &&
        html`<section aria-label="Who is next in line">
          <h3>Who is next in line, from the root down</h3>
          <p class="quiet caption">
            Capacity that comes free is given out in this order. A bar is what each uses of the cluster now, the mark on
            it what it is <${Word} is="entitled">entitled<//> to now. Whoever misses the largest part of that is next.
            ${document.contest.supposing && " The job fits nowhere now: this is the order once there is room for it."}
          </p>
          <${PathPicture} rungs=${document.contest.rungs} measure=${document.contest.measure} />
        </section>`
      }
      <div class="why-side">
        ${document.limits.length > 0 && html`<${Limits} why=${document} />`}
        ${document.places.length > 0 && !done && html`<${Places} why=${document} />`}
        <${Outlook} why=${document} />
        ${
          document.containers.length > 0 &&
          html`<section>
            <h3>Containers that cannot start</h3>
            <ul>
              ${document.containers.map((line) => html`<li>${line}</li>`)}
            </ul>
          </section>`
        }
      </div>
    </div>
    <ul class="quiet fine">
      ${document.notes.map((note) => html`<li>${withoutUids(note)}</li>`)}
    </ul>
    ${document.rules && html`<p class="quiet fine">Computed with the rules of ${document.rules}.</p>`}
  <//>`;
}

/** @param {{needs: string[], startsAt: string | null}} props */
function Needs({ needs, startsAt }) {
  return html`<section class="needs" aria-label="What has to happen">
    <h3>What has to happen</h3>
    <ul>
      ${needs.map((need) => html`<li>${withoutUids(need)}</li>`)}
    </ul>
    ${startsAt === null && html`<p class="quiet">When is not known: it depends on when running tasks end.</p>`}
  </section>`;
}

/** What the job asks for next, and whether that is its right. */
function Claim(/** @type {{why: WhyDocument}} */ { why }) {
  const unit = why.unitTasks
    ? html`<div>
        <dt>Asks for</dt>
        <dd>
          ${counted(why.unitTasks, "task")}${` (${amountList(why.unit)})`}
          ${why.unitTasks > 1 && html`, <${Word} is="gang">together<//>`}
        </dd>
      </div>`
    : null;
  const running = why.running + why.starting;
  const whole = Object.keys(why.whole).length
    ? `${amountList(why.whole)} in whole tasks`
    : `too little for the ${counted(why.unitTasks, "task")} it has to start`;
  return html`<dl class="facts claim">
    <div>
      <dt>Runs now</dt><dd>${running ? `${counted(running, "task")} (${amountList(why.holds)})` : "no task"}</dd>
    </div>
    ${unit}
    ${
      why.target !== null &&
      html`<div>
        <dt><${Word} is="entitledJob" /> to</dt>
        <dd>${counted(why.target, "task")} <small>${whole}</small></dd>
      </div>`
    }
    ${
      why.owed !== null &&
      why.unitTasks > 0 &&
      html`<div>
        <dt>Are these <${Word} is="owed">owed<//> to it?</dt>
        <dd>${why.owed ? "yes: it is its turn" : "no: they are more than it is entitled to, so it starts on what others leave unused"}</dd>
      </div>`
    }
  </dl>`;
}

/** @param {{why: WhyDocument}} props */
function Limits({ why }) {
  return html`<section>
    <h3>Limits in its way</h3>
    <ul>
      ${why.limits.map((limit) => html`<li>${limit.message || limitText(limit)}</li>`)}
    </ul>
  </section>`;
}

/**
 * @param {WhyDocument["limits"][number]} limit
 * @returns {string}
 */
function limitText({ queue, kind, resource, most, held, asks }) {
  return `${queue}: ${kind} of ${resource}: at most ${most}, holds ${held}, asks for ${asks}`;
}

/** @param {{why: WhyDocument}} props */
function Places({ why }) {
  return html`<section>
    <h3>Nodes</h3>
    ${why.places.map(
      (place) => html`<p>
          <b>${number(place.fitting)} of ${counted(place.nodes, "node")}</b>
          ${` ${place.fitting === 1 ? "has" : "have"} room for a task of ${amountList(place.asks)}.`}
        </p>
        <svg
          class="mini-bar"
          width="100%"
          height="8"
          role="img"
          aria-label=${`${place.fitting} of ${place.nodes} nodes have room`}
        >
          <rect class="bar-ground" width="100%" height="8" rx="2" />
          <rect
            class="bar-used"
            width=${`${place.nodes ? (100 * place.fitting) / place.nodes : 0}%`}
            height="8"
            rx="2"
          />
        </svg>
        <ul>
          ${place.out.map(
            (out) =>
              html`<li>
                ${counted(out.count, "node")}: ${out.reason}
                ${out.lacks.map(
                  ({ resource, needs, most }) =>
                    html` <span class="quiet">(${resource}: needs ${needs}, most free ${most})</span>`,
                )}
              </li>`,
          )}
        </ul>`,
    )}
    ${why.noDomain && html`<p>${why.noDomain}</p>`}
  </section>`;
}

/** @param {{why: WhyDocument}} props */
function Outlook({ why }) {
  const { outlook } = why;
  const where = outlook.holdsOn.length ? ` on ${outlook.holdsOn.join(", ")}` : "";
  /** @type {[import("../lib/html.js").Children, string | null][]} */
  const steps = [
    [`starts ${counted(outlook.tasks, "task")}${outlook.evictions.length ? " after evictions" : ""}`, outlook.startsAt],
    [html`may <${Word} is="reclaim">take back<//> what others borrowed`, outlook.takesAt],
    [
      html`has waited long enough for a <${Word} is="hold">reservation<//>`,
      outlook.holdsAt ? null : outlook.patienceAt,
    ],
    [html`capacity is kept for it${where} (<${Word} is="hold">reservation<//>)`, outlook.holdsAt],
  ];
  const dated = steps
    .filter((step) => step[1] !== null)
    .sort((a, b) => Date.parse(a[1] ?? "") - Date.parse(b[1] ?? ""));
  if (!dated.length && !outlook.evictions.length && !outlook.mayNotTake && !outlook.keptFor.length) return null;
  return html`<section>
    <h3>If nothing else happens</h3>
    <ol class="timeline">
      ${dated.map(
        ([text, at]) =>
          html`<li><span class="when">${inWords(at)}</span> <span>${text} <small><${Time} at=${at} /></small></span></li>`,
      )}
    </ol>
    ${outlook.mayNotTake && html`<p class="quiet">It does not preempt: ${outlook.mayNotTake}</p>`}
    ${
      outlook.evictions.length > 0 &&
      html`<p>${counted(outlook.evictions.length, "task")} would be evicted${outlook.action && ` (${outlook.action})`}:</p>
        <ul>
          ${outlook.evictions
            .slice(0, 6)
            .map(
              ({ task, node }) =>
                html`<li>${withoutUids(task)} on <${Link} to=${address(["nodes", node])}>${node}<//></li>`,
            )}
        </ul>`
    }
    ${
      outlook.keptFor.length > 0 &&
      html`<p class="quiet">Capacity is reserved for ${withoutUids(outlook.keptFor.join(", "))}.</p>`
    }
  </section>`;
}

/**
 * @param {string | null} at
 * @returns {string}
 */
function inWords(at) {
  const seconds = secondsSince(at, clusterNow()) ?? 0;
  return seconds >= 0 ? "now" : `in ${span(-seconds)}`;
}
