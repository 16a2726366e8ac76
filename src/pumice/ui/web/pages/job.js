/**
 * Job: why it waits, its tasks and their places, and what happened to it.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { live } from "../lib/live.js";
import { address, Link } from "../lib/router.js";
import { amountList, counted, number, percent, withoutUids } from "../lib/units.js";
import { Age, Card, Failure, Loading, Phase, Table, Time } from "../parts/controls.js";
import { queueAddress } from "../parts/tree_grid.js";
import { WhyCard } from "../parts/why_card.js";
import { Word } from "../parts/word.js";

/** @typedef {import("../lib/contract.js").JobDocument} JobDocument */

/** @param {{namespace: string, name: string}} props */
export function JobPage({ namespace, name }) {
  const path = `/api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  /** @type {import("../lib/documents.js").Fetched<JobDocument>} */
  const { document, error } = useDocument(path, {
    concerns: (changed) => concernsJob(changed, `${namespace}/${name}`),
  });
  if (!document)
    return error
      ? html`<div class="page"><${Failure} error=${error} /></div>`
      : html`<${Loading} what=${`job ${namespace}/${name}`} />`;
  return html`<article class="page">
    <${Head} document=${document} />
    ${live.about?.features.why && html`<${WhyCard} namespace=${namespace} name=${name} />`}
    <div class="columns two-one">
      <${Tasks} document=${document} />
      <${Places} document=${document} />
    </div>
    <${Events} document=${document} />
  </article>`;
}

/**
 * @param {import("../lib/live.js").Changed} changed
 * @param {string} key
 * @returns {boolean}
 */
function concernsJob(changed, key) {
  return changed.keys === null || (changed.keys?.includes(key) ?? false);
}

/** @param {{document: JobDocument}} props */
function Head({ document }) {
  const { job, path } = document;
  const { tasks } = job;
  return html`<header class="page-head">
    <nav aria-label="Path">
      <ol class="crumbs">
        <li><${Link} to="/">All queues<//></li>
        ${path.map((row) => html`<li><${Link} to=${queueAddress(row)}>${row.name}<//></li>`)}
      </ol>
    </nav>
    <h1>${job.name} <${Word} is="phase"><${Phase} phase=${job.phase} /><//></h1>
    <dl class="facts">
      <div><dt>Namespace</dt><dd>${job.namespace}</dd></div>
      <div><dt>Kind</dt><dd>${job.kind}</dd></div>
      <div><dt>User</dt><dd>${job.user ?? "–"}</dd></div>
      ${job.priorityClass && html`<div><dt>Priority</dt><dd>${job.priorityClass}</dd></div>`}
      <div><dt>Created</dt><dd><${Age} since=${job.created} /> ago</dd></div>
      <div>
        <dt>Tasks</dt>
        <dd>${taskCounts(tasks)}</dd>
      </div>
      ${tasks.minimum > 1 && html`<div><dt><${Word} is="gang">Start together<//></dt><dd>${number(tasks.minimum)}</dd></div>`}
      <div>
        <dt><${Word} is="used" /></dt><dd>${amountList(job.used)} <small>${percent(job.share)} of the cluster</small></dd>
      </div>
    </dl>
  </header>`;
}

/**
 * @param {import("../lib/contract.js").JobRow["tasks"]} tasks
 * @returns {string} the states that occur
 */
function taskCounts({ running, starting, waiting, succeeded, failed }) {
  const states = Object.entries({ running, starting, waiting, succeeded, failed });
  const present = states.filter(([, count]) => count > 0).map(([state, count]) => `${number(count)} ${state}`);
  return present.join(", ") || "none";
}

/** @param {{document: JobDocument}} props */
function Tasks({ document }) {
  const hidden = document.tasksTotal - document.tasks.length;
  return html`<${Card} title="Tasks" aside=${html`<span class="quiet">${counted(document.tasksTotal, "pod")}</span>`}>
    ${
      document.tasks.length
        ? html`<div class="tall"><${Table} label="Tasks" head=${["Pod", "State", "Node", "Requests", "Since"]} numeric=${[4]}>
            ${document.tasks.map(
              (task) =>
                html`<tr>
                  <th scope="row">${task.name}</th>
                  <td title=${task.message || undefined}>
                    <${Phase} phase=${task.state} />${task.reason && html` <small>${task.reason}</small>`}
                  </td>
                  <td>
                    ${task.node ? html`<${Link} to=${address(["nodes", task.node])}>${task.node}<//>` : html`<span class="quiet">–</span>`}
                  </td>
                  <td>${amountList(task.request)}</td>
                  <td class="num"><${Age} since=${task.started ?? task.created} /></td>
                </tr>`,
            )}
          <//></div>`
        : html`<p class="quiet">No pods yet.</p>`
    }
    ${hidden > 0 && html`<p class="quiet">and ${number(hidden)} more</p>`}
  <//>`;
}

/** @param {{document: JobDocument}} props */
function Places({ document }) {
  return html`<${Card} title="Places">
    ${
      document.places.length
        ? html`<ul class="places">
            ${document.places.map(
              (place) =>
                html`<li>
                  <${Link} to=${address(["nodes", place.node])}>${place.node}<//>
                  <span class="quiet">${counted(place.tasks, "task")}</span>
                </li>`,
            )}
          </ul>`
        : html`<p class="quiet">None of its tasks has a node.</p>`
    }
  <//>`;
}

/** @param {{document: JobDocument}} props */
function Events({ document }) {
  return html`<${Card} title="Events">
    ${
      document.events.length
        ? html`<div class="tall"><${Table} label="Events" head=${["Time", "Reason", "Message", "Object", "Count"]} numeric=${[4]}>
            ${document.events.map(
              (event) =>
                html`<tr>
                  <td class="nowrap"><${Time} at=${event.time} /></td>
                  <td>${event.type === "Warning" ? html`<span class="badge warn">${event.reason}</span>` : event.reason}</td>
                  <td class="message">${withoutUids(event.message)}</td>
                  <td title=${event.object}>${withoutUids(event.object)}</td>
                  <td class="num">${number(event.count)}</td>
                </tr>`,
            )}
          <//></div>`
        : html`<p class="quiet">No events.</p>`
    }
  <//>`;
}
