// Keeps a half-made question in this tab, so that going to an answer or to the rehearsal and back loses nothing.

const LEFT_OUT = new Set(["form_token", "key", "fresh", "reuse"]); // a new draw, or a higher price: said anew each time

const fieldsOf = (form) => [...form.elements].filter((one) => one.name && !LEFT_OUT.has(one.name));
const nameOf = (form) => `discreet-ask ${form.dataset.kept}`;
const isGiven = (form) => "given" in form.dataset;
const isBox = (one) => one.type === "checkbox";

/** What the tab keeps under a form's name; null where it keeps nothing that can be read. */
function found(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

/** Whether the page was come back to, rather than opened anew. */
const isReturn = () => performance.getEntriesByType("navigation")[0]?.type !== "navigate";

/** Fills the form in as it was left, unless the page came filled in; tells how the builder stood, or null. */
export function restored(form) {
  const kept = found(nameOf(form));
  if (!kept) return null;
  const wins = isGiven(form) && !(isReturn() && kept.place === location.href);
  if (!wins) {
    for (const one of fieldsOf(form)) {
      if (!(one.name in kept.fields)) continue;
      if (isBox(one)) one.checked = kept.fields[one.name];
      else one.value = kept.fields[one.name];
    }
  }
  return form.elements.question.value === kept.fields.question ? kept.builder : null;
}

/** Keeps the form as it is now. */
export function keep(form, builder) {
  const fields = Object.fromEntries(fieldsOf(form).map((one) => [one.name, isBox(one) ? one.checked : one.value]));
  const name = nameOf(form);
  // The page that came filled in, so that coming back to it finds what was made of it since.
  const place = isGiven(form) ? location.href : found(name)?.place;
  try {
    sessionStorage.setItem(name, JSON.stringify({ fields, builder, place }));
  } catch {
    // A browser that keeps nothing still asks.
  }
}
