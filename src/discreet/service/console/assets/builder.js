// The form that writes the SQL: an aggregate, a column, filters with the control that fits each kind, a group.

import { AGGREGATES, isLine, isNumber, operators, sqlOf } from "./question.js";
import { dayOf, element, exact } from "./formatting.js";

const options = (pairs, chosen) =>
  pairs.map(([value, words]) => element("option", { value, selected: value === chosen ? "" : undefined }, words));

let counted = 0;

function labelled(words, control) {
  control.id ||= `field-${(counted += 1)}`;
  return element("div", {}, element("label", { for: control.id }, words), control);
}

/** A concept's options in the order of its tree, indented; a concept stands for all its leaves. */
function concepts(taxonomy) {
  const below = new Map();
  const tops = [];
  for (const [name, parents] of Object.entries(taxonomy)) {
    if (!parents.length) tops.push(name);
    for (const parent of parents) below.set(parent, [...(below.get(parent) ?? []), name]);
  }
  const walk = (name, depth) => [[name, "\u00a0".repeat(3 * depth) + name], ...(below.get(name) ?? []).flatMap((one) => walk(one, depth + 1))];
  return tops.flatMap((top) => (below.get(top) ?? []).flatMap((one) => walk(one, 0)));
}

function valueControl(column, many) {
  if (column.kind === "boolean") return element("select", {}, ...options([["true", "true"], ["false", "false"]]));
  if (isNumber(column)) return element("input", { type: "text", inputmode: "decimal", placeholder: `${column.lower} to ${column.upper}` });
  if (column.kind === "date") return element("input", { type: "date", min: column.lower, max: column.upper });
  if (!column.categories) return element("input", { type: "text" });
  const listed = column.taxonomy ? concepts(column.taxonomy) : column.categories.map((name) => [name, name]);
  return element("select", many ? { multiple: "", size: "6" } : {}, ...options(listed));
}

function valuesOf(control) {
  return control.multiple ? [...control.selectedOptions].map((one) => one.value) : [control.value];
}

const controlsOf = (places) => [...places.querySelectorAll("input, select")];

function fillIn(controls, values) {
  controls.forEach((control, at) => {
    if (!control.multiple) control.value = values[at];
    else for (const one of control.options) one.selected = values.includes(one.value);
  });
}

/** One filter: a column, an operator, and as many controls as the operator takes values. */
function filterRow(schema, names, changed, left, kept = null) {
  const column = element("select", {}, ...options(names.map((name) => [name, name])));
  const operator = element("select");
  const places = element("div", { class: "values" });
  const row = element("li", { class: "filter" }, labelled("Column", column), labelled("Condition", operator), places);
  const refill = () => {
    const kind = schema.columns[column.value];
    const count = operators(kind).find(([name]) => name === operator.value)[2];
    const controls = Array.from({ length: Math.min(count, 2) }, () => valueControl(kind, count === Infinity));
    const shown = count === Infinity ? controls.slice(0, 1) : controls;
    places.replaceChildren(...shown.map((one, at) => labelled(shown.length > 1 ? ["From", "To"][at] : "Value", one)));
    changed();
  };
  const rekind = () => {
    operator.replaceChildren(...options(operators(schema.columns[column.value]).map(([name, words]) => [name, words])));
    refill();
  };
  const away = element("button", { type: "button", class: "small" }, "Remove");
  away.addEventListener("click", () => left(row));
  row.append(away);
  column.addEventListener("change", rekind);
  operator.addEventListener("change", refill);
  places.addEventListener("input", changed);
  row.read = () => ({ column: column.value, operator: operator.value, values: controlsOf(places).flatMap(valuesOf) });
  if (kept) column.value = kept.column;
  rekind();
  if (kept) {
    operator.value = kept.operator;
    refill();
    fillIn(controlsOf(places), kept.values);
  }
  return row;
}

/** A width that makes about eight groups of a wide column; none where every value can be a group. */
function usualWidth(column) {
  if (!isLine(column)) return "";
  const [low, high] = column.kind === "date" ? [dayOf(column.lower), dayOf(column.upper)] : [exact(column.lower), exact(column.upper)];
  const step = column.step ? exact(column.step) : 1;
  if ((high - low) / step < 32) return "";
  const rough = (high - low) / 8;
  const size = 10 ** Math.floor(Math.log10(rough));
  return String(Number(Math.max(Math.round(rough / size) * size, step).toPrecision(6)));
}

/** Makes the form work in `place`, and tells `written` the SQL of every change; what is chosen can be read and restored. */
export function build(place, schema, written) {
  const part = (name) => place.querySelector(`[data-part=${name}]`);
  const names = Object.keys(schema.columns);
  const [aggregate, column, number, group, width, filters] = ["aggregate", "column", "number", "group", "width", "filters"].map(part);
  const chosen = () => AGGREGATES.find((one) => one.name === aggregate.value);
  const show = (control, shown) => { control.closest("[data-field]").hidden = !shown; };
  const read = () => {
    const told = { column: column.value, number: number.value, group: group.value, width: width.value };
    return { ...told, aggregate: aggregate.value, filters: [...filters.children].map((row) => row.read()) };
  };
  let isQuiet = false;
  const write = () => { if (!isQuiet) written(sqlOf({ ...read(), aggregate: chosen() }, schema)); };
  const regroup = () => {
    const wide = group.value && isLine(schema.columns[group.value]);
    show(width, Boolean(wide) && !chosen().alone);
    width.value = wide ? usualWidth(schema.columns[group.value]) : "";
  };
  const reaim = () => {
    const { of, number: more, alone } = chosen();
    const fitting = of ? names.filter((name) => of(schema.columns[name])) : [];
    column.replaceChildren(...options(fitting.map((name) => [name, name]), column.value));
    show(column, Boolean(of));
    show(number, Boolean(more));
    show(group, !alone);
    if (more) { number.value = more.value; number.closest("[data-field]").querySelector("label").textContent = more.label; }
    regroup();
  };
  const possible = AGGREGATES.filter(({ of }) => !of || names.some((name) => of(schema.columns[name])));
  aggregate.replaceChildren(...options(possible.map((one) => [one.name, one.words])));
  group.replaceChildren(...options([["", "no groups"], ...names.map((name) => [name, name])]));
  aggregate.addEventListener("change", () => { reaim(); write(); });
  group.addEventListener("change", () => { regroup(); write(); });
  for (const control of [column, number, width]) control.addEventListener("input", write);
  const filter = (kept) => filterRow(schema, names, write, (gone) => { gone.remove(); write(); part("add").focus(); }, kept);
  part("add").addEventListener("click", () => {
    const row = filter();
    filters.append(row);
    row.querySelector("select").focus();
    write();
  });
  /** Chooses what was chosen before, and writes nothing. */
  const restore = (kept) => {
    isQuiet = true;
    aggregate.value = kept.aggregate;
    reaim();
    [column.value, group.value] = [kept.column, kept.group];
    regroup();
    [number.value, width.value] = [kept.number, kept.width];
    filters.replaceChildren(...kept.filters.map(filter));
    isQuiet = false;
  };
  place.hidden = false;
  reaim();
  return { write, read, restore };
}
