// What all pages share. Text from elsewhere goes in as text, never as markup; only the server's own charts are markup.

export const $ = (id) => document.getElementById(id);

export function problem(error) {
  const place = $("problem");
  place.textContent = error ? [error.message, error.hint].filter(Boolean).join(". ") : "";
  place.hidden = !error;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw Object.assign(new Error("The studio does not answer"), { hint: "Is softdiff studio still running?" });
  }
  const facts = await response.json();
  if (!response.ok) throw Object.assign(new Error(facts.error), { hint: facts.hint });
  return facts;
}

const query = (values) => new URLSearchParams(values).toString();

export const get = (path, values = {}, signal) => ask(`${path}?${query(values)}`, { signal });

export const post = (path, body, kind = "application/json") =>
  ask(path, { method: "POST", body, headers: { "content-type": kind } });

export const png = (data) => `data:image/png;base64,${data}`;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function figure(source, caption) {
  return element("figure", {}, element("img", { src: source, alt: caption }), element("figcaption", {}, caption));
}

/** A link that saves an image of the page as a file. */
export function download(image, file) {
  const link = element("a", { className: "download", download: file, href: image.src }, "Download");
  link.addEventListener("click", () => { link.href = image.src; });
  return link;
}

/** A part of a file's name. */
export const filed = (text) => text.replace(/[^\p{L}\p{N}.-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "") || "image";

export function options(select, values, kept = select.value) {
  const made = values.map(([value, text]) => element("option", { value }, text));
  select.replaceChildren(...made);
  if (values.some(([value]) => value === kept)) select.value = kept;
}

/** A chart from the server, whose names are written out there. */
export function chart(svg) {
  const made = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  return document.importNode(made, true);
}

/** Offers images; gives a function that adds one that was uploaded. */
export function offer(place, name, pictures, changed) {
  const add = ({ id, png: data, name: file = "" }, text, checked) => {
    const input = element("input", { type: "radio", name, value: id, checked });
    input.dataset.file = file;
    input.addEventListener("change", changed);
    place.append(element("label", {}, input, element("img", { src: png(data), alt: text })));
  };
  pictures.forEach((picture, index) => add(picture, `Sample image ${index + 1}`, index === 0));
  return (picture) => add(picture, `${picture.name}, ${picture.width} x ${picture.height} pixels`, true);
}

/** Uploads what a file input holds. */
export async function upload(input, add) {
  const file = input.files[0];
  if (!file) return;
  if (file.size > 32 << 20) {
    throw Object.assign(new Error("This file is larger than 32 MB"), { hint: "Choose a smaller one" });
  }
  const picture = await post("/api/pictures", await file.arrayBuffer(), "application/octet-stream");
  add({ ...picture, name: file.name });
  input.value = "";
  return picture;
}

/** Follows a task to its end; `show` gets its frames, `tell` how it is. */
export async function follow(id, show, tell) {
  for (let since = 0; ; ) {
    const job = await get("/api/job", { id, since });
    job.frames.forEach(show);
    since = job.next;
    tell(job);
    if (job.more) continue;
    if (job.problem) throw Object.assign(new Error(job.problem.error), { hint: job.problem.hint });
    if (job.state !== "waiting" && job.state !== "running") return job.state;
    await new Promise((done) => setTimeout(done, 200));
  }
}

/** A form that starts one task at a time and can stop it. */
export function task(name, start, show, over) {
  const form = $(`${name}-form`);
  const [bar, status] = [$(`${name}-progress`), $(`${name}-status`)];
  const { cancel } = form.elements;
  const submit = form.querySelector("button:not([type])");
  let id = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem();
    [submit.disabled, cancel.disabled, status.textContent] = [true, false, "Asking."];
    try {
      ({ id } = await start(form));
      bar.hidden = false;
      const state = await follow(id, show, ({ state, done, total, title }) => {
        bar.value = total ? done / total : 0;
        status.textContent = total ? `${title}: ${done} of ${total}` : `${title}: ${state}`;
      });
      status.textContent = state === "cancelled" ? "Stopped." : "Done.";
      over?.(id, state);
    } catch (error) {
      status.textContent = "";
      problem(error);
    }
    bar.hidden = true;
    [submit.disabled, cancel.disabled, id] = [false, true, null];
  });
  cancel.addEventListener("click", () => id && post(`/api/cancel?id=${id}`, "{}").catch(problem));
}
