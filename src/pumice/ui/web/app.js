/**
 * The application: header, the page that the address names, and the sign-in.
 * @module
 */

import { getDocument, signIn, whenUnauthorized } from "./lib/api.js";
import { html, render, useEffect, useState } from "./lib/html.js";
import { live, useLiveState, useTree } from "./lib/live.js";
import { Link, usePlace } from "./lib/router.js";
import { applyTheme, chosenTheme, setTheme } from "./lib/theme.js";
import { amount, number, percent, resources } from "./lib/units.js";
import { DecisionsPage } from "./pages/decisions.js";
import { JobPage } from "./pages/job.js";
import { JobsPage } from "./pages/jobs.js";
import { NodePage } from "./pages/node.js";
import { NodesPage } from "./pages/nodes.js";
import { QueuePage } from "./pages/queue.js";
import { ThenPage } from "./pages/then.js";
import { TreePage } from "./pages/tree.js";
import { Failure, Loading } from "./parts/controls.js";
import { BarPatterns } from "./parts/share_bar.js";
import { WordBubble } from "./parts/word.js";

/** @typedef {import("./lib/router.js").Place} Place */

/** @type {[string, string, string][]} address, title, first part of the paths below it */
const PAGES = [
  ["/", "Tree", "queues"],
  ["/jobs", "Jobs", "jobs"],
  ["/nodes", "Nodes", "nodes"],
  ["/decisions", "Decisions", "decisions"],
  ["/then", "Then", "then"],
];

/**
 * @param {Place} place
 * @returns {{title: string, view: import("./lib/html.js").VNode}}
 */
function pageOf({ parts, query }) {
  const [kind, first, second] = parts;
  if (!kind) return { title: "Queues", view: html`<${TreePage} query=${query} />` };
  if (kind === "queues" && first)
    return { title: `Queue ${first}`, view: html`<${QueuePage} key=${first} name=${first} query=${query} />` };
  if (kind === "jobs" && first && second)
    return {
      title: `Job ${second}`,
      view: html`<${JobPage} key=${`${first}/${second}`} namespace=${first} name=${second} />`,
    };
  if (kind === "jobs") return { title: "Jobs", view: html`<${JobsPage} query=${query} />` };
  if (kind === "nodes" && first)
    return { title: `Node ${first}`, view: html`<${NodePage} key=${first} name=${first} />` };
  if (kind === "nodes") return { title: "Nodes", view: html`<${NodesPage} query=${query} />` };
  if (kind === "decisions") return { title: "Decisions", view: html`<${DecisionsPage} query=${query} />` };
  if (kind === "then") return { title: "Then", view: html`<${ThenPage} query=${query} />` };
  return {
    title: "Not found",
    view: html`<div class="page"><h1>There is no such page</h1><p><${Link} to="/">All queues<//></p></div>`,
  };
}

function App() {
  const place = usePlace();
  const { about, error, tree } = useLiveState();
  const [signingIn, setSigningIn] = useState(false);
  useEffect(() => whenUnauthorized(() => setSigningIn(true)), []);
  const { title, view } = pageOf(place);
  useEffect(() => {
    document.title = `${title} · Pumice`;
  }, [title]);
  const path = place.parts.join("/");
  useEffect(() => {
    scrollTo(0, 0);
  }, [path]);
  const body = signingIn
    ? html`<${SignIn} />`
    : about
      ? view
      : error && !tree
        ? html`<div class="page"><${Failure} error=${error} /></div>`
        : html`<${Loading} what="the cluster" />`;
  return html`<a class="skip" href="#main">Skip to the page</a>
    <${Header} kind=${place.parts[0] ?? "queues"} />
    <${ConnectionLine} />
    <main id="main" tabindex="-1">${body}</main>
    <${BarPatterns} />
    <${WordBubble} />`;
}

/** @param {{kind: string}} props */
function Header({ kind }) {
  return html`<header class="top">
    <${Link} to="/" class="brand" aria-label="Pumice, all queues">
      <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
        <rect x="1" y="3" width="18" height="3.5" rx="1" /><rect x="5" y="8.5" width="11" height="3.5" rx="1" />
        <rect x="5" y="14" width="6" height="3.5" rx="1" />
        <rect class="brand-lent" x="11.5" y="14" width="5" height="3.5" rx="1" />
      </svg>
      <span>Pumice</span>
    <//>
    <nav aria-label="Pages">
      ${PAGES.map(
        ([to, title, first]) =>
          html`<${Link} to=${to} aria-current=${first === kind ? "page" : undefined}>${title}<//>`,
      )}
    </nav>
    <${ClusterLine} />
    <${ThemeSwitch} />
  </header>`;
}

/** The whole cluster in one line: what is used of each resource. */
function ClusterLine() {
  const tree = useTree();
  if (!tree || !live.about) return html`<div class="cluster-line"></div>`;
  const { capacity, used, nodes, tasks } = tree.cluster;
  return html`<div class="cluster-line" role="group" aria-label="The cluster">
    ${resources()
      .filter((resource) => (capacity[resource.name] ?? 0) > 0)
      .slice(0, 4)
      .map((resource) => {
        const all = capacity[resource.name] ?? 0;
        const taken = used[resource.name] ?? 0;
        const words = `${amount(resource.name, taken)} of ${amount(resource.name, all)}`;
        return html`<span title=${words}>${resource.label} <b>${percent(taken / all)}</b></span>`;
      })}
    <span title="Nodes that are ready, of all">Nodes <b>${number(nodes.ready)}/${number(nodes.total)}</b></span>
    <span title="Pods with a node, and pods that wait for one">
      Tasks <b>${number(tasks.running)}</b> running, <b>${number(tasks.waiting)}</b> waiting
    </span>
  </div>`;
}

const SUN =
  "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2" +
  "M4 4l1.4 1.4M14.6 14.6 16 16M16 4l-1.4 1.4M5.4 14.6 4 16";
const MOON = "M15.5 12.5A6.5 6.5 0 0 1 7.5 4.5a6.5 6.5 0 1 0 8 8z";

function ThemeSwitch() {
  const [theme, choose] = useState(chosenTheme);
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  const change = () => {
    const next = dark ? "light" : "dark";
    setTheme(next);
    choose(next);
  };
  return html`<button type="button" class="theme" aria-label=${dark ? "Use light colours" : "Use dark colours"} onClick=${change}>
    <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <path d=${dark ? SUN : MOON} />
    </svg>
  </button>`;
}

/** Says when the numbers may be old: the server is gone, or it cannot watch the cluster. */
function ConnectionLine() {
  const { connection, behind } = useLiveState();
  const lost = connection === "lost";
  const message = lost
    ? "Connection lost. The numbers may be old; trying again."
    : behind.length
      ? `The server cannot watch ${behind.join(", ")} at the moment; the numbers may be old.`
      : "";
  return html`<div class=${message ? "connection shown" : "connection"} role="status" data-connection=${connection}>
    ${message}
  </div>`;
}

function SignIn() {
  const [failure, setFailure] = useState("");
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    try {
      await signIn(new FormData(event.currentTarget).get("token")?.toString() ?? "");
      location.reload();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    }
  };
  return html`<form class="page card sign-in" onSubmit=${submit}>
    <h1>Sign in</h1>
    <label class="field">
      <span>Token</span><input name="token" type="password" autocomplete="current-password" required />
    </label>
    <button type="submit">Sign in</button>
    ${failure && html`<p role="alert">${failure}</p>`}
  </form>`;
}

/** A token in the fragment signs in, and is removed from the address at once. */
async function signInByFragment() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  await signIn(token).catch(() => getDocument("/api/about").catch(() => undefined));
}

applyTheme();
await signInByFragment();
live.start();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
