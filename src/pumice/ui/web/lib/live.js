/**
 * The live picture of the cluster: one stream of server-sent events, and the documents that it keeps current.
 *
 * A document is fetched when a page first needs it; events then change it in place of the version they name. If they
 * name another version (events were lost, or the server restarted), the document is fetched anew. Rows that did not
 * change keep their identity, so that components can skip them.
 * @module
 */

import { ApiError, getDocument } from "./api.js";
import { useEffect } from "./html.js";
import { Topic, useTopic } from "./observers.js";
import { setResources } from "./units.js";

/** @typedef {import("./contract.js").QueueRow} QueueRow */
/** @typedef {import("./contract.js").NodeRow} NodeRow */
/** @typedef {import("./contract.js").Decision} Decision */
/** @typedef {{jobs?: number, queues?: string[] | null, keys?: string[] | null, nodes?: string[] | null}} Changed */

const SILENCE = 12_000; // milliseconds without an event after which the connection counts as lost
const KEPT_DECISIONS = 500;
const PASSING = new Set([0, 503]); // no answer, or not yet: worth another request

class LivePicture {
  constructor() {
    /** @type {import("./contract.js").About | null} */
    this.about = null;
    /** @type {import("./contract.js").TreeDocument | null} */
    this.tree = null;
    /** @type {import("./contract.js").NodesDocument | null} */
    this.nodes = null;
    /** @type {import("./contract.js").DecisionsDocument | null} */
    this.decisions = null;
    /** @type {ApiError | null} what keeps the first documents from loading */
    this.error = null;
    /** @type {Map<string, ApiError>} why a document of a page is not there, such as a right that is missing */
    this.failures = new Map();
    /** @type {"connecting" | "live" | "lost"} */
    this.connection = "connecting";
    /** @type {string[]} resources whose watch fails in the server */
    this.behind = [];
    /** @type {Set<"nodes" | "decisions">} what a page needs beside the tree */
    this.needed = new Set();
    this.topics = { tree: new Topic(), nodes: new Topic(), decisions: new Topic(), state: new Topic() };
    /** @type {Set<(changed: Changed) => void>} */
    this.changeListeners = new Set();
    this.clockOffset = 0;
    this.lastEvent = 0;
    this.epoch = "";
    /** @type {EventSource | null} */
    this.stream = null;
    /** @type {Map<string, Promise<void>>} */
    this.loading = new Map();
  }

  start() {
    this.connect();
    setInterval(() => this.checkSilence(), 1000);
    void this.loadAbout();
    void this.load("tree");
  }

  connect() {
    this.stream?.close();
    const stream = new EventSource(`/api/stream?topics=${["tree", "changed", ...this.needed].join()}`);
    this.stream = stream;
    this.lastEvent = Date.now();
    const on = (/** @type {string} */ name, /** @type {(data: any) => void} */ handle) =>
      stream.addEventListener(name, (event) => {
        this.lastEvent = Date.now();
        handle(JSON.parse(event.data));
      });
    on("hello", (data) => this.onHello(data));
    on("tree", (data) => this.onTree(data));
    on("nodes", (data) => this.onNodes(data));
    on("decisions", (data) => this.onDecisions(data));
    on("changed", (data) => this.tell(data));
    on("beat", (data) => this.onBeat(data));
    stream.addEventListener("error", () => this.onError());
  }

  /**
   * Keeps a document current while a page shows it. The stream is opened anew for its topic: the server should send no
   * more than is looked at.
   * @param {"nodes" | "decisions"} name
   */
  need(name) {
    this.needed.add(name);
    this.connect();
    void this.load(name);
  }

  /** @param {"nodes" | "decisions"} name */
  forget(name) {
    this.needed.delete(name);
    this[name] = null;
    this.connect();
  }

  onError() {
    this.setConnection("lost");
    // The browser retries by itself, except after an answer that is no stream (a proxy's error, a 401, a 503).
    if (this.stream?.readyState === EventSource.CLOSED) {
      this.stream = null;
      setTimeout(() => {
        if (!this.stream) this.connect();
      }, 1000);
    }
  }

  checkSilence() {
    if (this.stream && Date.now() - this.lastEvent > SILENCE) {
      this.setConnection("lost");
      this.connect();
    }
  }

  /** @param {"connecting" | "live" | "lost"} connection */
  setConnection(connection) {
    if (this.connection === connection) return;
    this.connection = connection;
    this.topics.state.changed();
  }

  /** @param {any} data */
  onHello(data) {
    this.setTime(data.time);
    this.setBehind(data.connection);
    this.setConnection("live");
    const restarted = this.epoch !== "" && this.epoch !== data.epoch;
    this.epoch = data.epoch;
    if (!this.about || restarted) void this.loadAbout();
    if (this.tree?.version !== data.versions.tree || restarted) void this.load("tree");
    for (const name of this.needed) {
      if (this[name]?.version !== data.versions[name] || restarted) void this.load(name);
    }
    this.tell({ queues: null, keys: null, nodes: null });
  }

  /** @param {any} data */
  onBeat(data) {
    this.setTime(data.time);
    this.setBehind(data.connection);
    this.setConnection("live");
  }

  /** @param {any} data */
  onTree(data) {
    this.setTime(data.time);
    const tree = this.tree;
    if (!tree || tree.version !== data.base) {
      if (!tree || tree.version < data.version) void this.load("tree");
      return;
    }
    /** @type {Map<string, QueueRow>} */
    const rows = new Map(tree.queues.map((row) => [row.path, row]));
    for (const row of data.changed) rows.set(row.path, row);
    for (const [path, lent] of Object.entries(data.lent)) {
      const row = rows.get(path);
      if (row) rows.set(path, { ...row, lent });
    }
    for (const path of data.removed) rows.delete(path);
    /** @type {string[]} */
    const order = data.order ?? [...rows.keys()];
    const queues = order.map((path) => rows.get(path)).filter((row) => row !== undefined);
    this.tree = {
      ...tree,
      queues,
      cluster: data.cluster,
      version: data.version,
      time: data.time,
      notes: data.notes ?? tree.notes,
    };
    this.topics.tree.changed();
  }

  /** @param {any} data */
  onNodes(data) {
    const nodes = this.nodes;
    if (!nodes) return;
    if (nodes.version !== data.base) {
      if (nodes.version < data.version) void this.load("nodes");
      return;
    }
    const rows = new Map(nodes.nodes.map((row) => [row.name, row]));
    for (const row of data.changed) rows.set(row.name, row);
    for (const name of data.removed) rows.delete(name);
    this.nodes = { ...nodes, nodes: [...rows.values()], version: data.version };
    this.topics.nodes.changed();
  }

  /** @param {any} data */
  onDecisions(data) {
    const held = this.decisions;
    if (!held) return;
    if (data.decisions === null || held.version !== data.base) {
      if (held.version < data.version) void this.load("decisions");
      return;
    }
    const decisions = [...data.decisions, ...held.decisions].slice(0, KEPT_DECISIONS);
    this.decisions = { ...held, decisions, version: data.version };
    this.topics.decisions.changed();
  }

  /** @param {Changed} changed */
  tell(changed) {
    for (const listener of [...this.changeListeners]) listener(changed);
  }

  /** @param {string} time */
  setTime(time) {
    this.clockOffset = Date.parse(time) - Date.now();
  }

  /** @param {import("./contract.js").Connection | undefined} connection */
  setBehind(connection) {
    const behind = connection?.behind ?? [];
    if (behind.join() === this.behind.join()) return;
    this.behind = behind;
    this.topics.state.changed();
  }

  async loadAbout() {
    try {
      this.about = await getDocument("/api/about");
      if (this.about) setResources(this.about.resources);
      this.error = null;
    } catch (error) {
      if (error instanceof ApiError) this.error = error;
      if (!this.about) setTimeout(() => void this.loadAbout(), 1500);
    }
    this.topics.state.changed();
    this.topics.tree.changed();
  }

  /**
   * Fetches a document once, however many ask at the same time.
   * @param {"tree" | "nodes" | "decisions"} name
   * @returns {Promise<void>}
   */
  load(name) {
    const under = this.loading.get(name);
    if (under) return under;
    const started = this.fetch(name).finally(() => this.loading.delete(name));
    this.loading.set(name, started);
    return started;
  }

  /** @param {"tree" | "nodes" | "decisions"} name */
  async fetch(name) {
    try {
      this[name] = await getDocument(name === "decisions" ? `/api/decisions?limit=${KEPT_DECISIONS}` : `/api/${name}`);
      this.error = null;
      this.failures.delete(name);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
      this.failures.set(name, error);
      if (!this[name] && PASSING.has(error.status)) setTimeout(() => void this.load(name), 1500);
    }
    this.topics[name].changed();
    this.topics.state.changed();
  }
}

export const live = new LivePicture();

/** @returns {number} milliseconds since 1970 by the cluster's clock */
export function clusterNow() {
  return Date.now() + live.clockOffset;
}

/** @returns {import("./contract.js").TreeDocument | null} */
export function useTree() {
  useTopic(live.topics.tree);
  return live.tree;
}

/** Connection, errors and what the server can answer. */
export function useLiveState() {
  useTopic(live.topics.state);
  return live;
}

/** @returns {import("./contract.js").NodesDocument | null} */
export function useNodes() {
  useTopic(live.topics.nodes);
  useNeeded("nodes");
  return live.nodes;
}

/** @returns {import("./contract.js").DecisionsDocument | null} */
export function useDecisions() {
  useTopic(live.topics.decisions);
  useNeeded("decisions");
  return live.decisions;
}

/** @param {"nodes" | "decisions"} name */
function useNeeded(name) {
  useEffect(() => {
    live.need(name);
    return () => live.forget(name);
  }, [name]);
}
