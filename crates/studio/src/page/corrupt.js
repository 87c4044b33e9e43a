import { $, get, offer, options, png, problem, upload } from "/common.js";

const form = $("corrupt-form");
let [asked, busy] = [false, false];

/** Asks for one image at a time; while one is on its way, only the newest wish is kept. */
async function refresh() {
  $("corrupt-time").textContent = Number(form.elements.t.value).toFixed(2);
  asked = true;
  if (busy) return;
  busy = true;
  while (asked) {
    asked = false;
    const { first, second, t, seed, noise, picture } = form.elements;
    const begun = performance.now();
    try {
      const facts = await get("/api/corrupt", {
        picture: picture.value, first: first.value, second: second.value, t: t.value,
        seed: seed.value || "0", noise: noise.checked ? "1" : "0",
      });
      const image = $("corrupt-image");
      image.src = png(facts.png);
      await image.decode();
      const whole = performance.now() - begun;
      const size = `${facts.width} x ${facts.height} pixels`;
      $("corrupt-facts").textContent = `level ${facts.level.toFixed(3)}, noise ${facts.sigma.toFixed(4)}, ${size}; ` +
        `computed in ${facts.milliseconds.toFixed(0)} ms, shown in ${whole.toFixed(0)} ms`;
      image.dataset.shown = `${first.value} ${second.value} ${t.value} ${noise.checked}`;
      problem();
    } catch (error) {
      problem(error);
    }
  }
  busy = false;
}

export function begin({ pictures, corruptions }) {
  const kinds = corruptions.map((kind) => [kind, kind]);
  options(form.elements.first, kinds);
  options(form.elements.second, [["none", "nothing"], ...kinds]);
  const add = offer($("corrupt-pictures"), "picture", pictures, refresh);
  form.addEventListener("input", (event) => event.target.type !== "file" && refresh());
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.file.addEventListener("change", async ({ target }) => {
    try {
      const { width, height, taken } = (await upload(target, add)) ?? {};
      const note = $("corrupt-upload");
      note.hidden = !taken || taken[0] === width;
      if (!note.hidden) note.textContent = `Your image has ${width} x ${height} pixels; here it is made ${taken[0]} x ${taken[1]}.`;
      await refresh();
    } catch (error) {
      problem(error);
    }
  });
  refresh();
}
