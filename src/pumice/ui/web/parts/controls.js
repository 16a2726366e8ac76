/**
 * Small parts that every page uses: fields, states of loading, tables, badges.
 * @module
 */

import { html, useEffect, useRef, useState } from "../lib/html.js";
import { clusterNow, useLiveState } from "../lib/live.js";
import { clock, fullTime, secondsSince, span } from "../lib/times.js";

/** @typedef {import("../lib/html.js").Children} Children */

const TYPING = 150; // milliseconds after the last key before the field counts as typed

/**
 * A search field; "/" moves there.
 * @param {{label: string, value: string, set: (value: string) => void}} props
 */
export function Search({ label, value, set }) {
  const [typed, setTyped] = useState(value);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => set(typed), TYPING);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      const inField = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key !== "/" || inField || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return html`<label class="field search">
    <span class="sr-only">${label}</span>
    <input
      ref=${input}
      type="search"
      placeholder=${label}
      value=${typed}
      autocomplete="off"
      spellcheck=${false}
      onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)}
    />
  </label>`;
}

/** @param {{label: string, value: string, options: [string, string][], set: (value: string) => void}} props */
export function Select({ label, value, options, set }) {
  return html`<label class="field">
    <span>${label}</span>
    <select value=${value} onChange=${(/** @type {any} */ event) => set(event.currentTarget.value)}>
      ${options.map(([name, text]) => html`<option value=${name} selected=${name === value}>${text}</option>`)}
    </select>
  </label>`;
}

/**
 * One of a few choices, all visible.
 * @param {{label: string, value: string, options: [string, string][], set: (value: string) => void}} props
 */
export function Choice({ label, value, options, set }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(
      ([name, text]) =>
        html`<button type="button" aria-pressed=${String(name === value)} onClick=${() => set(name)}>${text}</button>`,
    )}
  </div>`;
}

/** @param {{what: string}} props */
export function Loading({ what }) {
  return html`<p class="empty" role="status">Loading ${what} …</p>`;
}

/**
 * In place of a live document: that it loads, or why it does not come.
 * @param {{document: string, what: string}} props
 */
export function Missing({ document, what }) {
  const failure = useLiveState().failures.get(document);
  return failure ? html`<div class="page"><${Failure} error=${failure} /></div>` : html`<${Loading} what=${what} />`;
}

/** @param {{error: import("../lib/api.js").ApiError}} props */
export function Failure({ error }) {
  return html`<div class="card failure" role="alert">
    <strong>${error.reason === "NotFound" ? "Not found" : "No answer"}</strong>
    <p>${error.message}</p>
  </div>`;
}

/** @param {{title: Children, class?: string, aside?: Children, children?: Children}} props */
export function Card({ title, aside, children, class: name = "" }) {
  return html`<section class=${`card ${name}`}>
    <header class="card-head"><h2>${title}</h2>${aside}</header>
    ${children}
  </section>`;
}

/** @param {{phase: string}} props */
export function Phase({ phase }) {
  const mark = /** @type {Record<string, string>} */ ({
    Running: "●",
    running: "●",
    Inqueue: "◐",
    starting: "◐",
    Pending: "○",
    waiting: "○",
    Completed: "✓",
    succeeded: "✓",
    failed: "✕",
    ending: "↓",
  })[phase];
  return html`<span class=${`phase phase-${phase.toLowerCase()}`}><span aria-hidden="true">${mark ?? "?"}</span> ${phase}</span>`;
}

/** @param {{at: string | null | undefined}} props an instant, in the viewer's zone */
export function Time({ at }) {
  if (!at) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${at} title=${fullTime(at)}>${clock(at)}</time>`;
}

/** @param {{since: string | null | undefined}} props how long ago, kept current */
export function Age({ since }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 5000);
    return () => clearInterval(timer);
  }, []);
  const seconds = secondsSince(since, clusterNow());
  if (seconds === null || !since) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${since} title=${fullTime(since)}>${span(seconds)}</time>`;
}

/**
 * A thin bar for a part of a whole, with the number beside it in its cell.
 * @param {{share: number | null, label: string}} props
 */
export function MiniBar({ share, label }) {
  const width = `${(Math.max(0, Math.min(1, share ?? 0)) * 100).toFixed(1)}%`;
  return html`<svg class="mini-bar" role="img" aria-label=${label} width="100%" height="8">
    <rect class="bar-ground" width="100%" height="8" rx="2" /><rect class="bar-used" width=${width} height="8" rx="2" />
  </svg>`;
}

/**
 * A table that scrolls sideways in its own box where the page is narrow.
 * @param {{label: string, head: Children[], numeric?: number[], class?: string, children?: Children}} props numeric:
 *   columns of numbers
 */
export function Table({ label, head, numeric = [], class: name = "", children }) {
  return html`<div class=${`table-box ${name}`} tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead>
        <tr>
          ${head.map((title, column) => html`<th scope="col" class=${numeric.includes(column) ? "num" : ""}>${title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${children}
      </tbody>
    </table>
  </div>`;
}
