import { $, element, figure, get, options, png, post, problem, task } from "/common.js";

const form = $("sample-form");
const usual = ["momentum", "heun"];
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
    return { frames: [], place, caption, xt: xt.firstChild, x0: x0.firstChild };
  });
  $("sample-lanes").replaceChildren(...lanes.map(({ place }) => place));
  return job;
}

export function begin({ samplers }) {
  const boxes = samplers.map((value) => {
    const box = element("input", { type: "checkbox", name: "sampler", value, checked: usual.includes(value) });
    return element("label", {}, box, value);
  });
  $("sample-samplers").replaceChildren(...boxes);
  $("sample-scrub").addEventListener("input", ({ target }) => {
    $("sample-step").textContent = `${+target.value + 1} of ${+target.max + 1}`;
    look(+target.value);
  });
  task("sample", start, show);
}

export async function shown(visible) {
  if (!visible) return;
  try {
    const models = await get("/api/models");
    options(form.elements.model, models.map(({ id, name }) => [id, name]));
    if (!models.length) {
      problem(Object.assign(new Error("There is no model yet"), { hint: "Train one (softdiff quickstart), or start with --model" }));
    }
  } catch (error) {
    problem(error);
  }
}
