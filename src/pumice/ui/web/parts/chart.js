/**
 * A chart over time by uPlot: lines in the page's colours, following theme and width.
 * @module
 */

import { html, useEffect, useRef } from "../lib/html.js";
import UPlot from "../vendor/uplot.js";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} colour a custom property of the style sheet, such as "--used"
 * @property {boolean} [filled]
 * @property {number[]} [dash]
 * @property {boolean} [stepped]
 */

const HEIGHT = 220;

/**
 * @param {string} name
 * @returns {string} the value of a custom property as a colour that a canvas takes
 */
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/**
 * @param {Line[]} lines
 * @param {(value: number) => string} show
 * @param {number} width
 * @returns {UPlot.Options}
 */
function options(lines, show, width) {
  const quiet = colour("--quiet");
  const grid = { stroke: colour("--line"), width: 1 };
  return {
    width,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [
      { stroke: quiet, grid, ticks: grid, font: "12px system-ui" },
      { stroke: quiet, grid, ticks: grid, font: "12px system-ui", size: 72, values: (_plot, ticks) => ticks.map(show) },
    ],
    series: [
      {},
      ...lines.map((line) => {
        const stroke = colour(line.colour);
        return {
          label: line.label,
          stroke,
          width: 2,
          dash: line.dash,
          fill: line.filled ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.16)") : undefined,
          paths: line.stepped ? UPlot.paths.stepped?.({ align: 1 }) : undefined,
          points: { show: false },
          value: (/** @type {UPlot} */ _plot, /** @type {number | null} */ value) =>
            value === null ? "–" : show(value),
        };
      }),
    ],
  };
}

/**
 * @param {{
 *   times: number[], columns: (number | null)[][], lines: Line[], show: (value: number) => string, label: string
 * }} props times in Unix seconds; one column per line
 */
export function TimeChart({ times, columns, lines, show, label }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {UPlot | null} */ (null));
  const data = /** @type {UPlot.AlignedData} */ ([times, ...columns]);
  const held = useRef(data);
  held.current = data;
  const shape = lines.map((line) => line.label).join("\n") + label;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new UPlot(options(lines, show, element.clientWidth), held.current, element);
    };
    draw();
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("pumice:theme", draw);
    dark.addEventListener("change", draw);
    return () => {
      removeEventListener("pumice:theme", draw);
      dark.removeEventListener("change", draw);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [times, columns]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}
