import { $, get, problem } from "/common.js";
import * as corrupt from "/corrupt.js";
import * as schedule from "/schedule.js";
import * as sample from "/sample.js";
import * as restore from "/restore.js";
import * as runs from "/runs.js";

const pages = { corrupt, schedule, sample, restore, runs };

/** Shows the page that the address names. */
function turn() {
  const wanted = location.hash.slice(1);
  if (wanted === "content") return;
  const name = Object.hasOwn(pages, wanted) ? wanted : "corrupt";
  problem();
  for (const page of Object.keys(pages)) {
    $(`page-${page}`).hidden = page !== name;
    const link = document.querySelector(`nav a[href="#${page}"]`);
    if (page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${$(`${name}-title`).textContent} – softdiff studio`;
  for (const [page, { shown }] of Object.entries(pages)) shown?.(page === name);
}

try {
  const start = await get("/api/start");
  $("version").textContent = start.version;
  Object.values(pages).forEach((page) => page.begin(start));
  addEventListener("hashchange", turn);
  turn();
  document.body.dataset.ready = "yes";
} catch (error) {
  problem(error);
}
