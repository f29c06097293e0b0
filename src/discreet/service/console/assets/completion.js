// Completion of SQL in a text area, by the ARIA pattern of a text box with a list: arrows choose, Enter takes, Escape leaves.

import { AGGREGATES, identifier } from "./question.js";
import { element } from "./formatting.js";

const KEYWORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "JOIN", "USING", "FILTER (WHERE", "ROLLUP", "FOR UNIT", "TRUE", "FALSE"];
const WORD = /[A-Za-z_][\w.]*$/;
const VALUE = /("[^"]+"|[\w.]+)\s*(?:=|<>|!=|<=|>=|<|>|(?:NOT\s+)?IN\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*'((?:[^']|'')*)$/i;
const OPERATED = /("[^"]+"|[\w.]+)\s*(?:=|<>|!=|(?:NOT\s+)?IN\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*([A-Za-z_][\w.]*)?$/i;
const MOST = 12;

/** All names and words of a schema's questions. */
export function words(schema) {
  const columns = Object.entries(schema.columns).map(([name, column]) => ({ text: identifier(name), kind: column.kind }));
  const functions = [...AGGREGATES.map((one) => one.name), "SECOND_MAX", "BIN"].map((name) => ({ text: `${name}(`, kind: "function" }));
  const tables = [schema.name, ...Object.keys(schema.lookups)].map((name) => ({ text: identifier(name), kind: "table" }));
  return [...columns, ...functions, ...tables, ...KEYWORDS.map((text) => ({ text, kind: "keyword" }))];
}

/** Those that begin so, then those that hold it. */
function matching(list, start) {
  const wanted = start.toLowerCase();
  const at = list.map((one) => [one, (one.show ?? one.text).toLowerCase().indexOf(wanted)]).filter(([, place]) => place >= 0);
  const first = at.filter(([, place]) => place === 0);
  return [...first, ...at.filter(([, place]) => place > 0)].map(([one]) => one).slice(0, MOST);
}

const namesOf = (column) => [...new Set([...column.categories.map(String), ...Object.keys(column.taxonomy ?? {})])];

/** The values, in their quotes, of a column that stands before an operator; none elsewhere. */
function operated(before, schema) {
  const name = OPERATED.exec(before)?.[1].replaceAll('"', "");
  const column = name && schema.columns[name];
  if (column?.kind === "boolean") return ["TRUE", "FALSE"].map((text) => ({ text, kind: "value" }));
  return (column?.categories ? namesOf(column) : []).map((text) => ({ text: `'${text.replaceAll("'", "''")}'`, kind: "value", show: text }));
}

/** What could stand where the cursor is: values of a column after an operator or inside a quote, else names and words. */
export function suggestions(before, schema, all, always = false) {
  const inside = VALUE.exec(before);
  const column = inside && schema.columns[inside[1].replaceAll('"', "")];
  if (column?.categories) {
    const listed = namesOf(column).map((text) => ({ text: `${text.replaceAll("'", "''")}'`, kind: "value", show: text }));
    return { start: before.length - inside[2].length, list: matching(listed, inside[2]) };
  }
  const start = WORD.exec(before)?.[0] ?? "";
  if (before.split("'").length % 2 === 0) return { start: before.length, list: [] };
  const values = operated(before, schema);
  if (!start && !always) return { start: before.length, list: matching(values, "") };
  const list = matching([...values, ...all.filter((one) => !values.some(({ text }) => text === one.text))], start).filter((one) => one.text.toLowerCase() !== start.toLowerCase());
  return { start: before.length - start.length, list };
}

/** Makes a text area complete what is typed in it. */
export function complete(area, schema) {
  const all = words(schema);
  const box = element("ul", { class: "listbox", role: "listbox", id: `${area.id}-list`, "aria-label": "Completions", hidden: "" });
  const status = element("span", { class: "unseen", role: "status" });
  area.after(box, status);
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", box.id);
  let found = { start: 0, list: [] };
  let active = -1;

  const mark = (at) => {
    active = at;
    [...box.children].forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
    const chosen = box.children[at];
    if (chosen) { area.setAttribute("aria-activedescendant", chosen.id); chosen.scrollIntoView({ block: "nearest" }); }
    else area.removeAttribute("aria-activedescendant");
  };
  const close = () => { box.hidden = true; mark(-1); };
  const take = (at) => {
    const { text } = found.list[at];
    area.setRangeText(text, found.start, area.selectionEnd, "end");
    close();
    area.focus();
    area.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  };
  const open = (always) => {
    found = suggestions(area.value.slice(0, area.selectionEnd), schema, all, always);
    box.replaceChildren(...found.list.map((one, at) => {
      const item = element("li", { role: "option", id: `${box.id}-${at}`, "aria-selected": "false" }, element("span", {}, one.show ?? one.text), element("span", { class: "kind" }, one.kind));
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(at); });
      return item;
    }));
    box.hidden = !found.list.length;
    status.textContent = found.list.length ? `${found.list.length} completions` : "";
    mark(-1);
  };

  area.addEventListener("input", () => open(false));
  area.addEventListener("blur", close);
  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); open(true); return; }
    if (box.hidden) return;
    const last = found.list.length - 1;
    if (event.key === "ArrowDown") mark(active >= last ? 0 : active + 1);
    else if (event.key === "ArrowUp") mark(active <= 0 ? last : active - 1);
    else if (event.key === "Enter" && active >= 0) take(active);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
