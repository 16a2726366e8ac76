/**
 * Rendering: Preact with tagged templates instead of JSX, so that the files run as they are.
 *
 * What a template interpolates becomes a text node or a property, never markup. Nothing in this folder uses innerHTML.
 * @module
 */

import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} Children */
/** @typedef {import("../vendor/preact.js").VNode<any>} VNode */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => VNode} */
export const html = /** @type {any} */ (htm.bind(h));

export { render } from "../vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
