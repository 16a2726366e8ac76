/**
 * The address bar: every view is a path with a query, so that it can be pasted elsewhere.
 * @module
 */

import { html, useEffect, useState } from "./html.js";

/**
 * @typedef {object} Place
 * @property {string[]} parts the decoded segments of the path
 * @property {URLSearchParams} query
 */

const CHANGED = "pumice:place";

/** @returns {Place} */
export function currentPlace() {
  const parts = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: new URLSearchParams(location.search) };
}

/**
 * @param {string} path
 * @param {{replace?: boolean}} [options] replace: no new entry in the browser's history
 */
export function go(path, options = {}) {
  if (path === location.pathname + location.search) return;
  if (options.replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  dispatchEvent(new Event(CHANGED));
}

/** @returns {Place} the place, and renders again when it changes */
export function usePlace() {
  const [place, setPlace] = useState(currentPlace);
  useEffect(() => {
    const update = () => setPlace(currentPlace());
    addEventListener("popstate", update);
    addEventListener(CHANGED, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(CHANGED, update);
    };
  }, []);
  return place;
}

/**
 * Sets fields of the query and keeps the others; empty values are left out.
 * @param {Record<string, string | string[] | null | undefined>} fields a list: the field is repeated
 * @param {{replace?: boolean}} [options]
 */
export function setQuery(fields, options = { replace: true }) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(fields)) {
    query.delete(name);
    for (const item of Array.isArray(value) ? value : [value]) if (item) query.append(name, item);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), options);
}

/**
 * @param {string} name
 * @returns {(value: string) => void} sets one field of the query, for controls
 */
export function querySetter(name) {
  return (value) => setQuery({ [name]: value });
}

/**
 * @param {(string | number)[]} parts
 * @param {Record<string, string>} [query]
 * @returns {string} an address of this application
 */
export function address(parts, query = {}) {
  const text = new URLSearchParams(query).toString();
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * A link that changes the view without loading the page anew. Clicks with a modifier stay the browser's.
 * @param {{to: string, class?: string, children?: import("./html.js").Children} & Record<string, any>} props
 */
export function Link({ to, children, ...rest }) {
  const onClick = (/** @type {MouseEvent} */ event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${onClick} ...${rest}>${children}</a>`;
}
