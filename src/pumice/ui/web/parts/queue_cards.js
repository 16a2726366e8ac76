/**
 * The cards of a queue's page: amounts, borrowing and lending, history, other queues, users and namespaces.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { address, Link, querySetter } from "../lib/router.js";
import { amount, number, percent, resourceLabel, resourceOrder, scaleOf } from "../lib/units.js";
import { TimeChart } from "./chart.js";
import { Card, Choice, MiniBar, Select, Table } from "./controls.js";
import { FlowPicture } from "./flow_picture.js";
import { barLabel, barShares, ShareBar } from "./share_bar.js";
import { QueueState, queueAddress } from "./tree_grid.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").QueueDocument} QueueDocument */
/** @typedef {import("../lib/contract.js").QueueRow} QueueRow */
/** @typedef {import("../lib/contract.js").Amounts} Amounts */

/** @type {[string, string][]} */
const RANGES = [
  ["hour", "Hour"],
  ["day", "Day"],
  ["month", "Month"],
];

/** @param {{row: QueueRow, capacity: Amounts}} props */
export function AmountsCard({ row, capacity }) {
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
    <${Table}
      label="Amounts by resource"
      head=${["", ...names.map(resourceLabel)]}
      numeric=${names.map((_name, column) => column + 1)}
    >
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
export function FlowCard({ document, query }) {
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
        set=${querySetter("flow")}
      />`
    }
  >
    <${FlowPicture}
      name=${queue.name}
      resource=${resource}
      borrowsFrom=${flow?.borrowsFrom ?? []}
      lendsTo=${flow?.lendsTo ?? []}
    />
    ${!queue.leaf && html`<p class="quiet">With queues outside of it. The queues below lend to each other, too.</p>`}
  <//>`;
}

/** @param {{path: string, row: QueueRow, query: URLSearchParams}} props */
export function HistoryCard({ path, row, query }) {
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
      <${Select}
        label="Resource"
        value=${resource}
        options=${names.map((name) => [name, resourceLabel(name)])}
        set=${querySetter("resource")}
      />
      <${Choice} label="Range" value=${range} options=${RANGES} set=${querySetter("range")} />
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

const QUEUE_COLUMNS = ["weight", "share", "used", "entitled", "waiting"];

/** @param {{title: string, rows: QueueRow[], capacity: Amounts}} props */
export function QueueList({ title, rows, capacity }) {
  return html`<${Card} title=${title}>
    <${Table}
      label=${title}
      head=${["Queue", ...QUEUE_COLUMNS.map((word) => html`<${Word} is=${word} />`)]}
      numeric=${[1, 3, 4, 5]}
    >
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
export function Holders({ title, kind, queue, rows }) {
  return html`<${Card} title=${title}>
    ${
      rows.length
        ? html`<${Table}
            label=${title}
            head=${["Name", "Part of the queue", "", "Jobs", html`<${Word} is="waiting" />`]}
            numeric=${[2, 3, 4]}
          >
            ${rows.map(
              (row) =>
                html`<tr>
                  <th scope="row">
                    <${Link} to=${address(["jobs"], { queue: queue.name, [kind]: row.name })}>${row.name}<//>
                  </th>
                  <td class="bar">
                    <${MiniBar}
                      share=${row.part}
                      label=${`${row.name} has ${percent(row.part)} of what the queue uses`}
                    />
                  </td>
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
