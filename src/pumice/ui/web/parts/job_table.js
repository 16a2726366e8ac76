/**
 * Jobs as a table: what each has, what it waits for, and the scheduler's reason.
 * @module
 */

import { html } from "../lib/html.js";
import { address, Link } from "../lib/router.js";
import { amountList, number, percent } from "../lib/units.js";
import { Age, Phase, Table } from "./controls.js";
import { Word } from "./word.js";

/** @typedef {import("../lib/contract.js").JobRow} JobRow */

/**
 * @param {JobRow} job
 * @returns {string}
 */
export function jobAddress(job) {
  return keyAddress(job.key);
}

/**
 * @param {string} key NAMESPACE/NAME
 * @returns {string}
 */
export function keyAddress(key) {
  return address(["jobs", ...key.split("/")]);
}

/** @param {{jobs: JobRow[], withQueue?: boolean}} props */
export function JobTable({ jobs, withQueue = true }) {
  return html`<${Table}
    label="Jobs"
    class="jobs"
    head=${[
      "Job",
      ...(withQueue ? ["Queue"] : []),
      "User",
      html`<${Word} is="phase" />`,
      "Running",
      html`<${Word} is="waiting" />`,
      html`<${Word} is="share">Share<//>`,
      "Age",
      "Why it waits",
    ]}
    numeric=${withQueue ? [4, 5, 6, 7] : [3, 4, 5, 6]}
  >
    ${jobs.map((job) => html`<${JobLine} key=${job.key} job=${job} withQueue=${withQueue} />`)}
  <//>`;
}

/** @param {{job: JobRow, withQueue: boolean}} props */
function JobLine({ job, withQueue }) {
  const waits = job.tasks.waiting > 0 || job.phase === "Pending" || job.phase === "Inqueue";
  return html`<tr>
    <th scope="row"><${Link} to=${jobAddress(job)}>${job.name}<//> <small>${job.namespace}</small></th>
    ${withQueue && html`<td class="j-queue"><${Link} to=${address(["queues", job.queue])} class="plain">${job.queue}<//></td>`}
    <td class="j-user">${job.user ?? html`<span class="quiet">–</span>`}</td>
    <td class="j-phase"><${Phase} phase=${job.phase} /></td>
    <td class="num j-run" title=${amountList(job.used)}>${number(job.tasks.running + job.tasks.starting)}</td>
    <td class="num j-wait" title=${amountList(job.waiting)}>${number(job.tasks.waiting)}</td>
    <td class="num j-share">${percent(job.share)}</td>
    <td class="num j-age"><${Age} since=${job.created} /></td>
    <td class="message">
      ${waits && job.reason ? html`<span class="clip" title=${job.reason.message}>${job.reason.message}</span>` : ""}
    </td>
  </tr>`;
}
