// The panel of the prior: what is drawn becomes its text, what is typed is drawn, and the service says how it reads it.

import { call, debounced } from "./api.js";
import { drawingArea } from "./drawing.js";
import { bell, binsOf, busyPart, domainOf, lawOf, priorText, weightsOf } from "./priors.js";
import { aimOf } from "./question.js";
import { dayOf, element, textOf } from "./formatting.js";

/** Makes the panel work. `question` gives the SQL, `changed` is called when the prior is another one. */
export function believe(panel, schema, api, question, changed) {
  const part = (name) => panel.querySelector(`[data-part=${name}]`);
  const [text, from, to, count, everywhere, reading] = ["text", "from", "to", "count", "everywhere", "reading"].map(part);
  let [domain, bins, aimed, known] = [null, [], "", null];

  const say = (number) => (domain.dates ? textOf(number) : String(number));
  const read = (control) => (domain.dates ? dayOf(control.value) : Number(control.value));
  const range = () => [read(from), read(to)];
  /** What is wrong with the ends of the line; "" where nothing is. */
  const fault = () => {
    if (domain.names) return "";
    const what = domain.dates ? "a date" : "a number";
    for (const [control, name] of [[from, "From"], [to, "To"]]) {
      if (!control.value.trim() || !Number.isFinite(read(control))) return `${name} must be ${what}; the drawing is as it was.`;
    }
    const [low, high] = range();
    return low < high ? "" : "From must be below To; the drawing is as it was.";
  };
  const complain = (sentence) => { part("ends").textContent = sentence; part("ends").hidden = !sentence; };
  const area = drawingArea(part("area"), (weights) => rewrite(weights));
  const show = (weights) => {
    complain("");
    bins = domain.names ? binsOf(domain) : binsOf(domain, ...range(), Number(count.value));
    area.show(bins, weights(bins), domain);
  };
  const nothing = (them) => them.map(() => 0);

  const tell = (law) => {
    reading.textContent = `The planner reads it: ${law.text.charAt(0).toLowerCase()}${law.text.slice(1)}`;
    reading.className = "quiet";
  };
  const refuse = (sentence) => { reading.textContent = sentence; reading.className = "warning"; };

  const seen = (law) => {
    known = law;
    tell(law);
    if (panel.dataset.drawn || !domain || Boolean(domain.names) === law.numeric) return;
    if (law.numeric) [from.value, to.value] = busyPart(law, domain).map(say);
    show((them) => weightsOf(law, them));
  };
  const reread = debounced(async (signal) => {
    known = null;
    if (!text.value.trim() || !question().trim()) { reading.textContent = ""; reading.className = ""; return; }
    try {
      seen(await call("POST", `${api}/priors`, { question: question(), prior: text.value }, signal));
    } catch (error) {
      if (error.name !== "AbortError") refuse(error.message);
    }
  });

  const aim = () => {
    const found = aimOf(question(), schema);
    const now = JSON.stringify(found);
    if (now === aimed) return;
    [aimed, known] = [now, null];
    domain = domainOf(found, schema);
    part("drawing").hidden = !domain;
    part("undrawn").hidden = Boolean(domain);
    if (!domain) return;
    for (const one of panel.querySelectorAll("[data-line]")) one.hidden = Boolean(domain.names);
    for (const end of [from, to]) end.type = domain.dates ? "date" : "text";
    if (!domain.names) [from.value, to.value] = [domain.low, domain.high].map(say);
    delete panel.dataset.drawn;
    show(nothing);
  };

  const rewrite = (weights) => {
    panel.dataset.drawn = "yes";
    text.value = priorText(domain, bins, weights, everywhere.checked);
    reread();
    changed();
  };
  const redraw = (weights) => {
    if (fault()) { complain(fault()); return; }
    show(weights);
    rewrite(weights(bins));
  };
  /** Another part of the line, or other bars: what is known of the prior is laid on them. */
  const rescale = () => {
    const wrong = fault();
    complain(wrong);
    if (wrong) return;
    const law = known ?? lawOf(bins, area.weights());
    show(law ? (them) => weightsOf(law, them) : nothing);
    if (panel.dataset.drawn) rewrite(area.weights());
  };
  part("clear").addEventListener("click", () => { redraw(nothing); });
  part("bell").addEventListener("click", () => { redraw((them) => bell(them.length)); });
  part("flat").addEventListener("click", () => { redraw((them) => them.map(() => 50)); });
  for (const control of [from, to, count]) control.addEventListener("change", rescale);
  everywhere.addEventListener("change", () => { if (panel.dataset.drawn) rewrite(area.weights()); });
  text.addEventListener("input", () => { delete panel.dataset.drawn; reread(); changed(); });

  saved(panel, text, () => { delete panel.dataset.drawn; reread(); changed(); });
  for (const one of panel.querySelectorAll("[data-script]")) one.hidden = false;
  aim();
  reread();
  return () => { aim(); reread(); };
}

/** Priors that are kept by name: take one, keep one. */
async function saved(panel, text, taken) {
  const part = (name) => panel.querySelector(`[data-part=${name}]`);
  const [list, name, keep, said] = ["saved", "name", "keep", "kept"].map(part);
  const refill = async () => {
    const { priors } = await call("GET", "/v1/priors");
    list.replaceChildren(element("option", { value: "" }, priors.length ? "choose one" : "none yet"), ...priors.map((one) => element("option", { value: one.text }, one.name)));
  };
  list.addEventListener("change", () => { if (list.value) { text.value = list.value; taken(); } });
  keep.addEventListener("click", async () => {
    said.textContent = "";
    try {
      await call("PUT", `/v1/priors/${encodeURIComponent(name.value)}`, { text: text.value, note: "" });
      await refill();
      said.textContent = "Kept.";
    } catch (error) {
      said.textContent = error.message;
    }
  });
  await refill().catch((error) => { said.textContent = error.message; });
}
