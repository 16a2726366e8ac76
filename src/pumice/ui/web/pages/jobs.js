/**
 * Jobs: those that match the filters, which stand in the address.
 * @module
 */

import { getDocument } from "../lib/api.js";
import { useDocument } from "../lib/documents.js";
import { html, useEffect, useState } from "../lib/html.js";
import { useTree } from "../lib/live.js";
import { querySetter, setQuery } from "../lib/router.js";
import { counted, number } from "../lib/units.js";
import { Failure, Loading, Search, Select } from "../parts/controls.js";
import { JobTable } from "../parts/job_table.js";

/** @typedef {import("../lib/contract.js").JobsDocument} JobsDocument */

const PHASES = ["Pending", "Inqueue", "Running", "Unknown", "Completed"];
const FILTERS = ["queue", "user", "namespace", "phase", "text", "sort"];

/** @type {[string, string][]} */
const SORTS = [
  ["", "Newest"],
  ["name", "Name"],
  ["used", "Share"],
  ["waiting", "Waiting"],
];

/** @param {{query: URLSearchParams}} props */
export function JobsPage({ query }) {
  const asked = new URLSearchParams();
  for (const name of FILTERS) for (const value of query.getAll(name)) if (value) asked.append(name, value);
  const path = `/api/jobs?${asked}`;
  /** @type {import("../lib/documents.js").Fetched<JobsDocument>} */
  const { document, error } = useDocument(path, {
    concerns: (changed) => changed.jobs !== undefined || changed.keys === null,
  });
  const [held, setHeld] = useState(/** @type {JobsDocument | null} */ (null));
  useEffect(() => {
    if (document) setHeld(document);
  }, [document]);
  const shown = document ?? held;
  return html`<section class="page" aria-label="Jobs">
    <h1 class="sr-only">Jobs</h1>
    <${Filters} query=${query} users=${shown?.users ?? []} shown=${shown} />
    ${error && html`<${Failure} error=${error} />`}
    ${!shown && !error && html`<${Loading} what="the jobs" />`}
    ${
      shown &&
      (shown.jobs.length
        ? html`<div class=${document ? "card" : "card stale"}>
            <${JobTable} jobs=${shown.jobs} />
            <${More} key=${path} path=${path} next=${shown.continue} />
          </div>`
        : html`<p class="empty">${shown.total ? "No job matches." : "There are no jobs yet."}</p>`)
    }
  </section>`;
}

/** @param {{query: URLSearchParams, users: string[], shown: JobsDocument | null}} props */
function Filters({ query, users, shown }) {
  const tree = useTree();
  const field = (/** @type {string} */ name) => query.get(name) ?? "";
  const withCurrent = (/** @type {string[]} */ names, /** @type {string} */ current) =>
    current && !names.includes(current) ? [current, ...names] : names;
  const queues = withCurrent(tree?.queues.filter((row) => row.object).map((row) => row.name) ?? [], field("queue"));
  const anyOf = (/** @type {string} */ word, /** @type {string[]} */ names) => [
    ["", word],
    ...names.map((name) => [name, name]),
  ];
  const phases = PHASES.map((name) => [name, shown?.phases[name] ? `${name} (${number(shown.phases[name])})` : name]);
  const filtered = FILTERS.some((name) => name !== "sort" && field(name));
  const clear = () => setQuery(Object.fromEntries(FILTERS.map((name) => [name, ""])));
  return html`<div class="toolbar" role="search">
    <${Search} label="Find a job" value=${field("text")} set=${querySetter("text")} />
    <${Select} label="Queue" value=${field("queue")} options=${anyOf("all", queues)} set=${querySetter("queue")} />
    <${Select}
      label="User"
      value=${field("user")}
      options=${anyOf("all", withCurrent(users, field("user")))}
      set=${querySetter("user")}
    />
    <${Select}
      label="Phase"
      value=${field("phase")}
      options=${[["", "all"], ["waiting", "waits"], ...phases]}
      set=${querySetter("phase")}
    />
    <${Select} label="Sort by" value=${field("sort")} options=${SORTS} set=${querySetter("sort")} />
    ${
      field("namespace") &&
      html`<button type="button" onClick=${() => setQuery({ namespace: "" })}>Namespace ${field("namespace")} ✕</button>`
    }
    ${filtered && html`<button type="button" onClick=${clear}>Clear</button>`}
    <span class="quiet count">
      ${shown && (filtered ? `${number(shown.matched)} of ${counted(shown.total, "job")}` : counted(shown.total, "job"))}
    </span>
  </div>`;
}

/**
 * Further pages of the list, fetched on request. They are a snapshot: only the first page stays current.
 * @param {{path: string, next: string | null}} props
 */
function More({ path, next }) {
  const [pages, setPages] = useState(/** @type {JobsDocument[]} */ ([]));
  const last = pages.at(-1);
  const token = last ? last.continue : next;
  const load = async () => {
    const page = await getDocument(`${path}&continue=${encodeURIComponent(token ?? "")}`);
    setPages([...pages, page]);
  };
  return html`${pages.map((page) => html`<${JobTable} jobs=${page.jobs} />`)}
  ${token && html`<p class="more"><button type="button" onClick=${load}>Show more</button></p>`}`;
}
