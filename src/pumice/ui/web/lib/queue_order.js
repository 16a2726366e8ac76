/**
 * Which queues a tree shows, in which order: sorted among siblings, folded, or only those that match with their parents.
 * @module
 */

/** @typedef {import("./contract.js").QueueRow} QueueRow */

/** @type {Record<string, {label: string, key: ((row: QueueRow) => number) | null}>} larger first; null: by name */
export const SORTS = {
  name: { label: "Name", key: null },
  used: { label: "Used", key: (row) => row.share.used ?? 0 },
  owed: { label: "Owed", key: (row) => (row.share.entitled ?? 0) - (row.share.used ?? 0) },
  borrowed: { label: "Borrowed", key: (row) => (row.share.used ?? 0) - (row.share.own ?? 0) },
  waiting: { label: "Waiting tasks", key: (row) => row.tasks.waiting },
  weight: { label: "Weight", key: (row) => row.weight ?? 0 },
};

/**
 * @typedef {object} TreeLine
 * @property {QueueRow} row
 * @property {boolean} hasChildren
 * @property {boolean} open
 * @property {number} scale the part of the cluster that the full width of its bar stands for
 */

/**
 * @param {QueueRow[]} queues parents before children
 * @param {{sort: string, closed: Set<string>, text: string}} view
 * @param {((siblings: QueueRow[]) => number) | null} scaleOf the scale of the bars of siblings; null: the whole cluster
 * @returns {TreeLine[]}
 */
export function treeLines(queues, { sort, closed, text }, scaleOf = null) {
  /** @type {Map<string | null, QueueRow[]>} */
  const children = new Map();
  const known = new Set(queues.map((row) => row.path));
  for (const row of queues) {
    const parent = row.parent !== null && known.has(row.parent) ? row.parent : null;
    const siblings = children.get(parent);
    if (siblings) siblings.push(row);
    else children.set(parent, [row]);
  }
  const shown = text ? matching(queues, text) : null;
  const key = SORTS[sort]?.key ?? null;
  /** @type {TreeLine[]} */
  const lines = [];
  /** @type {Map<string | null, number>} */
  const scales = new Map();
  if (scaleOf) for (const [parent, siblings] of children) scales.set(parent, scaleOf(siblings));
  /** @type {QueueRow[]} a stack instead of recursion: trees may be deep */
  const stack = sorted(children.get(null) ?? [], key).reverse();
  for (let row = stack.pop(); row; row = stack.pop()) {
    if (shown && !shown.has(row.path)) continue;
    const below = children.get(row.path) ?? [];
    const open = shown !== null || !closed.has(row.path);
    lines.push({ row, hasChildren: below.length > 0, open, scale: scales.get(row.parent) || 1 });
    if (open) stack.push(...sorted(below, key).reverse());
  }
  return lines;
}

/**
 * @param {QueueRow[]} rows
 * @param {((row: QueueRow) => number) | null} key
 * @returns {QueueRow[]}
 */
function sorted(rows, key) {
  return key ? [...rows].sort((a, b) => key(b) - key(a) || (a.name < b.name ? -1 : 1)) : [...rows];
}

/**
 * @param {QueueRow[]} queues
 * @param {string} text
 * @returns {Set<string>} paths of the queues whose name holds the text, and of all above them
 */
function matching(queues, text) {
  const wanted = text.toLowerCase();
  const byPath = new Map(queues.map((row) => [row.path, row]));
  /** @type {Set<string>} */
  const shown = new Set();
  for (const row of queues) {
    if (!row.name.toLowerCase().includes(wanted)) continue;
    for (let at = /** @type {QueueRow | undefined} */ (row); at && !shown.has(at.path); ) {
      shown.add(at.path);
      at = at.parent === null ? undefined : byPath.get(at.parent);
    }
  }
  return shown;
}
