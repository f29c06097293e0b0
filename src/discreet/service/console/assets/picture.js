// Draws an answer's picture by Vega-Lite, without evaluating any text as a script.

import { call } from "./api.js";

const OPTIONS = { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: false };

const NARROW = matchMedia("(max-width: 40rem)");

/** The picture as wide as its place. Where there is little room, intervals are told by the page alone, and names slant. */
function fitted(spec) {
  const made = { ...structuredClone(spec), background: "transparent", width: "container", autosize: { type: "fit-x", contains: "padding" } };
  if (!NARROW.matches) return made;
  made.padding = 4;
  delete made.title; // the page says what was asked
  made.config = { ...made.config, legend: { ...made.config?.legend, columns: 1 } };
  for (const { mark, encoding } of made.layer) {
    if (typeof mark.text === "string") mark.text = mark.text.replace(/ \(95 %: .*\)$/, "");
    if (encoding.x?.type === "nominal" && encoding.x.axis) Object.assign(encoding.x.axis, { labelAngle: -40, labelLimit: 90 });
  }
  return made;
}

async function draw(place) {
  const said = place.querySelector("[data-part=status]");
  said.textContent = "Drawing…";
  try {
    const [{ spec }] = await Promise.all([call("GET", place.dataset.picture), import(place.dataset.library)]);
    const show = () => window.vegaEmbed(place.querySelector("[data-part=canvas]"), fitted(spec), OPTIONS);
    await show();
    NARROW.addEventListener("change", show);
    said.remove();
    place.dataset.drawn = "yes";
  } catch (error) {
    said.textContent = `The picture cannot be drawn: ${error.message}`;
  }
}

document.querySelectorAll("[data-picture]").forEach(draw);
