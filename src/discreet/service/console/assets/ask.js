// The page on which a question is made: the form writes the SQL, the SQL is completed, the prior is drawn, all is previewed.

import { believe } from "./belief.js";
import { build } from "./builder.js";
import { complete } from "./completion.js";
import { preview } from "./preview.js";

const form = document.getElementById("ask");
const schema = JSON.parse(form.dataset.schema);
const sql = document.getElementById("question");
const byHand = document.getElementById("by-hand");

const look = preview(form, document.getElementById("preview"), form.dataset.api);
const aim = believe(document.getElementById("prior-panel"), schema, form.dataset.api, () => sql.value, look);
const changed = () => { aim(); look(); };

const write = build(document.getElementById("builder"), schema, (text) => {
  sql.value = text;
  byHand.hidden = true;
  changed();
});
complete(sql, schema);
sql.addEventListener("input", () => { byHand.hidden = false; changed(); });
form.addEventListener("input", (event) => { if (event.target.name && event.target !== sql && event.target.name !== "prior") look(); });

document.querySelectorAll("[data-unscripted]").forEach((one) => { one.hidden = true; });
if (sql.value.trim()) changed();
else write();
