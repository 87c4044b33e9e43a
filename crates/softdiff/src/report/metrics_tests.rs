//! Kept results as sections.

use super::*;
use crate::metrics::{ImageSetInfo, Protocol};
use serde_json::json;

fn result(sampler: &str, evaluations: usize, fid: f64, count: usize) -> Evaluation {
    let pictures =
        |source: &str| ImageSetInfo { source: source.into(), count, split: "train".into(), ..ImageSetInfo::default() };
    let protocol = Protocol {
        images: ImageSetInfo { hash: format!("{sampler}{evaluations}"), ..pictures("images.npz") },
        reference: pictures("my data"),
        quantisation: "8 bits".into(),
        network: "blake3:1".into(),
        preset: "pytorch-fid".into(),
        options: [("fid".to_owned(), json!({}))].into(),
    };
    let mut evaluation = Evaluation::new(protocol, "cpu".into());
    evaluation.results.insert("fid".into(), Measured::new(fid));
    evaluation.made = Some(Made {
        checkpoint: None,
        model: "first".into(),
        run: None,
        step: 100,
        weights: "ema-0.999".into(),
        sampler: sampler.into(),
        steps: evaluations,
        evaluations,
        quantise: Default::default(),
        seeds: "0..50".into(),
        guidance: None,
        guide: None,
        set: vec!["sample.churn_rate=2".into()],
    });
    evaluation
}

fn kept(evaluations: Vec<Evaluation>) -> StoredEvaluations {
    StoredEvaluations { evaluations, unreadable: vec!["torn.json".into()] }
}

#[test]
fn results_of_one_protocol_make_a_line_for_each_sampler_and_others_a_table_of_their_own() {
    let kept = kept(vec![
        result("heun", 19, 30.0, 50),
        result("heun", 39, 20.0, 50),
        result("naive", 40, 90.0, 50),
        result("heun", 39, 10.0, 60),
    ]);
    assert_eq!(kept.groups().iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    let figure = kept.quality().unwrap().blocks.remove(0);
    let PageBlock::Figure(figure) = figure else { panic!() };
    let (_, svg) = figure.file();
    let svg = String::from_utf8(svg).unwrap();
    assert!(figure.name == "quality" && figure.caption.contains("FID") && figure.caption.contains("50 images"));
    assert!(svg.contains(">heun<") && svg.contains(">naive<") && !svg.contains("step 100"));
    let section = kept.section().unwrap();
    let tables = section.blocks.iter().filter(|block| matches!(block, PageBlock::Table { .. })).count();
    let text = format!("{section:?}");
    assert!(tables == 4 && text.contains("torn.json") && text.contains("reference.split") && text.contains("heun39"));
    assert_eq!(kept.lowest_fid().unwrap(), ("FID, 60 images, heun in 39 steps".into(), "10.00".into()));
}

#[test]
fn a_single_result_is_no_line_and_nothing_kept_is_no_section() {
    assert!(kept(vec![result("heun", 19, 30.0, 50)]).quality().is_none());
    assert!(StoredEvaluations::default().section().is_none() && StoredEvaluations::default().lowest_fid().is_none());
}

#[test]
fn the_commands_are_those_that_made_it_and_names_stay_words() {
    let commands = kept(vec![result("he'un; rm", 19, 30.0, 50)]).commands("runs/first");
    assert_eq!(
        commands[0],
        "softdiff sample runs/first --weights ema-0.999 --sampler 'he'\\''un; rm' --steps 19 --seeds 0..50 \
         --set sample.churn_rate=2 --out images.npz"
    );
    assert_eq!(
        commands[1],
        "softdiff eval images.npz --against 'my data' --run runs/first --metrics fid --preset pytorch-fid"
    );
}

#[test]
fn guided_samples_are_a_line_of_their_own_and_the_command_has_their_guide() {
    let guided = |evaluations, fid| {
        let mut guided = result("heun", evaluations, fid, 50);
        let made = guided.made.as_mut().unwrap();
        (made.guidance, made.guide) = (Some(1.5), Some("runs/a guide".into()));
        guided
    };
    let kept = kept(vec![result("heun", 20, 30.0, 50), guided(20, 12.0), guided(40, 10.0)]);
    let PageBlock::Figure(figure) = kept.quality().unwrap().blocks.remove(0) else { panic!() };
    let svg = String::from_utf8(figure.file().1).unwrap();
    assert!(svg.contains(">heun<") && svg.contains(">heun, guidance 1.5 by runs/a guide<"), "{svg}");
    assert!(kept.commands("runs/first")[4].contains(" --guide 'runs/a guide' --guidance 1.5 --out"));
    // As they are stored; what was stored before has neither.
    let made = kept.evaluations[1].made.clone().unwrap();
    let stored = serde_json::to_value(&made).unwrap();
    assert_eq!(serde_json::from_value::<Made>(stored.clone()).unwrap(), made);
    assert_eq!((&stored["guidance"], &stored["guide"]), (&json!(1.5), &json!("runs/a guide")));
    let alone = serde_json::to_value(kept.evaluations[0].made.as_ref().unwrap()).unwrap();
    assert!(alone.get("guidance").is_none() && alone.get("guide").is_none());
}
