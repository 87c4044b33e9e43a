import { $, element, figure, get, offer, options, png, post, problem, task, upload } from "/common.js";

const form = $("restore-form");

function show({ name, png: data, text }) {
  const place = $("restore-results");
  if (text) place.append(element("p", { className: "full facts" }, text));
  else place.append(figure(png(data), name));
}

async function start() {
  const { model, task: kind, level, samples, steps, degrade, file } = form.elements;
  const picture = form.elements["restore-picture"].value;
  const order = {
    model: model.value, picture, task: kind.value, level: level.value === "" ? null : +level.value,
    degrade: degrade.checked, samples: +samples.value, steps: +steps.value,
  };
  const job = await post("/api/restore", JSON.stringify(order));
  $("restore-results").replaceChildren();
  return job;
}

export function begin({ pictures }) {
  const add = offer($("restore-pictures"), "restore-picture", pictures, () => {});
  form.elements.file.addEventListener("change", ({ target }) => upload(target, add).then(() => problem(), problem));
  task("restore", start, show);
}

export async function shown(visible) {
  if (!visible) return;
  try {
    options(form.elements.model, (await get("/api/models")).map(({ id, name }) => [id, name]));
  } catch (error) {
    problem(error);
  }
}
