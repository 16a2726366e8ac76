/**
 * A window onto a long list: only the rows in view, and a few beyond, are in the document.
 * @module
 */

import { useEffect, useState } from "./html.js";

const BEYOND = 8;

/**
 * @param {{current: HTMLElement | null}} box the element that scrolls
 * @param {number} count
 * @param {number} rowHeight
 * @returns {{first: number, end: number}} rows to render: first <= row < end
 */
export function useWindow(box, count, rowHeight) {
  const [view, setView] = useState({ top: 0, height: 800 });
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let frame = 0;
    const measure = () => {
      frame = 0;
      setView((held) =>
        held.top === element.scrollTop && held.height === element.clientHeight
          ? held
          : { top: element.scrollTop, height: element.clientHeight },
      );
    };
    const later = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    element.addEventListener("scroll", later, { passive: true });
    const resized = new ResizeObserver(later);
    resized.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", later);
      resized.disconnect();
    };
  }, [box.current]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const end = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  return { first: Math.min(first, Math.max(0, end - 1)), end };
}

/**
 * @param {string} query a media query
 * @returns {boolean} whether it holds, kept current
 */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const update = () => setHolds(media.matches);
    media.addEventListener("change", update);
    return () => media.removeEventListener("change", update);
  }, [query]);
  return holds;
}

/** The width below which rows take two lines, as in the style sheet. */
export const NARROW = "(max-width: 760px)";
