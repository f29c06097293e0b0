// Draws an answer's picture by Vega-Lite, without evaluating any text as a script.

import { call } from "./api.js";

const OPTIONS = { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: false };

async function draw(place) {
  const said = place.querySelector("[data-part=status]");
  said.textContent = "Drawing…";
  try {
    const [{ spec }] = await Promise.all([call("GET", place.dataset.picture), import(place.dataset.library)]);
    await window.vegaEmbed(place.querySelector("[data-part=canvas]"), { ...spec, background: "transparent" }, OPTIONS);
    said.remove();
    place.dataset.drawn = "yes";
  } catch (error) {
    said.textContent = `The picture cannot be drawn: ${error.message}`;
  }
}

document.querySelectorAll("[data-picture]").forEach(draw);
