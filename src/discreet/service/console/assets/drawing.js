// The area on which a prior is drawn: bars that a pointer pulls to a height, and that arrow keys raise and lower.

import { binWords } from "./priors.js";
import { drawn, element, told } from "./formatting.js";

const FULL = 100;
const HEIGHT = 220;
const [LEFT, TOP, BELOW] = [8, 12, 26];
const FLOOR = HEIGHT - BELOW;
const STEPS = { ArrowUp: 5, ArrowDown: -5, PageUp: 20, PageDown: -20, Home: -FULL, End: FULL };

const clamp = (number) => Math.round(Math.min(Math.max(number, 0), FULL));
const heightOf = (weight) => ((FLOOR - TOP) * weight) / FULL;

/** An area in `place`; `changed` is told the weights after every stroke. Give it bins by `show`. */
export function drawingArea(place, changed) {
  const svg = drawn("svg", { role: "group", "aria-label": "Your prior, one bar for each bin" });
  // For eyes alone: a slider tells the same to whoever listens.
  const readout = element("p", { class: "quiet readout", "aria-hidden": "true" }, "\u00a0");
  place.append(svg, readout);
  let [bins, weights, domain, groups, current] = [[], [], null, [], 0];

  const width = () => Math.max(place.clientWidth, 200);
  const binWidth = () => (width() - 2 * LEFT) / bins.length;
  const share = (at) => {
    const total = weights.reduce((sum, one) => sum + one, 0);
    return total ? Math.round((1000 * weights[at]) / total) / 10 : 0;
  };
  const paint = (at) => {
    const bar = groups[at].lastChild;
    bar.setAttribute("y", FLOOR - heightOf(weights[at]));
    bar.setAttribute("height", heightOf(weights[at]));
    groups[at].setAttribute("aria-valuenow", weights[at]);
    groups[at].setAttribute("aria-valuetext", `weight ${weights[at]} of ${FULL}, ${share(at)} % of what you believe`);
  };
  const tell = (at) => { readout.textContent = `${binWords(bins[at], domain)}: weight ${weights[at]}, ${share(at)} %`; };
  const paintAll = () => groups.forEach((_, at) => paint(at));
  const focus = (at) => {
    groups[current]?.setAttribute("tabindex", "-1");
    current = Math.min(Math.max(at, 0), bins.length - 1);
    groups[current].setAttribute("tabindex", "0");
  };
  const set = (at, weight) => { weights[at] = clamp(weight); };
  const done = (at) => { paintAll(); tell(at); changed([...weights]); };

  const pressed = (event, at) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      focus(at + (event.key === "ArrowLeft" ? -1 : 1));
      groups[current].focus();
    } else if (event.key in STEPS) {
      set(at, weights[at] + STEPS[event.key]);
      done(at);
    } else return;
    event.preventDefault();
  };

  const build = () => {
    const each = binWidth();
    groups = bins.map((bin, at) => {
      const x = LEFT + at * each;
      const label = binWords(bin, domain);
      const group = drawn("g", { class: "bin", role: "slider", tabindex: at === current ? "0" : "-1", "aria-label": label, "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": FULL },
        drawn("title", {}, label),
        drawn("rect", { class: "reach", x, y: TOP, width: each, height: FLOOR - TOP }),
        drawn("rect", { class: "weight", x: x + 0.5, width: Math.max(each - 1, 0.5) }));
      group.addEventListener("keydown", (event) => pressed(event, at));
      group.addEventListener("focus", () => { focus(at); tell(at); });
      group.addEventListener("pointerenter", () => tell(at));
      return group;
    });
    svg.setAttribute("viewBox", `0 0 ${width()} ${HEIGHT}`);
    svg.replaceChildren(drawn("line", { class: "axis", x1: LEFT, x2: width() - LEFT, y1: FLOOR, y2: FLOOR }), ...groups, ...ticks());
    paintAll();
  };

  const ticks = () => {
    const room = Math.max(2, Math.floor(width() / (bins[0]?.name === undefined ? 130 : 90)));
    if (bins[0]?.name !== undefined && bins.length > room) return [];
    const every = bins[0]?.name === undefined ? Math.max(1, Math.ceil(bins.length / room)) : 1;
    return bins.flatMap((bin, at) => (at % every ? [] : [drawn("text", { x: LEFT + (at + 0.5) * binWidth(), y: HEIGHT - 8, "text-anchor": "middle", "aria-hidden": "true" }, tickWords(bin))]));
  };
  const tickWords = (bin) => (bin.name ?? (domain.dates ? binWords({ ...bin, last: bin.first }, domain) : told(bin.first)));

  let before = null;
  const stroke = (event) => {
    const frame = svg.getBoundingClientRect();
    const at = Math.min(Math.max(Math.floor((event.clientX - frame.left - LEFT) / binWidth()), 0), bins.length - 1);
    const weight = (FULL * (FLOOR - (event.clientY - frame.top))) / (FLOOR - TOP);
    const [from, start] = before ?? [at, weight];
    // A quick hand jumps over bins: they get what lies between.
    for (let step = 0; step <= Math.abs(at - from); step += 1) {
      const part = at === from ? 1 : step / Math.abs(at - from);
      set(from + Math.sign(at - from) * step, start + (weight - start) * part);
    }
    before = [at, weight];
    paintAll();
    tell(at);
  };
  svg.addEventListener("pointerdown", (event) => {
    if (!bins.length) return;
    svg.setPointerCapture(event.pointerId);
    before = null;
    stroke(event);
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => { if (svg.hasPointerCapture(event.pointerId) && bins.length) stroke(event); });
  svg.addEventListener("pointerup", () => { if (bins.length) changed([...weights]); });
  new ResizeObserver(() => { if (bins.length) build(); }).observe(place);

  return {
    /** Shows bins with weights. */
    show(newBins, newWeights, newDomain) {
      [bins, weights, domain, current] = [newBins, [...newWeights], newDomain, 0];
      readout.textContent = "\u00a0";
      build();
    },
    /** The weights as they are drawn now. */
    weights: () => [...weights],
  };
}
