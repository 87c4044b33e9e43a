import { $, chart, element, figure, get, problem } from "/common.js";

const most = 6;
let chosen = null;
let timer = null;
let before = "";

async function draw() {
  const names = [...chosen];
  const facts = await get("/api/losses", Object.fromEntries(names.map((name, index) => [`run${index}`, name])));
  $("runs-chart").replaceChildren(...(names.length ? [chart(facts.svg)] : []));
  const previews = facts.previews.map(({ run, step, file }) => {
    const source = `/api/preview?${new URLSearchParams({ run, file })}`;
    return figure(source, `${run} after ${step} steps`);
  });
  $("runs-previews").replaceChildren(...previews);
}

function row(run) {
  const box = element("input", { type: "checkbox", checked: chosen.has(run.name) });
  box.addEventListener("change", () => {
    if (box.checked && chosen.size < most) chosen.add(run.name);
    else chosen.delete(run.name);
    box.checked = chosen.has(run.name);
    draw().then(() => problem(), problem);
  });
  const name = element("label", { className: "check" }, box, run.name);
  const cells = [`${run.step} of ${run.steps}`, run.loss?.toPrecision(4) ?? "–", run.parameters.toLocaleString("en")];
  const numbers = cells.map((text) => element("td", { className: "n" }, text));
  return element("tr", {}, element("td", {}, name), element("td", {}, run.state), ...numbers);
}

async function refresh() {
  const { runs, folder } = await get("/api/runs");
  const now = JSON.stringify(runs);
  if (now === before) return;
  before = now;
  chosen ??= new Set(runs.slice(0, most).map(({ name }) => name));
  chosen = new Set([...chosen].filter((name) => runs.some((run) => run.name === name)));
  // The box in use keeps the keyboard.
  const used = [...$("runs-list").querySelectorAll("input")].indexOf(document.activeElement);
  $("runs-list").replaceChildren(...runs.map(row));
  if (used >= 0) $("runs-list").querySelectorAll("input")[used]?.focus();
  $("runs-none").hidden = runs.length > 0;
  $("runs-none").textContent = `There are no runs in ${folder} yet. Train one, or start the studio with --runs.`;
  await draw();
}

export function begin() {}

export function shown(visible) {
  clearInterval(timer);
  if (!visible) return;
  before = "";
  const look = () => refresh().then(() => problem(), problem);
  look();
  timer = setInterval(look, 2000);
}
