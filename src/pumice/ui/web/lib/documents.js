/**
 * Documents of one page (a queue, a job, a filtered list): fetched when shown, and again after the changes that concern
 * them, at most once a second.
 * @module
 */

import { ApiError, getDocument } from "./api.js";
import { useEffect, useState } from "./html.js";
import { live } from "./live.js";

const SHORTEST_WAIT = 1000;

/**
 * @template T
 * @typedef {{document: T | null, error: ApiError | null, loading: boolean}} Fetched
 */

/**
 * @template T
 * @param {string | null} path null: nothing to fetch yet
 * @param {object} options
 * @param {(changed: import("./live.js").Changed) => boolean} [options.concerns] whether a change makes the document stale
 * @param {number} [options.every] milliseconds after which it is stale without a change
 * @param {number} [options.wait] milliseconds between two requests at least
 * @returns {Fetched<T>} the document of an earlier path is not kept
 */
export function useDocument(path, { concerns = () => false, every = 0, wait = SHORTEST_WAIT }) {
  const [state, setState] = useState(/** @type {{path: string | null} & Fetched<T>} */ (empty(path)));
  useEffect(() => {
    setState((held) => (held.path === path ? held : empty(path)));
    if (path === null) return undefined;
    const abort = new AbortController();
    const poll = new Poll(wait, () => load(path, abort.signal, setState));
    const listener = (/** @type {import("./live.js").Changed} */ changed) => {
      if (concerns(changed)) poll.ask();
    };
    live.changeListeners.add(listener);
    const timer = every ? setInterval(() => poll.ask(), every) : 0;
    poll.ask();
    return () => {
      clearInterval(timer);
      live.changeListeners.delete(listener);
      poll.stop();
      abort.abort();
    };
  }, [path]);
  return state.path === path ? state : /** @type {any} */ (empty(path));
}

/** @param {string | null} path */
function empty(path) {
  return { path, document: null, error: null, loading: true };
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {(next: any) => void} setState
 */
async function load(path, signal, setState) {
  try {
    const document = await getDocument(path, signal);
    if (!signal.aborted) setState({ path, document, error: null, loading: false });
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    setState((/** @type {any} */ held) => ({ ...held, path, error, loading: false }));
  }
}

/** Runs a request when asked, one at a time, and waits between two. */
class Poll {
  /**
   * @param {number} wait
   * @param {() => Promise<void>} request
   */
  constructor(wait, request) {
    this.wait = wait;
    this.request = request;
    this.asked = false;
    this.busy = false;
    this.stopped = false;
  }

  ask() {
    this.asked = true;
    if (!this.busy && !this.stopped) void this.run();
  }

  async run() {
    this.busy = true;
    while (this.asked && !this.stopped) {
      this.asked = false;
      await this.request();
      await new Promise((resolve) => setTimeout(resolve, this.wait));
    }
    this.busy = false;
  }

  stop() {
    this.stopped = true;
  }
}
