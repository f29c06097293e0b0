// What every page has: the theme's button, buttons that copy, forms that are sent once.

const root = document.documentElement;
const PAUSE = 10_000;

/** Whether the page is dark now, by choice or by the system's setting. */
function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themed(button) {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("discreet-theme", root.dataset.theme);
    button.setAttribute("aria-pressed", String(isDark()));
  });
}

/** Copies the text of the element that the button names; where the clipboard is closed, selects it instead. */
async function copied(button) {
  const from = document.getElementById(button.dataset.copy);
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(from.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(from);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = said; }, 2500);
}

/** A form is sent once: replies take their time, and a second click would send it again. */
function sentOnce(form) {
  const ready = () => { delete form.dataset.sent; form.removeAttribute("aria-busy"); };
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    form.setAttribute("aria-busy", "true");
    const status = document.getElementById("sending");
    if (status) status.textContent = "Sent. The reply leaves at its deadline.";
    setTimeout(ready, PAUSE); // whoever stopped the browser meanwhile can send it again
  });
  addEventListener("pageshow", ready);
}

document.querySelectorAll("button[data-theme-toggle]").forEach(themed);
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copied(button));
}
document.querySelectorAll("form[method=post]").forEach(sentOnce);
document.querySelector("form[action$='/sign-out']")?.addEventListener("submit", () => sessionStorage.clear());
