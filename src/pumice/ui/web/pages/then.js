/**
 * Then: the tree as it was at a time in the decision log, chosen by a slider.
 * @module
 */

import { useDocument } from "../lib/documents.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { live } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { clock, fullTime } from "../lib/times.js";
import { counted, number } from "../lib/units.js";
import { Failure, Loading } from "../parts/controls.js";
import { Word } from "../parts/word.js";
import { TreeView } from "./tree.js";

/** @typedef {import("../lib/contract.js").ThenSpan} ThenSpan */
/** @typedef {import("../lib/contract.js").ThenDocument} ThenDocument */

const STEPS = 1000;
const SETTLE = 250; // milliseconds without a move of the slider before the tree is fetched

/** @param {{query: URLSearchParams}} props */
export function ThenPage({ query }) {
  if (live.about?.features.then) return html`<${ThenView} query=${query} />`;
  return html`<div class="page">
    <h1>The tree as it was</h1>
    <p>
      This server has no decision log. Start it with <code>pumice ui --decision-log DIR</code>, where DIR is the folder that
      the scheduler writes its log to.
    </p>
  </div>`;
}

/** @param {{query: URLSearchParams}} props */
function ThenView({ query }) {
  /** @type {import("../lib/documents.js").Fetched<ThenSpan>} */
  const span = useDocument("/api/then", { every: 5000 });
  // The log grows while the page is open. Each tree is a replay in the server, so a new end is fetched on request only.
  const [latest, setLatest] = useState(/** @type {string | null} */ (null));
  const until = span.document?.until ?? null;
  useEffect(() => {
    if (latest === null) setLatest(until);
  }, [until]);
  const asked = query.get("time") ?? latest;
  /** @type {import("../lib/documents.js").Fetched<ThenDocument>} */
  const then = useDocument(asked ? `/api/then?time=${encodeURIComponent(asked)}` : null, {});
  const held = useRef(/** @type {ThenDocument | null} */ (null));
  if (then.document) held.current = then.document;
  if (!span.document)
    return span.error
      ? html`<div class="page"><${Failure} error=${span.error} /></div>`
      : html`<${Loading} what="the decision log" />`;
  const shown = held.current;
  return html`<section class="page fill then" aria-label="The tree as it was">
    <h1 class="sr-only">The tree as it was</h1>
    <${Slider}
      span=${span.document}
      asked=${asked}
      loading=${then.loading}
      shown=${shown}
      follow=${() => setLatest(until)}
    />
    ${then.error && html`<${Failure} error=${then.error} />`}
    ${
      shown
        ? html`<${TreeView} tree=${shown} query=${query} label="Queues as they were" />`
        : !then.error && html`<${Loading} what="the tree" />`
    }
  </section>`;
}

/**
 * @param {{
 *   span: ThenSpan, asked: string | null, loading: boolean, shown: ThenDocument | null, follow: () => void
 * }} props follow: goes to the end of the log
 */
function Slider({ span, asked, loading, shown, follow }) {
  // The log grows while the page is open; the ends stay where they were, so that the slider does not move by itself.
  const [ends, setEnds] = useState({ from: Date.parse(span.from), until: Date.parse(span.until) });
  const length = Math.max(1, ends.until - ends.from);
  const position = asked ? ((Date.parse(asked) - ends.from) / length) * STEPS : STEPS;
  const [moved, setMoved] = useState(/** @type {number | null} */ (null));
  useEffect(() => {
    if (moved === null) return undefined;
    const timer = setTimeout(() => {
      setQuery({ time: new Date(ends.from + (moved / STEPS) * length).toISOString() });
      setMoved(null);
    }, SETTLE);
    return () => clearTimeout(timer);
  }, [moved]);
  const at = moved === null ? (asked ?? span.until) : new Date(ends.from + (moved / STEPS) * length).toISOString();
  const evictions = span.marks.reduce((sum, mark) => sum + mark.count, 0);
  const most = Math.max(1, ...span.marks.map((mark) => mark.count));
  const jump = (/** @type {string | null | undefined} */ to) => to && setQuery({ time: to });
  return html`<div class="slider card">
    <div class="slider-head">
      <div>
        <strong class="slider-time">${clock(at)}</strong>
        <span class="quiet">
          ${fullTime(at)}${shown && !loading && html` · <${Word} is="cycle">cycle<//> ${number(shown.then.cycle)}`}
        </span>
      </div>
      <div class="buttons">
        <button type="button" disabled=${!shown?.then.before} onClick=${() => jump(shown?.then.before)}>
          ‹ Earlier decision
        </button>
        <button type="button" disabled=${!shown?.then.after} onClick=${() => jump(shown?.then.after)}>
          Later decision ›
        </button>
        <button type="button" onClick=${() => {
          setEnds({ from: Date.parse(span.from), until: Date.parse(span.until) });
          follow();
          setQuery({ time: null });
        }}>Latest</button>
      </div>
    </div>
    <svg class="marks" width="100%" height="16" aria-hidden="true">
      ${span.marks.map((mark) => {
        const x = `${(((Date.parse(mark.time) - ends.from) / length) * 100).toFixed(2)}%`;
        return html`<line class="mark" x1=${x} x2=${x} y1=${16 - 4 - 12 * (mark.count / most)} y2="16" />`;
      })}
    </svg>
    <input
      type="range"
      min="0"
      max=${STEPS}
      step="1"
      value=${moved ?? position}
      aria-label="Time"
      aria-valuetext=${fullTime(at)}
      onInput=${(/** @type {any} */ event) => setMoved(Number(event.currentTarget.value))}
    />
    <div class="slider-ends quiet">
      <span>${clock(new Date(ends.from).toISOString())}</span>
      <span role="status">${loading ? "Replaying the log …" : evictions ? counted(evictions, "eviction") : ""}</span>
      <span>${clock(new Date(ends.until).toISOString())}</span>
    </div>
  </div>`;
}
