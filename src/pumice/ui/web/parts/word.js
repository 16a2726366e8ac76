/**
 * A word with its explanation: dotted underline, shown on hover, focus or click, closed by Escape. One bubble for the
 * whole page, outside every scrolling box.
 * @module
 */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { WORDS } from "../lib/words.js";

const OPENED = "pumice:word";
const BUBBLE = "word-bubble";

/**
 * @param {{is: keyof typeof WORDS & string, children?: import("../lib/html.js").Children}} props children: the text, if
 *   it differs from the word's title
 */
export function Word({ is, children }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const word = WORDS[is];
  const tell = (/** @type {boolean} */ open) =>
    dispatchEvent(new CustomEvent(OPENED, { detail: open ? { is, at: button.current } : null }));
  useEffect(() => () => tell(false), []);
  return html`<button
    ref=${button}
    type="button"
    class="word"
    aria-describedby=${BUBBLE}
    onMouseEnter=${() => tell(true)}
    onMouseLeave=${() => tell(false)}
    onFocus=${() => tell(true)}
    onBlur=${() => tell(false)}
    onClick=${(/** @type {Event} */ event) => {
      event.stopPropagation();
      tell(true);
    }}
  >
    ${children ?? word?.title}
  </button>`;
}

/** The bubble; once per page. */
export function WordBubble() {
  const [open, setOpen] = useState(/** @type {{is: string, at: HTMLElement} | null} */ (null));
  const bubble = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const onOpened = (/** @type {any} */ event) => setOpen(event.detail);
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") setOpen(null);
    };
    const close = () => setOpen(null);
    addEventListener(OPENED, onOpened);
    addEventListener("keydown", onKey);
    addEventListener("scroll", close, true);
    return () => {
      removeEventListener(OPENED, onOpened);
      removeEventListener("keydown", onKey);
      removeEventListener("scroll", close, true);
    };
  }, []);
  useLayoutEffect(() => {
    const box = bubble.current;
    if (!open || !box) return;
    const anchor = open.at.getBoundingClientRect();
    const width = box.offsetWidth;
    const left = Math.max(8, Math.min(anchor.left, innerWidth - width - 8));
    const below = anchor.bottom + 6;
    const top = below + box.offsetHeight < innerHeight ? below : Math.max(8, anchor.top - box.offsetHeight - 6);
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  }, [open]);
  const word = open ? WORDS[open.is] : null;
  return html`<div ref=${bubble} id=${BUBBLE} role="tooltip" class="bubble" hidden=${!word}>
    ${word && html`<strong>${word.title}</strong><span>${word.text}</span>`}
  </div>`;
}
