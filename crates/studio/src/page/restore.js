import { $, download, element, figure, filed, get, offer, options, png, post, problem, task, upload } from "/common.js";

const form = $("restore-form");

/** A frame of the task: a line of text, one side of before and after, or an image. */
function show({ name, png: data, text, before, after }) {
  const place = $("restore-results");
  if (before) {
    $("restore-before").src = $("restore-after").src = png(before);
    $("restore-compare").hidden = false;
  } else if (after) $("restore-after").src = png(after);
  else if (text) place.append(element("p", { className: "full facts" }, text));
  else {
    const made = figure(png(data), name);
    made.append(download(made.firstChild, `${stem()}-${filed(name.split(":")[0])}.png`));
    place.append(made);
  }
}

/** The name of the file that was uploaded, without its ending. */
const stem = () => (form.querySelector("input[name=restore-picture]:checked").dataset.file || "image").replace(/\.[^.]*$/, "");

const sides = ["left", "top", "width", "height"];
const hole = () => Object.fromEntries(sides.map((name) => [name, +form.elements[name].value]));
const picture = () => form.querySelector("input[name=restore-picture]:checked + img");

/** The image with the rectangle that is to be filled in. */
function draw() {
  const [canvas, image] = [$("restore-hole"), picture()];
  if (!image?.naturalWidth) return;
  const zoom = Math.max(1, Math.round(320 / Math.max(image.naturalWidth, image.naturalHeight)));
  [canvas.width, canvas.height] = [image.naturalWidth * zoom, image.naturalHeight * zoom];
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const { left, top, width, height } = hole();
  const place = [left, top, width, height].map((side) => side * zoom);
  pen.fillStyle = "rgb(116 179 245 / 45%)";
  pen.fillRect(...place);
  [pen.strokeStyle, pen.lineWidth] = ["#74b3f5", 2];
  pen.strokeRect(...place);
}

function choose(values) {
  sides.forEach((name, index) => { form.elements[name].value = values[index]; });
  draw();
}

/** The middle of another image, and numbers that stay inside it. */
async function turn() {
  const image = picture();
  await image.decode();
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const { left, top, width: wide, height: high } = form.elements;
  [left.max, top.max, wide.max, high.max] = [width - 1, height - 1, width, height];
  choose([width / 3, height / 3, width / 3, height / 3].map(Math.round));
}

/** A rectangle from where the pointer went down to where it is. */
function drag() {
  const canvas = $("restore-hole");
  const at = ({ clientX, clientY }) => {
    const [box, image] = [canvas.getBoundingClientRect(), picture()];
    const share = (value, size, pixels) => Math.min(pixels, Math.max(0, Math.round((value / size) * pixels)));
    return [share(clientX - box.left, box.width, image.naturalWidth), share(clientY - box.top, box.height, image.naturalHeight)];
  };
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    from = at(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    const to = at(event);
    const [left, top] = [Math.min(from[0], to[0]), Math.min(from[1], to[1])];
    choose([left, top, Math.max(1, Math.abs(to[0] - from[0])), Math.max(1, Math.abs(to[1] - from[1]))]);
  });
  ["pointerup", "pointercancel"].forEach((name) => canvas.addEventListener(name, () => { from = null; }));
}

/** Only what the task needs is asked for; without a number, a blur made here is usual, another is estimated from the image. */
function ask() {
  form.elements.level.placeholder = form.elements.degrade.checked ? "1.5" : "estimated from it";
  for (const part of form.querySelectorAll("[data-task]")) {
    part.hidden = part.dataset.task !== form.elements.task.value;
    part.querySelectorAll("input").forEach((input) => { input.disabled = part.hidden; });
  }
}

/** The file of a photograph, under the name of the one that was uploaded. */
function finished(id, state) {
  if ($("restore-compare").hidden || state !== "done") return;
  const link = $("restore-file").firstElementChild;
  [link.href, link.download] = [`/api/result?id=${id}`, `${stem()}-restored.png`];
  $("restore-file").hidden = false;
}

/** The model's own number of steps; a photograph is guessed in few, and samples are extra. */
async function suit() {
  const { model, samples, steps } = form.elements;
  if (!model.value) return;
  const facts = await get("/api/model", { id: model.value });
  [samples.value, steps.value] = facts.any_size ? [0, 16] : [4, Math.min(facts.steps, 60)];
}

async function start() {
  const { model, task: kind, level, boundary, factor, samples, steps, degrade } = form.elements;
  const order = {
    model: model.value, picture: form.elements["restore-picture"].value, task: kind.value,
    level: kind.value === "deblur" && level.value !== "" ? +level.value : null,
    boundary: kind.value === "deblur" && boundary.value !== "" ? boundary.value : null,
    factor: kind.value === "super-resolve" ? +factor.value : null, hole: kind.value === "inpaint" ? hole() : null,
    degrade: degrade.checked, samples: +samples.value, steps: +steps.value,
  };
  const job = await post("/api/restore", JSON.stringify(order));
  $("restore-results").replaceChildren();
  $("restore-compare").hidden = $("restore-file").hidden = true;
  return job;
}

export function begin({ pictures }) {
  const turned = () => turn().then(() => problem(), problem);
  const add = offer($("restore-pictures"), "restore-picture", pictures, turned);
  const added = (picture) => {
    // What was uploaded is taken to be degraded already.
    form.elements.degrade.checked = false;
    add(picture);
    ask();
  };
  form.elements.file.addEventListener("change", ({ target }) => upload(target, added).then(turned, problem));
  form.elements.model.addEventListener("change", () => suit().catch(problem));
  const cut = $("restore-cut");
  const slide = () => $("restore-compare").style.setProperty("--cut", `${cut.value}%`);
  cut.addEventListener("input", slide);
  slide();
  [form.elements.task, form.elements.degrade].forEach((control) => control.addEventListener("change", ask));
  sides.forEach((name) => form.elements[name].addEventListener("input", draw));
  drag();
  ask();
  turned();
  task("restore", start, show, finished);
}

export async function shown(visible) {
  if (!visible) return;
  try {
    const chosen = form.elements.model.value;
    options(form.elements.model, (await get("/api/models")).map(({ id, name }) => [id, name]));
    if (form.elements.model.value !== chosen) await suit();
  } catch (error) {
    problem(error);
  }
}
