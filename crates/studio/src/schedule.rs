//! Level and noise over time: of a model, or of a corruption with its usual levels.

use super::Studio;
use super::corrupt;
use super::problem::HttpProblem;
use super::query::QueryValues;
use serde_json::{Value, json};
use softdiff::corruption::Shape;
use softdiff::path::Path;
use softdiff::report::{Chart, Series};

/// Times at which the lines are drawn.
const POINTS: u32 = 200;
/// Images for which a corruption without a model is shown.
const SHAPE: Shape = Shape { height: 32, width: 32, channels: 3 };

/// `/api/schedule?model=` or `?first=`: two charts and a sentence.
pub fn answer(studio: &Studio, query: &QueryValues) -> Result<Value, HttpProblem> {
    let Some(id) = query.value("model").filter(|id| !id.is_empty()) else {
        let kinds = corrupt::kinds(query)?;
        let text = format!("{} on {SHAPE} images, with evenly spread candidate levels.", kinds.join(" + "));
        return charts(&corrupt::path(SHAPE, &kinds)?, &[], text);
    };
    let (_, place) = studio.models.place(id)?;
    let model = studio.models.open(&place)?;
    let text = match &model.schedule {
        Some(schedule) => format!(
            "{} of {} candidate levels of {}, measured on {} images; a path of cost {:.4}.",
            schedule.knots.len(),
            schedule.candidates.len(),
            schedule.corruption,
            schedule.data.images,
            schedule.path_cost
        ),
        None => "This model's path has no measured schedule.".to_owned(),
    };
    let hops = model.schedule.as_ref().map_or(&[][..], |schedule| &schedule.hops);
    let mut answer = charts(&model.path, hops, text)?;
    if let Some((schedule, sigmas)) = model.schedule.as_ref().and_then(|one| Some((one, one.sigmas.as_ref()?))) {
        let points = schedule.knots.iter().copied().zip(sigmas.iter().copied()).collect();
        let series = vec![Series::new("knots", points)];
        let joint = drawn(&Chart { x: "level".into(), y: "sigma".into(), series, ..Chart::default() });
        answer["charts"].as_array_mut().expect("charts are a list").push(joint.into());
    }
    Ok(answer)
}

fn charts(path: &Path, hops: &[f64], text: String) -> Result<Value, HttpProblem> {
    let (mut level, mut sigma) = (Vec::new(), Vec::new());
    for t in (0..=POINTS).map(|i| f64::from(i) / f64::from(POINTS)) {
        level.push((t, path.level(t).map_err(HttpProblem::failed)?));
        sigma.push((t, path.sigma(t)));
    }
    let chart = |x: &str, y: &str, points: Vec<(f64, f64)>| {
        drawn(&Chart { x: x.into(), y: y.into(), series: vec![Series::new(y, points)], ..Chart::default() })
    };
    let hops: Vec<(f64, f64)> = hops.iter().enumerate().map(|(index, hop)| (index as f64 + 1.0, *hop)).collect();
    let mut all = vec![chart("t", "level", level), chart("t", "sigma", sigma)];
    if !hops.is_empty() {
        all.push(chart("hop", "distance", hops));
    }
    Ok(json!({ "text": text, "charts": all }))
}

/// A chart for the page, whose policy allows no styles in attributes: colours become attributes of their own. Quotes in
/// names are written out, so that only the chart's own attributes are meant.
pub fn drawn(chart: &Chart) -> String {
    chart.svg().replace("style=\"stroke:", "stroke=\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_no_style_attributes_and_names_no_markup() {
        let name = "<script>alert(1)</script>\" style=\"stroke:red";
        let svg = drawn(&Chart { series: vec![Series::new(name, vec![(0.0, 1.0)])], ..Chart::default() });
        assert!(!svg.contains("<script") && !svg.contains(" style=\"") && svg.contains("stroke=\"var(--s0"), "{svg}");
    }
}
