/**
 * Queue: what one queue has, what it may have, who has the rest, and how that was in the last hour, day or month.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { live } from "../lib/live.js";
import { address, Link } from "../lib/router.js";
import { amount, counted, number, percent } from "../lib/units.js";
import { Card, Failure, Loading } from "../parts/controls.js";
import { JobTable } from "../parts/job_table.js";
import { AmountsCard, FlowCard, HistoryCard, Holders, QueueList } from "../parts/queue_cards.js";
import { BarLegend, barLabel, barShares, ShareBar } from "../parts/share_bar.js";
import { QueueState, queueAddress } from "../parts/tree_grid.js";
import { Word } from "../parts/word.js";

/** @typedef {import("../lib/contract.js").QueueDocument} QueueDocument */
/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */
/** @typedef {import("../lib/contract.js").Amounts} Amounts */

/** @param {import("../lib/live.js").Changed} changed */
const concernsQueues = (changed) => changed.queues === null || (changed.queues?.length ?? 0) > 0;

/** @param {{name: string, query: URLSearchParams}} props */
export function QueuePage({ name, query }) {
  const path = `/api/queues/${encodeURIComponent(name)}`;
  /** @type {import("../lib/documents.js").Fetched<QueueDocument>} */
  const { document, error } = useDocument(path, { concerns: concernsQueues });
  if (!document)
    return error
      ? html`<div class="page"><${Failure} error=${error} /></div>`
      : html`<${Loading} what=${`queue ${name}`} />`;
  const capacity = document.ancestors[0]?.own ?? document.queue.own;
  const whole = live.tree?.cluster.capacity ?? capacity;
  return html`<article class="page">
    <${Head} document=${document} capacity=${whole} />
    <div class="columns">
      <${AmountsCard} row=${document.queue} capacity=${whole} />
      <${FlowCard} document=${document} query=${query} />
    </div>
    ${live.about?.features.history && html`<${HistoryCard} path=${path} row=${document.queue} query=${query} />`}
    ${document.children.length > 0 && html`<${QueueList} title="Queues below" rows=${document.children} capacity=${whole} />`}
    <${Card}
      title="Jobs"
      aside=${
        document.jobsTotal > document.jobs.length &&
        html`<${Link} to=${address(["jobs"], { queue: document.queue.name })}>all ${number(document.jobsTotal)}<//>`
      }
    >
      ${
        document.jobs.length
          ? html`<${JobTable} jobs=${document.jobs} withQueue=${!document.queue.leaf} />`
          : html`<p class="quiet">No jobs.</p>`
      }
    <//>
    <div class="columns">
      <${Holders} title="Users" kind="user" queue=${document.queue} rows=${document.users} />
      <${Holders} title="Namespaces" kind="namespace" queue=${document.queue} rows=${document.namespaces} />
    </div>
    ${document.siblings.length > 0 && html`<${QueueList} title="Queues beside it" rows=${document.siblings} capacity=${whole} />`}
  </article>`;
}

/** @param {{document: QueueDocument, capacity: Amounts}} props */
function Head({ document, capacity }) {
  const { queue, ancestors } = document;
  const shares = barShares(queue, capacity, "");
  return html`<header class="page-head">
    <nav aria-label="Path">
      <ol class="crumbs">
        <li><${Link} to="/">All queues<//></li>
        ${ancestors.map((row) => html`<li><${Link} to=${queueAddress(row)}>${row.name}<//></li>`)}
      </ol>
    </nav>
    <h1>${queue.name} <${QueueState} row=${queue} /></h1>
    <p class="lead">${summary(queue, shares)}</p>
    <div class="big-bar"><${ShareBar} shares=${shares} label=${barLabel(queue, shares)} /></div>
    <${BarLegend} />
    ${queue.conditions.map((condition) => html`<p class="notes">${condition.type}: ${condition.message}</p>`)}
    <dl class="facts">
      <div>
        <dt><${Word} is="weight" /></dt>
        <dd>
          ${queue.weight === null ? "–" : number(queue.weight)}
          <small>${queue.parent === null ? "" : ` ${percent(queue.part)} of ${parentName(queue)}`}</small>
        </dd>
      </div>
      <div>
        <dt>Jobs</dt><dd>${number(queue.jobs.running)} running, ${number(queue.jobs.inqueue + queue.jobs.pending)} waiting</dd>
      </div>
      <div><dt>Tasks</dt><dd>${number(queue.tasks.running)} running, ${number(queue.tasks.waiting)} waiting</dd></div>
      ${
        document.userLimits?.minUserLimitPercent &&
        html`<div><dt>A user gets at least</dt><dd>${number(document.userLimits.minUserLimitPercent)}%</dd></div>`
      }
      ${
        document.userLimits?.userLimitFactor &&
        html`<div><dt>A user gets at most</dt><dd>${number(document.userLimits.userLimitFactor)} × the queue's part</dd></div>`
      }
      ${!queue.reclaimable && html`<div><dt>Borrowed capacity</dt><dd>is not taken back from it</dd></div>`}
    </dl>
  </header>`;
}

/**
 * @param {QueueRow} queue
 * @returns {string}
 */
function parentName(queue) {
  return queue.parent?.split("/").at(-1) ?? "";
}

/**
 * The state of a queue in plain sentences.
 * @param {QueueRow} queue
 * @param {import("../parts/share_bar.js").BarShares} shares
 * @returns {string}
 */
function summary(queue, shares) {
  const most = queue.share.dominant;
  const said = [
    most
      ? `It uses ${amount(most, queue.used[most] ?? 0)}, ${percent(shares.used)} of the cluster's.`
      : "It uses nothing.",
  ];
  if (shares.owed > 0.0005)
    said.push(
      `Its jobs are entitled to ${percent(shares.entitled)} now, so ${percent(shares.owed)} is owed to it:`,
      "capacity that comes free goes to such queues first.",
    );
  if (shares.borrowed > 0.0005)
    said.push(
      `Its own part is ${percent(shares.own)}; it borrows ${percent(shares.borrowed)},`,
      "which other queues may take back when their jobs need it: its running tasks are then stopped.",
    );
  if (shares.lent > 0.0005)
    said.push(
      `Other queues use ${percent(shares.lent)} of the cluster that is its own part; it gets that back when its jobs ask for it.`,
    );
  if (shares.limit !== null && shares.used >= shares.limit - 0.0005) said.push("It has reached its limit.");
  if (queue.tasks.waiting === 0) said.push("Nothing waits.");
  else if (shares.owed <= 0.0005)
    said.push(
      `${counted(queue.tasks.waiting, "task waits", "tasks wait")}: the queue has at least what it is entitled to now`,
      `(${percent(shares.entitled)}), so queues that miss a part of theirs come first.`,
    );
  return said.join(" ");
}
