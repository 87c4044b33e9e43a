import { $, chart, get, options, problem } from "/common.js";

const form = $("schedule-form");

async function refresh() {
  const { model, first } = form.elements;
  first.disabled = model.value !== "";
  try {
    const facts = await get("/api/schedule", { model: model.value, first: first.value });
    $("schedule-text").textContent = facts.text;
    $("schedule-charts").replaceChildren(...facts.charts.map(chart));
    problem();
  } catch (error) {
    problem(error);
  }
}

export function begin({ corruptions }) {
  options(form.elements.first, corruptions.map((kind) => [kind, kind]));
  form.addEventListener("change", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
}

export async function shown(visible) {
  if (!visible) return;
  try {
    const models = await get("/api/models");
    options(form.elements.model, [["", "a corruption"], ...models.map(({ id, name }) => [id, name])]);
    await refresh();
  } catch (error) {
    problem(error);
  }
}
