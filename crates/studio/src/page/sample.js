import { $, download, element, figure, filed, get, options, png, post, problem, task } from "/common.js";

const form = $("sample-form");
let lanes = [];

const chosen = () => [...form.querySelectorAll("input[name=sampler]:checked")].map(({ value }) => value);

/** Shows frame `index` of every sampler, or its last one. */
function look(index) {
  for (const lane of lanes) {
    const frame = lane.frames[Math.min(index, lane.frames.length - 1)];
    if (!frame) continue;
    lane.xt.src = png(frame.xt);
    lane.x0.src = png(frame.x0_hat);
    lane.caption.textContent = `step ${frame.step}, t = ${frame.t.toFixed(3)}`;
  }
}

function show(frame) {
  if (frame.text) {
    $("sample-lanes").append(element("p", { className: "full facts" }, frame.text));
    return;
  }
  lanes[frame.lane].frames.push(frame);
  const most = Math.max(...lanes.map(({ frames }) => frames.length)) - 1;
  const scrub = $("sample-scrub");
  [scrub.max, scrub.value] = [most, most];
  $("sample-when").hidden = most < 1;
  $("sample-step").textContent = `${most + 1} of ${most + 1}`;
  look(most);
}

async function start() {
  const { model, steps, images, seed } = form.elements;
  const samplers = chosen();
  const order = { model: model.value, samplers, steps: +steps.value, images: +images.value, seed: +seed.value };
  const job = await post("/api/sample", JSON.stringify(order));
  lanes = samplers.map((name) => {
    const [xt, x0] = [figure("", `x_t of ${name}`), figure("", `predicted clean images of ${name}`)];
    xt.lastChild.textContent = "x_t";
    x0.lastChild.textContent = "clean prediction";
    const caption = element("p", { className: "facts" }, "waiting");
    const place = element("div", {}, element("h3", {}, name), element("div", { className: "pair" }, xt, x0), caption);
    return { frames: [], sampler: name, place, caption, xt: xt.firstChild, x0: x0.firstChild };
  });
  $("sample-lanes").replaceChildren(...lanes.map(({ place }) => place));
  return job;
}

/** What the model samples with, and only samplers that it works with. */
async function suit() {
  const { model, steps } = form.elements;
  if (!model.value) return;
  const facts = await get("/api/model", { id: model.value });
  const boxes = facts.samplers.map((value) => {
    const box = element("input", { type: "checkbox", name: "sampler", value, checked: value === facts.sampler });
    return element("label", {}, box, value);
  });
  $("sample-samplers").replaceChildren(...boxes);
  steps.value = Math.min(facts.steps, 60);
}

/** A link to the images of every sampler that came to its end. */
function finished(id, state) {
  if (state !== "done") return;
  const name = form.elements.model.selectedOptions[0].textContent;
  for (const { place, x0, sampler } of lanes) {
    place.append(download(x0, `${filed(name)}-${sampler}-seed-${form.elements.seed.value}.png`));
  }
}

export function begin() {
  form.elements.model.addEventListener("change", () => suit().catch(problem));
  $("sample-scrub").addEventListener("input", ({ target }) => {
    $("sample-step").textContent = `${+target.value + 1} of ${+target.max + 1}`;
    look(+target.value);
  });
  task("sample", start, show, finished);
}

export async function shown(visible) {
  if (!visible) return;
  try {
    const models = await get("/api/models");
    const chosen = form.elements.model.value;
    options(form.elements.model, models.map(({ id, name }) => [id, name]));
    if (form.elements.model.value !== chosen) await suit();
    if (!models.length) {
      problem(Object.assign(new Error("There is no model yet"), { hint: "Train one (softdiff quickstart), or start with --model" }));
    }
  } catch (error) {
    problem(error);
  }
}
