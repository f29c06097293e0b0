// Looks at a job on its data set's clock, and loads the page again once there is something new to see.

import { call } from "./api.js";

const place = document.getElementById("job");
const stage = place.querySelector("[data-part=stage]");
const PAUSE = 1000;

async function look() {
  try {
    const job = await call("GET", place.dataset.job);
    if (job.state !== place.dataset.state) { location.reload(); return; }
    if (stage) stage.textContent = job.stage ?? "";
  } catch (error) {
    if (stage) stage.textContent = error.message;
  }
  setTimeout(look, Math.max(PAUSE, 1000 * Number(place.dataset.deadline)));
}

if (["waiting", "running"].includes(place.dataset.state)) setTimeout(look, PAUSE);
