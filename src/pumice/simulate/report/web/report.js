// The plots and tables of a simulation report. Names come from users: text nodes only, never markup.
const { report, series } = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
// Okabe and Ito's colours, which people with any colour vision tell apart.
const COLOURS = ["#0b6bb8", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f00"];
const OTHERS = "#7a8591";
// Lines that lie upon each other stay visible, and differ without colour too.
const DASHES = [[], [9, 4], [2, 3], [9, 3, 2, 3], [16, 4], [5, 2], [12, 3, 2, 3, 2, 3]];
const MINUTE = 60, HOUR = 3600, DAY = 86400;
// Steps of an axis of time that people can read.
const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 7, 14, 28, 56, 112, 224, 448].map((n) => n * DAY),
];
const LOG_TIMES = [1, 10, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 2 * DAY, 20 * DAY, 200 * DAY];
const MEASURES = [
  ["jobs", (q) => q.jobs],
  ["wait mean", (q) => length(q.wait?.mean)],
  ["median", (q) => length(q.wait?.median)],
  ["p95", (q) => length(q.wait?.p95)],
  ["max", (q) => length(q.wait?.max)],
  ["bounded slowdown", (q) => q.boundedSlowdown?.mean.toFixed(1) ?? "-"],
  ["share", (q) => percent(q.meanShare)],
  ["entitled", (q) => percent(q.meanEntitledShare)],
  ["shortfall", (q, policy) => amount((policy?.queueShortfall ?? q.shortfall)[busiest])],
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
  if (seconds >= DAY) return `${short(seconds / DAY)} d`;
  if (seconds >= HOUR) return `${short(seconds / HOUR)} h`;
  if (seconds >= MINUTE) return `${short(seconds / MINUTE)} min`;
  return `${seconds < 10 ? short(seconds) : Math.round(seconds)} s`;
}

// Ticks stand at whole hours between days, and so on, which a decimal of a day does not show.
function tickTime(seconds) {
  const [unit, name, below] =
    seconds >= DAY ? [DAY, "d", HOUR] : seconds >= HOUR ? [HOUR, "h", MINUTE] : [MINUTE, "min", 1];
  const whole = Math.floor(seconds / unit), rest = Math.round((seconds - whole * unit) / below) * below;
  if (!whole) return length(seconds);
  return rest ? `${whole} ${name} ${length(rest)}` : `${whole} ${name}`;
}

// One decimal, unless it is a zero.
const short = (number) => String(Number(number.toFixed(1)));
const parts = (u, ticks) => ticks.map((tick) => (tick === null ? "" : `${short(100 * tick)} %`));
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
  const style = getComputedStyle(place);
  const room = place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const time = { values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : tickTime(tick))), space: 70 };
  const made = new uPlot(
    {
      width: Math.max(240, Math.min(1500, room)),
      height: options.height ?? 280,
      scales: { x: { time: false, ...options.x }, y: { range: (u, low, high) => [0, options.most ?? (high > 0 ? high * 1.05 : 1)] } },
      axes: [
        axis(options.x ? { ...time, splits: logTimes, filter: (u, ticks) => ticks } : { ...time, incrs: TIME_STEPS }),
        axis({ size: 60, label: options.unit, labelSize: 20, labelFont: "12px system-ui, sans-serif", ...options.y }),
      ],
      series: [{ label: options.label ?? "time", value: (u, v) => (v === null ? "-" : length(v)) }, ...options.series],
      bands: options.bands ?? [],
      legend: { show: options.legend ?? true },
    },
    data,
    place,
  );
  plots.push(made);
}

function logTimes(u, axis, low, high) {
  const all = LOG_TIMES.filter((time) => time >= low * 0.999 && time <= high * 1.001);
  const room = Math.max(2, Math.floor(u.bbox.width / devicePixelRatio / 60));
  const stride = Math.ceil(all.length / room);
  return all.filter((_, i) => i % stride === 0);
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

// A mean of each interval, which the last one keeps until its end.
const times = (run, levels) => [...levels, 0].map((_, i) => i * run.step);
const lasting = (levels) => [...levels, levels.at(-1)];
const STEPPED = uPlot.paths.stepped({ align: 1 });

// The queues right below another one, or itself where there are none. Only so many have a colour of their own: those
// that use most; the rest are added up.
function layersBelow(run, parent, resource) {
  const below = run.queues.filter((q) => q.depth === parent.depth + 1 && q.path.startsWith(`${parent.path}/`));
  const shown = (below.length ? below : [parent]).map((queue) => ({
    name: queue.path.split("/").at(-1),
    used: queue.used[resource],
    entitled: queue.entitled[resource],
    sum: queue.used[resource].reduce((sum, level) => sum + level, 0),
  }));
  const first = new Set([...shown].sort((a, b) => b.sum - a.sum).slice(0, shown.length > COLOURS.length ? COLOURS.length : undefined));
  shown.filter((one) => first.has(one)).forEach((one, i) => (one.hue = COLOURS[i]));
  const rest = shown.filter((one) => !first.has(one));
  rest.forEach((one) => (one.hue = OTHERS));
  const layers = shown.filter((one) => first.has(one));
  if (rest.length) {
    const used = parent.used[resource].map((_, i) => rest.reduce((sum, one) => sum + (one.used[i] ?? 0), 0));
    layers.push({ name: `${rest.length} others`, used, hue: OTHERS });
  }
  return { shown, layers };
}

function stacked(place, run, parent, resource) {
  const { shown, layers } = layersBelow(run, parent, resource);
  const sums = parent.used[resource].map(() => 0);
  const tops = layers.map((layer) => lasting(layer.used.map((level, i) => (sums[i] += level))));
  const areas = layers.map((layer) => ({
    label: layer.name,
    stroke: layer.hue,
    fill: `${layer.hue}b0`,
    paths: STEPPED,
    points: { show: false },
    value: (u, v, s, at) => (at === null ? "-" : amount(layer.used[Math.min(at, layer.used.length - 1)] ?? 0)),
  }));
  const line = {
    label: `${parent.path.split("/").at(-1)} is entitled to`,
    stroke: resolved("--limit"),
    width: 1.5,
    points: { show: false },
    paths: STEPPED,
    value: (u, v) => (v === null ? "-" : amount(v)),
  };
  const bands = layers.slice(1).map((_, i) => ({ series: [layers.length - i, layers.length - i - 1] }));
  // Drawn from the top of the stack down, each band ends at the layer below it.
  plot(place, { unit: resource, series: [...areas, line], bands }, [times(run, sums), ...tops, lasting(parent.entitled[resource])]);
  if (shown.length < 2) return;
  const grid = element("div", [], { className: "small" });
  place.append(grid);
  for (const queue of shown) {
    const box = element("div", element("h3", queue.name, { title: queue.name }));
    grid.append(box);
    plot(
      box,
      {
        height: 150,
        legend: false,
        series: [
          { label: "used", stroke: queue.hue, fill: `${queue.hue}60`, points: { show: false }, paths: STEPPED },
          { ...line, label: "entitled" },
        ],
      },
      [times(run, queue.used), lasting(queue.used), lasting(queue.entitled)],
    );
  }
}

function chooser(label, values, chosen, changed) {
  const select = element("select", values.map((value) => element("option", value, { value })));
  select.value = chosen;
  select.addEventListener("change", () => changed(select.value));
  return element("label", [`${label} `, select]);
}

// The first queue from the top with several queues below it: the areas of a single one tell nothing.
function firstBranch() {
  let path = "root";
  for (;;) {
    const below = series[0].queues.filter((q) => q.path.startsWith(`${path}/`) && q.path.lastIndexOf("/") === path.length);
    if (below.length !== 1) return below.length ? path : "root";
    path = below[0].path;
  }
}

const choice = { policy: series[0].policy, queue: firstBranch(), resource: busiest };

function draw() {
  for (const made of plots.splice(0)) made.destroy();
  page.replaceChildren();
  const workload = report.inputs[0];
  const repeats = Math.max(...Object.values(report.policies).map((policy) => policy.repeats));
  const means = repeats > 1 ? `. Figures are means over ${repeats} repeats; plots over time show the first one` : "";
  document.title = `Simulation of ${workload.name}`;
  document.getElementById("summary").textContent =
    `${workload.name}: ${size(workload)}; ${Object.keys(report.policies).join(", ")}${means}`;
  compare();
  overTime();
  curves();
  perQueue();
  differences();
  inputs();
}

// A decision log has cycles instead of jobs.
function size(input) {
  const counted = ["jobs", "tasks", "cycles", "decisions"].filter((name) => input[name] !== undefined);
  return counted.map((name) => `${amount(input[name])} ${name}`).join(", ");
}

function compare() {
  const place = section("Policies", `Amounts are ${busiest}-hours. Slowdown is bounded: run times below 10 s count as 10 s. Shortfall is that of all queues without queues below them: what one holds beyond its part does not make up for what another one misses.`);
  const extra = [["used", "utilisation"], ["idle while jobs waited", "idleWhileWaiting"]];
  place.append(
    table(
      ["policy", ...MEASURES.map(([name]) => name), ...extra.map(([name]) => name)],
      Object.entries(report.policies).map(([name, policy]) => [
        name,
        ...MEASURES.map(([, value]) => value(policy.queues.root, policy)),
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
  const line = (run, i, more) => ({
    label: run.policy,
    stroke: COLOURS[i % COLOURS.length],
    dash: DASHES[i % DASHES.length],
    width: 2,
    paths: STEPPED,
    spanGaps: true,
    points: { show: false },
    ...more,
  });
  const waits = section(
    "Waiting times",
    "The part of all jobs that had started after a time (logarithmic; below 1 s counts as 1 s). A curve that ends below 100 % leaves jobs out that never started.",
  );
  const longest = Math.max(1, ...series.map((run) => run.waits[0].at(-1) ?? 0));
  const joined = uPlot.join(
    series.map((run) => [[...run.waits[0].map((time) => Math.max(1, time)), longest], [...run.waits[1], run.waits[1].at(-1) ?? 0]]).map(distinct),
  );
  const part = { value: (u, v) => (v === null ? "-" : percent(v)) };
  plot(waits, { x: { distr: 3 }, label: "wait", unit: "jobs", most: 1.02, series: series.map((run, i) => line(run, i, part)), y: { values: parts } }, joined);
  const used = section("Utilisation", `The part of ${choice.resource} that is held.`);
  const capacity = (run) => report.policies[run.policy].capacity[choice.resource];
  const held = (run) => lasting(run.queues[0].used[choice.resource].map((level) => level / capacity(run)));
  overlay(used, held, (run, i) => line(run, i, part), { unit: choice.resource, most: 1.02, y: { values: parts } });
  const evicted = section("Evictions", "Evicted tasks so far.");
  const counted = (run) => run.evictions.reduce((sums, count) => [...sums, sums.at(-1) + count], [0]);
  overlay(evicted, counted, line, { unit: "tasks" });
}

// Of equal times the last one counts.
function distinct([xs, ys]) {
  const found = new Map(xs.map((x, i) => [x, ys[i]]));
  return [[...found.keys()], [...found.values()]];
}

// ``levels`` has a value for the beginning of each interval, and one for the end of the last.
function overlay(place, levels, line, options) {
  const data = series.map((run) => {
    const ys = levels(run);
    return [ys.map((_, i) => i * run.step), ys];
  });
  plot(place, { series: series.map((run, i) => line(run, i)), ...options }, uPlot.join(data));
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

const MEASURE_NAMES = {
  waitMean: "wait mean",
  waitP95: "wait p95",
  boundedSlowdownMean: "bounded slowdown",
  neverStarted: "never started",
  hours: "length of the run, hours",
};

function differences() {
  if (!report.differences.length) return;
  const paired = Object.values(report.policies)[0].repeats > 1;
  const about = paired
    ? "Paired over repeats, with 95 % intervals: a difference whose interval contains 0 may be chance."
    : "Of a single run; --repeat gives intervals.";
  const place = section("Differences", `${about} Amounts of resources are resource-hours.`);
  const signed = (number, text) => `${number < 0 ? "\u2212" : number > 0 ? "+" : ""}${text(Math.abs(number))}`;
  const shown = (name, { mean, low, high }) => {
    const text = name.startsWith("wait") ? length : (number) => number.toLocaleString("en", { maximumFractionDigits: 2 });
    return low === null ? signed(mean, text) : `${signed(mean, text)} (${signed(low, text)} to ${signed(high, text)})`;
  };
  const names = Object.keys(report.differences[0].measures);
  place.append(
    table(
      ["measure", ...report.differences.map((one) => `${one.policy} less ${one.against}`)],
      names.map((name) => [MEASURE_NAMES[name] ?? name, ...report.differences.map((one) => shown(name, one.measures[name]))]),
    ),
  );
}

function inputs() {
  const options = Object.entries(report.options).map(([name, value]) => `${name} ${[value ?? "none"].flat().join(" ") || "none"}`);
  const place = section("Inputs", `Options: ${options.join(", ")}`);
  const made = table(["input", "file", "SHA-256"], report.inputs.map((one) => [one.role, one.name, element("code", one.sha256)]));
  made.className = "text";
  place.append(made);
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let drawn = window.innerWidth, resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  if (window.innerWidth !== drawn) resized = setTimeout(() => ((drawn = window.innerWidth), draw()), 200);
});
