/**
 * Topics that components follow. Many changes within a frame render once.
 * @module
 */

import { useEffect, useState } from "./html.js";

/** A topic with listeners, which are called in the next frame after a change. */
export class Topic {
  constructor() {
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.pending = false;
  }

  changed() {
    if (this.pending) return;
    this.pending = true;
    schedule(() => {
      this.pending = false;
      for (const listener of [...this.listeners]) listener();
    });
  }

  /**
   * @param {() => void} listener
   * @returns {() => void} ends it
   */
  follow(listener) {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}

/**
 * A frame is never drawn in a hidden tab, and its page should still be current when it is shown.
 * @param {() => void} work
 */
function schedule(work) {
  if (document.hidden) setTimeout(work, 250);
  else requestAnimationFrame(work);
}

/**
 * Renders the component again when the topic changes.
 * @param {Topic} topic
 */
export function useTopic(topic) {
  const [, bump] = useState(0);
  useEffect(() => topic.follow(() => bump((count) => count + 1)), [topic]);
}
