// The plots and tables of a simulation report. Names come from users: text nodes only, never markup.
const { report, series } = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
// Okabe and Ito's colours, which people with any colour vision tell apart.
const COLOURS = ["#0b6bb8", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f00", "#7a8591"];
const MEASURES = [
  ["jobs", (q) => q.jobs],
  ["wait mean", (q) => length(q.wait?.mean)],
  ["median", (q) => length(q.wait?.median)],
  ["p95", (q) => length(q.wait?.p95)],
  ["max", (q) => length(q.wait?.max)],
  ["bounded slowdown", (q) => q.boundedSlowdown?.mean.toFixed(1) ?? "-"],
  ["share", (q) => percent(q.meanShare)],
  ["entitled", (q) => percent(q.meanEntitledShare)],
  ["shortfall", (q) => amount(q.shortfall[busiest])],
  ["evictions", (q) => q.evictions],
  ["work lost", (q) => amount(q.lost[busiest])],
  ["never started", (q) => q.neverStarted],
];
const resources = Object.keys(Object.values(report.policies)[0].capacity);
const busiest = resources.reduce((most, name) => (total(name) > total(most) ? name : most));

function total(name) {
  return Object.values(report.policies).reduce((sum, policy) => sum + policy.utilisation[name], 0);
}

function length(seconds) {
  if (seconds === undefined) return "-";
  if (seconds >= 86400) return `${(seconds / 86400).toFixed(1)} d`;
  if (seconds >= 3600) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 60) return `${(seconds / 60).toFixed(1)} min`;
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

const percent = (part) => `${(100 * part).toFixed(1)} %`;
const amount = (number) => number.toLocaleString("en", { maximumFractionDigits: 1 });
const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

function element(name, children = [], attributes = {}) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...[children].flat().map((child) => child ?? ""));
  return made;
}

function section(title, about) {
  const made = element("section", [element("h2", title), element("p", about)]);
  page.append(made);
  return made;
}

function table(heading, rows) {
  const row = (cells, kind) => element("tr", cells.map((cell) => element(kind, cell instanceof Node ? cell : String(cell))));
  return element("table", [element("thead", row(heading, "th")), element("tbody", rows.map((cells) => row(cells, "td")))]);
}

const plots = [];

function plot(place, options, data) {
  const ink = resolved("--quiet"), grid = { stroke: resolved("--line"), width: 1 };
  const axis = (more) => ({ stroke: ink, grid, ticks: grid, ...more });
  const made = new uPlot(
    {
      width: options.width ?? Math.max(320, Math.min(1100, page.clientWidth - 48)),
      height: options.height ?? 260,
      scales: { x: { time: false, ...options.x }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [axis({ values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : length(tick))), space: 70 }), axis({ size: 72, ...options.y })],
      series: [{ label: options.label ?? "time", value: (u, v) => (v === null ? "-" : length(v)) }, ...options.series],
      bands: options.bands ?? [],
      legend: { show: options.legend ?? true },
    },
    data,
    place,
  );
  plots.push(made);
}

// Canvas does not know light-dark(): ask for the colour that an element gets.
function resolved(name) {
  const probe = element("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const times = (run, levels) => levels.map((_, i) => i * run.step);

function stacked(place, run, parent, resource) {
  const below = run.queues.filter((q) => q.depth === parent.depth + 1 && q.path.startsWith(`${parent.path}/`));
  const shown = below.length ? below : [parent];
  const sums = parent.used[resource].map(() => 0);
  const layers = shown.map((queue) => queue.used[resource].map((level, i) => (sums[i] += level)));
  const names = shown.map((queue) => queue.path.split("/").at(-1));
  const areas = layers.map((_, i) => ({
    label: names[i],
    stroke: COLOURS[i % COLOURS.length],
    fill: `${COLOURS[i % COLOURS.length]}b0`,
    paths: uPlot.paths.stepped({ align: 1 }),
    points: { show: false },
    value: (u, v, s, at) => (at === null ? "-" : amount(shown[i].used[resource][at] ?? 0)),
  }));
  const line = {
    label: `${parent.path.split("/").at(-1)} is entitled to`,
    stroke: resolved("--limit"),
    width: 1.5,
    points: { show: false },
    paths: uPlot.paths.stepped({ align: 1 }),
  };
  const bands = layers.slice(1).map((_, i) => ({ series: [layers.length - i, layers.length - i - 1] }));
  // Drawn from the top of the stack down, each band ends at the layer below it.
  plot(place, { series: [...areas, line], bands }, [times(run, sums), ...layers, parent.entitled[resource]]);
  if (!below.length) return;
  const grid = element("div", [], { className: "small" });
  place.append(grid);
  shown.forEach((queue, i) => {
    const box = element("div", element("h3", names[i]));
    grid.append(box);
    const hue = COLOURS[i % COLOURS.length];
    plot(
      box,
      {
        width: 330,
        height: 150,
        legend: false,
        series: [{ label: "used", stroke: hue, fill: `${hue}60`, points: { show: false } }, { ...line, label: "entitled" }],
      },
      [times(run, queue.used[resource]), queue.used[resource], queue.entitled[resource]],
    );
  });
}

function chooser(label, values, chosen, changed) {
  const select = element("select", values.map((value) => element("option", value, { value })));
  select.value = chosen;
  select.addEventListener("change", () => changed(select.value));
  return element("label", [`${label} `, select]);
}

const choice = { policy: series[0].policy, queue: "root", resource: busiest };

function draw() {
  for (const made of plots.splice(0)) made.destroy();
  page.replaceChildren();
  const workload = report.inputs[0];
  const repeats = Math.max(...Object.values(report.policies).map((policy) => policy.repeats));
  const means = repeats > 1 ? `. Figures are means over ${repeats} repeats; plots over time show the first one` : "";
  document.getElementById("summary").textContent =
    `${workload.name}: ${workload.jobs} jobs, ${workload.tasks} tasks; ${Object.keys(report.policies).join(", ")}${means}`;
  compare();
  overTime();
  curves();
  perQueue();
  differences();
  inputs();
}

function compare() {
  const place = section("Policies", `Amounts are ${busiest}-hours. Slowdown is bounded: run times below 10 s count as 10 s.`);
  const extra = [["used", "utilisation"], ["idle while jobs waited", "idleWhileWaiting"]];
  place.append(
    table(
      ["policy", ...MEASURES.map(([name]) => name), ...extra.map(([name]) => name)],
      Object.entries(report.policies).map(([name, policy]) => [
        name,
        ...MEASURES.map(([, value]) => value(policy.queues.root)),
        percent(policy.utilisation[busiest]),
        amount(policy.idleWhileWaiting[busiest]),
      ]),
    ),
  );
}

function overTime() {
  const place = section("Used and entitled over time", "Areas: what queues hold. Line: the entitlement, which depends on demand.");
  const inner = series[0].queues.map((queue) => queue.path);
  place.append(
    element(
      "div",
      [
        chooser("Policy", series.map((run) => run.policy), choice.policy, (value) => redraw("policy", value)),
        chooser("Below", inner, choice.queue, (value) => redraw("queue", value)),
        chooser("Resource", resources, choice.resource, (value) => redraw("resource", value)),
      ],
      { className: "choices" },
    ),
  );
  const run = series.find((one) => one.policy === choice.policy);
  stacked(place, run, run.queues.find((queue) => queue.path === choice.queue), choice.resource);
}

function redraw(what, value) {
  choice[what] = value;
  const at = window.scrollY;
  draw();
  window.scrollTo(0, at);
}

function curves() {
  const line = (run, i, more) => ({ label: run.policy, stroke: COLOURS[i % COLOURS.length], width: 2, points: { show: false }, ...more });
  const waits = section("Waiting times", "The part of jobs that waited no longer than a time (logarithmic; below 1 s counts as 1 s).");
  const joined = uPlot.join(series.map((run) => [run.waits[0].map((time) => Math.max(1, time)), run.waits[1]]).map(distinct));
  const stepped = uPlot.paths.stepped({ align: 1 });
  plot(
    waits,
    {
      x: { distr: 3 },
      label: "wait",
      series: series.map((run, i) => line(run, i, { paths: stepped, spanGaps: true, value: (u, v) => (v === null ? "-" : percent(v)) })),
      y: { values: (u, ticks) => ticks.map((tick) => percent(tick)) },
    },
    joined,
  );
  const used = section("Utilisation", `The part of ${choice.resource} that is held.`);
  const capacity = (run) => report.policies[run.policy].capacity[choice.resource];
  overlay(used, (run) => run.queues[0].used[choice.resource].map((level) => level / capacity(run)), line, {
    values: (u, ticks) => ticks.map((tick) => percent(tick)),
  });
  const evicted = section("Evictions", "Evicted tasks so far.");
  let sum = 0;
  overlay(evicted, (run) => ((sum = 0), run.evictions.map((count) => (sum += count))), line, {});
}

// Of equal times the last one counts.
function distinct([xs, ys]) {
  const found = new Map(xs.map((x, i) => [x, ys[i]]));
  return [[...found.keys()], [...found.values()]];
}

function overlay(place, levels, line, y) {
  const data = series.map((run) => {
    const ys = levels(run);
    return [times(run, ys), ys];
  });
  plot(place, { series: series.map((run, i) => line(run, i, { spanGaps: true })), y }, uPlot.join(data));
}

function perQueue() {
  for (const [name, policy] of Object.entries(report.policies)) {
    const place = section(name, `${length(policy.seconds)} of virtual time, ${Math.round(policy.cycles)} cycles.`);
    place.append(
      table(
        ["queue", ...MEASURES.map(([measure]) => measure)],
        Object.entries(policy.queues).map(([path, queue]) => [
          `${"\u2003".repeat(queue.depth)}${path.split("/").at(-1)}`,
          ...MEASURES.map(([, value]) => value(queue)),
        ]),
      ),
    );
  }
}

function differences() {
  if (!report.differences.length) return;
  const place = section("Differences", "Paired over repeats, with 95 % intervals where there are repeats. Times are seconds.");
  const shown = ({ mean, low, high }) => `${amount(mean)}${low === null ? "" : ` (${amount(low)} to ${amount(high)})`}`;
  const names = Object.keys(report.differences[0].measures);
  place.append(
    table(
      ["policy less policy", ...names],
      report.differences.map((one) => [`${one.policy} less ${one.against}`, ...names.map((name) => shown(one.measures[name]))]),
    ),
  );
}

function inputs() {
  const place = section("Inputs", `Options: ${JSON.stringify(report.options)}`);
  place.append(
    table(
      ["input", "file", "SHA-256"],
      report.inputs.map((one) => [one.role, one.name, element("code", one.sha256)]),
    ),
  );
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
