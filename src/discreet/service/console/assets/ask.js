// The page on which a question is made: the form writes the SQL, the SQL is completed, the prior is drawn, all is previewed.

import { believe } from "./prior_panel.js";
import { build } from "./builder.js";
import { complete } from "./completion.js";
import { keep, restored } from "./form_state.js";
import { preview } from "./preview.js";

const USUAL = { epsilon: "0.1", accuracy: "±50 at 95%", noise_scale: "20" };
const BARE = /^\s*[\d.]+(e-?\d+)?(\/\d+)?\s*$/i;

const form = document.getElementById("ask");
const schema = JSON.parse(form.dataset.schema);
const [sql, how, size] = ["question", "how", "size"].map((id) => document.getElementById(id));
const byHand = document.getElementById("by-hand");
const askButton = form.querySelector("[data-slot=ask]");

const kept = restored(form);
const show = preview(form, document.getElementById("preview"), form.dataset.api);
const look = () => { keep(form, byHand.hidden ? builder.read() : null); show(); };
const aim = believe(document.getElementById("prior-panel"), schema, form.dataset.api, () => sql.value, () => look());
const changed = () => { aim(); look(); };

const builder = build(document.getElementById("builder"), schema, (text) => {
  sql.value = text;
  byHand.hidden = true;
  changed();
});
complete(sql, schema);
sql.addEventListener("input", () => { byHand.hidden = false; changed(); });
form.addEventListener("input", (event) => { if (event.target.name && event.target !== sql && event.target.name !== "prior") look(); });

// An accuracy is written otherwise than a bare number: where the way changes, what was there cannot stay.
how.addEventListener("change", () => {
  if (BARE.test(size.value) === (how.value === "accuracy")) { size.value = USUAL[how.value]; look(); }
});

// Asking pays: Enter in a field looks again, and only the button, or Ctrl+Enter in the SQL, asks.
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.defaultPrevented) return;
  if (event.target === sql && event.ctrlKey) form.requestSubmit(askButton);
  else if (event.target instanceof HTMLInputElement) look();
  else return;
  event.preventDefault();
});

// The preview stays in sight; where it is higher than the window it goes up with the page until its end is seen.
const beside = form.querySelector(".sticky");
const settle = () => { beside.style.top = `${Math.min(72, innerHeight - beside.offsetHeight - 16)}px`; };
new ResizeObserver(settle).observe(beside);
addEventListener("resize", settle);

document.querySelectorAll("[data-unscripted]").forEach((one) => { one.hidden = true; });
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); }); // what is left may be less by now
if (kept) builder.restore(kept);
if (!sql.value.trim()) builder.write();
else {
  byHand.hidden = Boolean(kept);
  changed();
}
