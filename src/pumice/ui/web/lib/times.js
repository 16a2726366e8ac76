/**
 * Instants in the viewer's zone, and spans in words. Instants are RFC 3339 texts, as the server sends them.
 * @module
 */

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/**
 * @param {string | null | undefined} instant
 * @returns {string} the time of day, with the date if that is not today
 */
export function clock(instant) {
  if (!instant) return "–";
  const at = new Date(instant);
  const today = at.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(at) : `${DAY.format(at)} ${CLOCK.format(at)}`;
}

/**
 * @param {string} instant
 * @returns {string} date, time and zone
 */
export function fullTime(instant) {
  return FULL.format(new Date(instant));
}

/**
 * @param {string | null | undefined} instant
 * @param {number} [now] in milliseconds
 * @returns {number | null} seconds from the instant until now; negative in the future
 */
export function secondsSince(instant, now = Date.now()) {
  return instant ? (now - Date.parse(instant)) / 1000 : null;
}

/**
 * @param {number} seconds
 * @returns {string} such as "12 s", "3 min 20 s", "2 h 5 min", "4 d 3 h"
 */
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return joined(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return joined(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return joined(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

/**
 * @param {number} large
 * @param {string} largeUnit
 * @param {number} small
 * @param {string} smallUnit
 * @returns {string}
 */
function joined(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}
