// The live preview: what a question would cost and be good for. It reads no row and charges nothing.

import { call, debounced } from "./api.js";
import { standing } from "./preview_words.js";
import { costWords, difference, drawn, element, exact, leftWords, told } from "./formatting.js";

/** How a field is read by its kind; all others are text. */
const READ = { box: (text, ticked) => ticked, choice: (text) => text === "true", integer: Number };

/** The body of a preview from the form; null while there is nothing to ask yet. */
function bodyOf(form) {
  const fields = new FormData(form);
  const read = (name) => String(fields.get(name) ?? "").trim();
  if (!read("question") || !read("size")) return null;
  const body = { question: read("question"), [read("how")]: read("size") };
  for (const [name, [kind, ticked]] of Object.entries(JSON.parse(form.dataset.options))) {
    if (read(name)) body[name] = (READ[kind] ?? String)(read(name), ticked);
  }
  return body;
}

function meter(balance, cost) {
  const cap = exact(balance.cap.epsilon);
  const share = (number) => (cap > 0 ? Math.min(100, (100 * number) / cap) : 100);
  const used = balance.spent.epsilon ?? difference(balance.cap.epsilon, balance.left);
  const spent = exact(used);
  const words = `${costWords(used)} of ${costWords(balance.cap.epsilon)} spent, ${leftWords(balance.left)} left`;
  return element("figure", { class: "spend" },
    element("figcaption", {}, element("span", {}, balance.analyst ? "You" : "All analysts"), element("span", {}, words)),
    drawn("svg", { class: "meter", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": `${balance.analyst ?? "All analysts"}: ${words}` },
      drawn("rect", { class: "spent", width: share(spent), height: 4 }),
      drawn("rect", { class: "more", x: share(spent), width: Math.min(share(cost), 100 - share(spent)), height: 4 })));
}

function candidate(one) {
  const error = one.expected_error === null ? "depends on the rows" : told(one.expected_error, 4);
  return element("tr", one.chosen ? { class: "chosen" } : {},
    element("td", {}, one.mechanism, ...(one.chosen ? [" ", element("span", { class: "tag good" }, "chosen")] : [])),
    element("td", {}, one.aggregate),
    element("td", { class: "number" }, error));
}

/** Shows previews of a form in a panel, each when nothing has changed for a moment. */
export function preview(form, panel, api) {
  const slot = (name) => panel.querySelector(`[data-slot=${name}]`);
  const say = (name, text) => { slot(name).textContent = text; };
  const row = (name, text) => { slot(name).textContent = text; slot(name).closest("[data-row]").hidden = !text; };
  const working = (busy, words) => {
    slot("spinner").hidden = !busy;
    for (const name of ["tiles", "figures"]) slot(name).classList.toggle("busy", busy);
    say("status", words);
  };
  const stand = (note, unpaid) => {
    slot("note").className = unpaid ? "warning" : "note";
    say("note", note);
    slot("note").hidden = !note;
    slot("ask").setAttribute("aria-disabled", String(unpaid));
  };
  const hide = (hidden) => {
    for (const name of ["tiles", "figures"]) slot(name).hidden = hidden;
    if (hidden) stand("", false);
  };
  const mistake = document.getElementById("mistake");
  const refused = (sentence, position = null) => {
    // Where the mistake is a place in the SQL, it is shown below the SQL with its carets.
    mistake.hidden = !position;
    mistake.querySelector("pre").textContent = position?.marked ?? "";
    mistake.querySelector("p").textContent = position ? sentence : "";
    form.elements.question.setAttribute("aria-invalid", String(Boolean(position)));
    say("problem", sentence);
    slot("problem").hidden = !sentence;
    hide(Boolean(sentence));
  };

  const fill = (made) => {
    refused("");
    const words = standing(made, new FormData(form).has("fresh"));
    for (const name of ["cost", "stored", "error", "of", "times"]) say(name, words[name]);
    stand(words.note, words.unpaid);
    row("mechanism", made.mechanism);
    row("accuracy", made.accuracy);
    row("reason", made.reason);
    row("alone", made.prior_error === null ? "" : `about ${told(made.prior_error, 4)}, without asking`);
    row("use", made.prior_use);
    row("plain", made.compared_with_dp ? `${made.compared_with_dp.mechanism}: ${made.compared_with_dp.accuracy}` : "");
    row("model", made.compared_with_dp?.words ?? "");
    row("guarantee", made.guarantee.words);
    slot("warnings").replaceChildren(...made.warnings.map((one) => element("p", { class: "warning" }, `Warning: ${one}.`)));
    slot("candidates").replaceChildren(...made.candidates.map(candidate));
    const flags = [...new Set(made.budget.flatMap((one) => one.flags))];
    slot("budget").replaceChildren(
      ...made.budget.map((one) => meter(one, words.unpaid ? 0 : words.more)),
      ...flags.map((flag) => element("p", { class: "warning" }, `${flag[0].toUpperCase()}${flag.slice(1)}.`)));
  };

  return debounced(async (signal) => {
    const body = bodyOf(form);
    if (!body) {
      refused("");
      hide(true);
      working(false, "Write a question and say how much noise there may be.");
      return;
    }
    working(true, "Working. Replies leave at the data set's deadline, ready or not before.");
    try {
      fill(await call("POST", `${api}/previews`, body, signal));
      working(false, "Nothing was charged and no row was read.");
    } catch (error) {
      if (error.name === "AbortError") return;
      refused(error.message, error.position);
      working(false, "");
    }
  });
}
