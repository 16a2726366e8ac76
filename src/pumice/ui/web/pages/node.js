/**
 * Node: what it offers, what is used of it, and which pods of which queues are on it.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html } from "../lib/html.js";
import { address, Link } from "../lib/router.js";
import { amount, amountList, counted, number, percent, resourceLabel, resourceOrder } from "../lib/units.js";
import { Age, Card, Failure, Loading, MiniBar, Phase, Table } from "../parts/controls.js";
import { keyAddress } from "../parts/job_table.js";

/** @typedef {import("../lib/contract.js").NodeDocument} NodeDocument */

const COLUMNS = ["Pod", "Job", "Queue", "User", "State", "Requests", "Since"];

/** @param {{name: string}} props */
export function NodePage({ name }) {
  /** @type {import("../lib/documents.js").Fetched<NodeDocument>} */
  const { document, error } = useDocument(`/api/nodes/${encodeURIComponent(name)}`, {
    concerns: (changed) => changed.nodes === null || (changed.nodes?.includes(name) ?? false),
  });
  if (!document)
    return error
      ? html`<div class="page"><${Failure} error=${error} /></div>`
      : html`<${Loading} what=${`node ${name}`} />`;
  const { node } = document;
  const names = resourceOrder(Object.keys(node.offered));
  return html`<article class="page">
    <header class="page-head">
      <nav aria-label="Path"><ol class="crumbs"><li><${Link} to="/nodes">All nodes<//></li></ol></nav>
      <h1>
        ${node.name} ${node.state !== "Ready" && html`<span class="badge warn">${node.state}</span>`}
        ${!node.schedulable && html`<span class="badge warn">cordoned</span>`}
      </h1>
      <dl class="facts">
        <div><dt>Tasks</dt><dd>${number(node.tasks)}</dd></div>
        ${node.others > 0 && html`<div><dt>Pods of other schedulers</dt><dd>${number(node.others)}</dd></div>`}
        <div><dt>Created</dt><dd><${Age} since=${document.created} /> ago</dd></div>
      </dl>
    </header>
    <div class="columns">
      <${Card} title="Resources">
        <${Table} label="Resources of the node" head=${["Resource", "Used", "Of", "", ""]} numeric=${[1, 2, 4]}>
          ${names.map((resource) => {
            const offered = node.offered[resource] ?? 0;
            const used = node.used[resource] ?? 0;
            const share = offered > 0 ? used / offered : 0;
            return html`<tr>
              <th scope="row">${resourceLabel(resource)}</th>
              <td class="num">${amount(resource, used)}</td>
              <td class="num">${amount(resource, offered)}</td>
              <td class="bar">
                <${MiniBar} share=${share} label=${`${percent(share)} of ${resourceLabel(resource)} used`} />
              </td>
              <td class="num">${percent(share)}</td>
            </tr>`;
          })}
        <//>
      <//>
      <${Card} title="Labels and taints">
        <ul class="labels">
          ${document.taints.map(
            ({ key, value, effect }) => html`<li class="badge warn">${key}${value && `=${value}`}:${effect}</li>`,
          )}
          ${Object.entries(document.labels).map(([key, value]) => html`<li class="badge">${key}${value && `=${value}`}</li>`)}
        </ul>
      <//>
    </div>
    <${Card} title="Pods" aside=${html`<span class="quiet">${counted(document.podsTotal, "pod")}</span>`}>
      ${
        document.pods.length
          ? html`<${Table} label="Pods on the node" head=${COLUMNS} numeric=${[6]}>
              ${document.pods.map(
                (pod) =>
                  html`<tr>
                    <th scope="row">${pod.name} <small>${pod.namespace}</small></th>
                    <td>
                      ${pod.job ? html`<${Link} to=${keyAddress(pod.job)}>${pod.job}<//>` : html`<span class="quiet">${pod.scheduler}</span>`}
                    </td>
                    <td>${pod.queue ? html`<${Link} to=${address(["queues", pod.queue])}>${pod.queue}<//>` : "–"}</td>
                    <td>${pod.user ?? "–"}</td>
                    <td><${Phase} phase=${pod.state} /></td>
                    <td>${amountList(pod.request)}</td>
                    <td class="num"><${Age} since=${pod.started} /></td>
                  </tr>`,
              )}
            <//>`
          : html`<p class="quiet">No pods.</p>`
      }
      ${
        document.podsHidden > 0 &&
        html`<p class="quiet">${counted(document.podsHidden, "pod")} in namespaces that you may not read.</p>`
      }
    <//>
  </article>`;
}
