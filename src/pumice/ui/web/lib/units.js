/**
 * Amounts and shares as people say them: cores, GiB, GPUs, per cent.
 * @module
 */

/** @typedef {import("./contract.js").Amounts} Amounts */
/** @typedef {import("./contract.js").Resource} Resource */

/** @type {Map<string, Resource>} what the server says about showing each resource */
const RESOURCES = new Map();

/** @param {Resource[]} resources in the order in which to show them */
export function setResources(resources) {
  RESOURCES.clear();
  for (const resource of resources) RESOURCES.set(resource.name, resource);
}

/** @returns {Resource[]} */
export function resources() {
  return [...RESOURCES.values()];
}

// Making a formatter takes a hundred times as long as using it.
const FORMATS = [0, 1, 2].map((digits) => new Intl.NumberFormat(undefined, { maximumFractionDigits: digits }));

/**
 * @param {number} value
 * @param {number} digits after the point, 0 to 2
 * @returns {string}
 */
function formatted(value, digits) {
  return FORMATS[digits]?.format(value) ?? String(value);
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/**
 * Three significant digits at most, without trailing zeros; thousands grouped by the viewer's habits.
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return formatted(value, digits);
}

/**
 * @param {number} bytes
 * @returns {string}
 */
export function bytes(bytes) {
  let value = bytes;
  let step = 0;
  while (Math.abs(value) >= 1024 && step < BINARY.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${number(value)} ${BINARY[step]}`;
}

/**
 * @param {string} resource
 * @returns {string} what the resource is called on the pages: "CPU", "Memory", "GPU"
 */
export function resourceLabel(resource) {
  return RESOURCES.get(resource)?.label ?? resource;
}

/**
 * @param {string} resource
 * @returns {number} how many base units make one that people read
 */
export function scaleOf(resource) {
  return RESOURCES.get(resource)?.scale ?? 1;
}

/**
 * @param {string} resource
 * @param {number} value in the base unit
 * @returns {string} such as "12 cores", "3.5 GiB", "1 GPU"
 */
export function amount(resource, value) {
  const known = RESOURCES.get(resource);
  if (!known) return `${number(value)} ${resource}`;
  if (known.unit === "byte") return bytes(value);
  const shown = value / known.scale;
  const unit = shown === 1 ? known.display.replace(/s$/, "") : known.display;
  return `${number(shown)} ${unit}`;
}

/**
 * @param {Amounts | null | undefined} amounts
 * @returns {string} such as "12 cores, 3.5 GiB"; "nothing" where all is zero
 */
export function amountList(amounts) {
  const parts = resourceOrder(Object.keys(amounts ?? {}))
    .filter((resource) => (amounts?.[resource] ?? 0) !== 0)
    .map((resource) => amount(resource, amounts?.[resource] ?? 0));
  return parts.length ? parts.join(", ") : "nothing";
}

/**
 * @param {string[]} names
 * @returns {string[]} in the server's order, then by name
 */
export function resourceOrder(names) {
  const known = [...RESOURCES.keys()];
  const rank = (/** @type {string} */ name) => (RESOURCES.has(name) ? known.indexOf(name) : known.length);
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0));
}

/**
 * @param {Amounts | null | undefined} amounts
 * @param {Amounts} capacity
 * @returns {number} the largest part of the capacity among all resources
 */
export function dominantShare(amounts, capacity) {
  let most = 0;
  for (const [resource, value] of Object.entries(amounts ?? {})) {
    const all = capacity[resource] ?? 0;
    if (resource !== "pods" && all > 0) most = Math.max(most, value / all);
  }
  return most;
}

/**
 * @param {number | null | undefined} share 1 is all
 * @returns {string}
 */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  const digits = Math.abs(value) < 10 ? 1 : 0;
  const rounded = Number(value.toFixed(digits)) || 0; // never "-0"
  return `${formatted(rounded, digits)}%`;
}

/**
 * @param {number | null | undefined} want the part of its target that is missing; negative: that it has beyond it
 * @returns {string} "13% short", "9% over" or "even"
 */
export function shortOrOver(want) {
  if (want === null || want === undefined) return "–";
  const text = percent(Math.abs(want));
  return text === "0%" ? "even" : `${text} ${want > 0 ? "short" : "over"}`;
}

const UID = /-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;

/**
 * @param {string} text
 * @returns {string} without the UIDs that names of PodGroups end with
 */
export function withoutUids(text) {
  return text.replace(UID, "");
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 * @returns {string} "1 task", "3 tasks"
 */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
