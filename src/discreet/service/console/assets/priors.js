// A drawn prior as text: where it can lie, its bins, and the mixture of uniforms or the weights that it stands for.

import { dayOf, exact, textOf } from "./formatting.js";

export const MOST_BINS = 64;
const FULL = 100;
const EVERYWHERE = 0.001;
const ROWS = 1000;

const bounds = (column) => (column.kind === "date" ? [dayOf(column.lower), dayOf(column.upper)] : [exact(column.lower), exact(column.upper)]);

function line(low, high, step = null, dates = false) {
  return high > low ? { low, high, step, dates } : null;
}

function ofColumn(column, whole) {
  const [low, high] = bounds(column);
  const step = column.kind === "date" ? 1 : exact(column.step);
  return line(low, high, whole ? step : null, column.kind === "date");
}

/** Where an answer can lie: the names it is one of, or a part of a line, with a step where it is on a grid. */
export function domainOf(aim, schema) {
  if (!aim) return null;
  const { aggregate, column } = aim;
  const rows = schema.units ?? ROWS;
  if (aggregate === "COUNT") return line(0, rows, 1);
  if (!column || column.keys) return null;
  if (column.categories) {
    if (aggregate === "AVG") return line(0, 1);
    const names = column.categories.map(String);
    return names.length <= MOST_BINS && ["MODE", "VALUE"].includes(aggregate) ? { names } : null;
  }
  const [low, high] = bounds(column);
  if (aggregate === "SUM") return line(Math.min(0, low * rows), Math.max(0, high * rows));
  if (aggregate === "VAR") return line(0, ((high - low) / 2) ** 2);
  if (aggregate === "STDDEV") return line(0, (high - low) / 2);
  return ofColumn(column, !["AVG", "TRIMMED_MEAN"].includes(aggregate));
}

const tidy = (number) => Number(number.toPrecision(12));

function wholeBins({ low, step, dates }, from, to, wanted) {
  const first = Math.ceil((from - low) / step - 1e-9);
  const points = Math.max(Math.floor((to - low) / step + 1e-9) - first + 1, 1);
  const count = Math.min(wanted, points);
  // Half a step beyond its points, so that bins meet whether the planner lays them on a grid or on a line.
  const half = dates ? 0 : step / 2;
  return Array.from({ length: count }, (_, at) => {
    const [start, end] = [Math.floor((at * points) / count), Math.floor(((at + 1) * points) / count) - 1];
    const [left, right] = [low + (first + start) * step, low + (first + end) * step];
    return { from: tidy(at ? left - half : left), to: tidy(at < count - 1 ? right + half : right), first: tidy(left), last: tidy(right) };
  });
}

function evenBins(from, to, count) {
  const edge = (at) => tidy(from + ((to - from) * at) / count);
  return Array.from({ length: count }, (_, at) => ({ from: edge(at), to: edge(at + 1), first: edge(at), last: edge(at + 1) }));
}

/** The bins of a part of a domain: at most `count`, none without a point of the grid in it. */
export function binsOf(domain, from, to, count) {
  if (domain.names) return domain.names.map((name) => ({ name }));
  const wanted = Math.min(count, MOST_BINS);
  return domain.step ? wholeBins(domain, from, to, wanted) : evenBins(from, to, wanted);
}

/** A bin's own words. */
export function binWords(bin, domain) {
  if (bin.name !== undefined) return bin.name;
  const say = (number) => (domain.dates ? textOf(number) : String(number));
  return bin.first === bin.last ? say(bin.first) : `${say(bin.first)} to ${say(bin.last)}`;
}

/** Neighbours of one height are one wider shape. */
function shapes(bins, weights) {
  const runs = [];
  bins.forEach((bin, at) => {
    const last = runs.at(-1);
    if (last && last.height === weights[at]) Object.assign(last, { to: bin.to, count: last.count + 1 });
    else runs.push({ from: bin.from, to: bin.to, height: weights[at], count: 1 });
  });
  return runs.filter((run) => run.height > 0);
}

function weightsText(bins, weights, little) {
  const share = little && Math.max(Number((little / bins.length).toFixed(2)), 0.01);
  const told = bins.map(({ name }, at) => [name, tidy(weights[at] + share)]).filter(([, weight]) => weight > 0);
  return `{${told.map(([name, weight]) => `${JSON.stringify(name)}: ${weight}`).join(", ")}}`;
}

/** The prior that a drawing stands for; "" where nothing is drawn. With `everywhere`, a little is left to all values. */
export function priorText(domain, bins, weights, everywhere) {
  const total = weights.reduce((sum, one) => sum + one, 0);
  if (!total) return "";
  const little = everywhere ? tidy(Math.max(total * EVERYWHERE, 0.01)) : 0;
  if (domain.names) return weightsText(bins, weights, little);
  const say = (number) => (domain.dates ? textOf(number) : String(number));
  const told = shapes(bins, weights).map((run) => `${run.height * run.count} uniform(${say(run.from)}, ${say(run.to)})`);
  return [...told, ...(little ? [`${Number(little.toFixed(2))} uniform`] : [])].join(" + ");
}

/** A law as the service tells it, as cells with their ends and shares. */
function cells({ points, probabilities }) {
  const at = points.map((point) => (typeof point === "string" ? dayOf(point) : point));
  const middle = (one) => (at[one] + at[one + 1]) / 2;
  const gap = at.length > 1 ? at[1] - at[0] : 1;
  return at.map((_, one) => ({
    from: one ? middle(one - 1) : at[0] - gap / 2,
    to: one < at.length - 1 ? middle(one) : at[one] + (one ? at[one] - at[one - 1] : gap) / 2,
    share: probabilities[one],
  }));
}

/** The part of a line that holds nearly all of a law, with some air about it, inside the domain. */
export function busyPart(law, domain) {
  const told = cells(law);
  const beyond = (from, step) => {
    let sum = 0;
    for (let at = from; told[at]; at += step) if ((sum += told[at].share) > 0.002) return told[at];
    return told[from];
  };
  const [low, high] = [beyond(0, 1).from, beyond(told.length - 1, -1).to];
  const air = (high - low) * 0.15;
  // Ends as people would choose them: to about a twentieth of the width, and on the grid.
  const unit = Math.max(10 ** Math.floor(Math.log10((high - low + 2 * air) / 5)), domain.step ?? 0);
  const [start, end] = [Math.floor((low - air) / unit) * unit, Math.ceil((high + air) / unit) * unit];
  return [tidy(Math.max(domain.low, start)), tidy(Math.min(domain.high, end))];
}

/** How much of a law lies in each bin. */
export function sharesOf(law, bins) {
  if (law.names) return bins.map(({ name }) => law.probabilities[law.names.indexOf(name)] ?? 0);
  const told = cells(law);
  return bins.map(({ from, to }) =>
    told.reduce((sum, one) => sum + one.share * Math.max(0, Math.min(to, one.to) - Math.max(from, one.from)) / (one.to - one.from), 0));
}

/** Bars along a line as a law; null where nothing is drawn. */
export function lawOf(bins, weights) {
  const total = weights.reduce((sum, one) => sum + one, 0);
  if (!total) return null;
  return { points: bins.map(({ from, to }) => (from + to) / 2), probabilities: weights.map((one) => one / total) };
}

/** A law as weights of bins, the tallest nearly full. */
export function weightsOf(law, bins) {
  const shares = sharesOf(law, bins);
  const most = Math.max(...shares);
  return shares.map((share) => (most > 0 ? Math.round((0.9 * FULL * share) / most) : 0));
}

/** A bell over the middle of the bins. */
export function bell(count) {
  return Array.from({ length: count }, (_, at) => Math.round(90 * Math.exp(-0.5 * ((at - (count - 1) / 2) / (count / 7)) ** 2)));
}
