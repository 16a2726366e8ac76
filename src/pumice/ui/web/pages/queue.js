/**
 * Queue: what one queue has, what it may have, who has the rest, and how that was in the last hour, day or month.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { live } from "../lib/live.js";
import { address, Link, setQuery } from "../lib/router.js";
import { amount, counted, number, percent, resourceLabel, resourceOrder, scaleOf } from "../lib/units.js";
import { TimeChart } from "../parts/chart.js";
import { Card, Choice, Failure, Loading, MiniBar, Select, Table } from "../parts/controls.js";
import { FlowPicture } from "../parts/flow_picture.js";
import { JobTable } from "../parts/job_table.js";
import { BarLegend, barLabel, barShares, ShareBar } from "../parts/share_bar.js";
import { QueueState, queueAddress } from "../parts/tree_grid.js";
import { Word } from "../parts/word.js";

/** @typedef {import("../lib/contract.js").QueueDocument} QueueDocument */
/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */
/** @typedef {import("../lib/contract.js").Amounts} Amounts */

/** @type {[string, string][]} */
const RANGES = [
  ["hour", "Hour"],
  ["day", "Day"],
  ["month", "Month"],
];

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
      ${document.jobs.length ? html`<${JobTable} jobs=${document.jobs} withQueue=${!document.queue.leaf} />` : html`<p class="quiet">No jobs.</p>`}
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
        <dd>${queue.weight === null ? "–" : number(queue.weight)}${queue.part !== null && queue.parent !== null && html` <small>${percent(queue.part)} of ${parentName(queue)}</small>`}</dd>
      </div>
      <div><dt>Jobs</dt><dd>${number(queue.jobs.running)} running, ${number(queue.jobs.inqueue + queue.jobs.pending)} waiting</dd></div>
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
  const said = [`It uses ${percent(shares.used)} of the cluster.`];
  if (shares.owed > 0.0005)
    said.push(
      `Its jobs are entitled to ${percent(shares.entitled)} now, so ${percent(shares.owed)} is owed to it: capacity that comes free goes to such queues first.`,
    );
  if (shares.borrowed > 0.0005)
    said.push(
      `Its own part is ${percent(shares.own)}; it borrows ${percent(shares.borrowed)}, which other queues may take back when their jobs need it.`,
    );
  if (shares.lent > 0.0005)
    said.push(
      `Other queues use ${percent(shares.lent)} of the cluster that is its own part; it gets that back when its jobs ask for it.`,
    );
  if (shares.limit !== null && shares.used >= shares.limit - 0.0005) said.push("It has reached its limit.");
  if (queue.tasks.waiting === 0) said.push("Nothing waits.");
  else if (shares.owed <= 0.0005)
    said.push(
      `${counted(queue.tasks.waiting, "task waits", "tasks wait")}, although it has what it is entitled to now.`,
    );
  return said.join(" ");
}

/** @param {{row: QueueRow, capacity: Amounts}} props */
function AmountsCard({ row, capacity }) {
  const names = resourceOrder(Object.keys(capacity)).filter((name) => name !== "pods" && (capacity[name] ?? 0) > 0);
  /** @type {[import("../lib/html.js").Children, Amounts | null, boolean][]} */
  const all = [
    [html`<${Word} is="used" />`, row.used, true],
    [html`<${Word} is="entitled" />`, row.entitled, true],
    [html`<${Word} is="owed" />`, row.owed, true],
    [html`<${Word} is="waiting" />`, row.waiting, true],
    [html`<${Word} is="own" />`, row.own, true],
    [html`<${Word} is="borrowed" />`, row.borrowed, true],
    [html`<${Word} is="lent" />`, row.lent, true],
    [html`<${Word} is="limit" />`, row.limit, false],
    [html`<${Word} is="guarantee" />`, row.guarantee, false],
    [html`<${Word} is="deserved" />`, row.deserved, false],
  ];
  const lines = all.filter(([, amounts, always]) => always || Object.keys(amounts ?? {}).length > 0);
  return html`<${Card} title="Amounts">
    <${Table} label="Amounts by resource" head=${["", ...names.map(resourceLabel)]} numeric=${names.map((_name, column) => column + 1)}>
      ${lines.map(
        ([title, amounts]) =>
          html`<tr>
            <th scope="row">${title}</th>
            ${names.map((name) => html`<td class="num">${cell(amounts, name)}</td>`)}
          </tr>`,
      )}
      <tr>
        <th scope="row">Whole cluster</th>
        ${names.map((name) => html`<td class="num quiet">${amount(name, capacity[name] ?? 0)}</td>`)}
      </tr>
    <//>
  <//>`;
}

/**
 * @param {Amounts | null} amounts
 * @param {string} name
 */
function cell(amounts, name) {
  const value = amounts?.[name];
  return value ? amount(name, value) : html`<span class="quiet">–</span>`;
}

/** @param {{document: QueueDocument, query: URLSearchParams}} props */
function FlowCard({ document, query }) {
  const { queue, flows } = document;
  const names = resourceOrder(Object.keys(flows));
  const moves = (/** @type {string} */ name) => flows[name]?.lendsTo.length || flows[name]?.borrowsFrom.length;
  const busiest = [queue.share.dominant ?? "", ...names].find(moves);
  const resource = query.get("flow") ?? busiest ?? queue.share.dominant ?? names[0] ?? "";
  const flow = flows[resource];
  return html`<${Card}
    title="Borrowing and lending"
    aside=${
      names.length > 1 &&
      html`<${Choice}
        label="Resource"
        value=${resource}
        options=${names.map((name) => [name, resourceLabel(name)])}
        set=${(/** @type {string} */ value) => setQuery({ flow: value })}
      />`
    }
  >
    ${
      queue.leaf
        ? html`<${FlowPicture} name=${queue.name} resource=${resource} borrowsFrom=${flow?.borrowsFrom ?? []} lendsTo=${flow?.lendsTo ?? []} />`
        : html`<${FlowPicture} name=${queue.name} resource=${resource} borrowsFrom=${flow?.borrowsFrom ?? []} lendsTo=${flow?.lendsTo ?? []} />
            <p class="quiet">With queues outside of it. The queues below lend to each other, too.</p>`
    }
  <//>`;
}

/** @param {{path: string, row: QueueRow, query: URLSearchParams}} props */
function HistoryCard({ path, row, query }) {
  const range = query.get("range") ?? "hour";
  /** @type {import("../lib/documents.js").Fetched<import("../lib/contract.js").HistoryDocument>} */
  const { document, error } = useDocument(`${path}/history?range=${encodeURIComponent(range)}`, {
    every: range === "hour" ? 5000 : 60_000,
  });
  const names = resourceOrder(Object.keys(document?.used ?? {}));
  const resource = query.get("resource") ?? row.share.dominant ?? names[0] ?? "";
  const scale = scaleOf(resource);
  // A young cluster has no past: the chart begins where something was recorded.
  const start = document?.used[resource]?.findIndex((value) => value !== null) ?? -1;
  const times = start < 0 ? [] : (document?.times.slice(start) ?? []);
  const scaled = (/** @type {Record<string, (number | null)[]> | undefined} */ columns) =>
    (columns?.[resource] ?? []).slice(start).map((value) => (value === null ? null : value / scale));
  return html`<${Card}
    title="Used against entitled"
    aside=${html`<div class="buttons">
      ${names.length > 1 && html`<${Select} label="Resource" value=${resource} options=${names.map((name) => [name, resourceLabel(name)])} set=${(/** @type {string} */ value) => setQuery({ resource: value })} />`}
      <${Choice} label="Range" value=${range} options=${RANGES} set=${(/** @type {string} */ value) => setQuery({ range: value })} />
    </div>`}
  >
    ${
      times.length
        ? html`<${TimeChart}
            key=${`${range}/${resource}`}
            label=${`${resourceLabel(resource)} used by ${row.name} and entitled to, in the last ${range}`}
            times=${times}
            columns=${[scaled(document?.used), scaled(document?.entitled), scaled(document?.waiting)]}
            lines=${[
              { label: "Used", colour: "--used", filled: true },
              { label: "Entitled", colour: "--text", dash: [6, 4] },
              { label: "Waiting", colour: "--borrowed", dash: [2, 3] },
            ]}
            show=${(/** @type {number} */ value) => amount(resource, value * scale)}
          />`
        : html`<p class="chart-empty quiet">${error ? error.message : document ? "Nothing is recorded yet." : "Loading …"}</p>`
    }
  <//>`;
}

/** @param {{title: string, rows: QueueRow[], capacity: Amounts}} props */
function QueueList({ title, rows, capacity }) {
  return html`<${Card} title=${title}>
    <${Table} label=${title} head=${["Queue", html`<${Word} is="weight" />`, html`<${Word} is="share" />`, html`<${Word} is="used" />`, html`<${Word} is="entitled" />`, html`<${Word} is="waiting" />`]} numeric=${[1, 3, 4, 5]}>
      ${rows.map((row) => {
        const shares = barShares(row, capacity, "");
        return html`<tr>
          <th scope="row"><${Link} to=${queueAddress(row)}>${row.name}<//> <${QueueState} row=${row} /></th>
          <td class="num">${row.weight === null ? "–" : number(row.weight)}</td>
          <td class="bar wide"><${ShareBar} shares=${shares} label=${barLabel(row, shares)} /></td>
          <td class="num">${percent(shares.used)}</td>
          <td class="num">${percent(shares.entitled)}</td>
          <td class="num">${number(row.tasks.waiting)}</td>
        </tr>`;
      })}
    <//>
  <//>`;
}

/**
 * @param {{
 *   title: string, kind: "user" | "namespace", queue: QueueRow, rows: import("../lib/contract.js").Holder[]
 * }} props
 */
function Holders({ title, kind, queue, rows }) {
  return html`<${Card} title=${title}>
    ${
      rows.length
        ? html`<${Table} label=${title} head=${["Name", "Part of the queue", "", "Jobs", html`<${Word} is="waiting" />`]} numeric=${[2, 3, 4]}>
            ${rows.map(
              (row) =>
                html`<tr>
                  <th scope="row"><${Link} to=${address(["jobs"], { queue: queue.name, [kind]: row.name })}>${row.name}<//></th>
                  <td class="bar"><${MiniBar} share=${row.part} label=${`${row.name} has ${percent(row.part)} of what the queue uses`} /></td>
                  <td class="num">${percent(row.part)}</td>
                  <td class="num">${number(row.jobs)}</td>
                  <td class="num">${number(row.tasks.waiting)}</td>
                </tr>`,
            )}
          <//>`
        : html`<p class="quiet">none</p>`
    }
  <//>`;
}
