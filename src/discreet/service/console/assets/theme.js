// Runs before anything is drawn: the theme that was chosen in this browser, if one was.
(() => {
  const chosen = localStorage.getItem("discreet-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
