//! The flags that name a corruption, shared by several verbs.

use clap::{Args, ValueEnum};
use softdiff::corruption::*;
use softdiff::curve::Interpolation;
use softdiff::engine::HintedMessage;
use softdiff::schedule::usual_candidates;
use std::path::PathBuf;

/// Knots of the levels of each of several corruptions.
const KNOTS: usize = 32;

/// Which corruption.
#[derive(Args)]
pub struct CorruptionFlags {
    /// The corruption: blur, heat, masking, pixelation, fading, decolourisation, motion, identity or custom; several one after
    /// the other as blur+masking, each in its own part of the way as blur@0-0.6+masking@0.4-1.
    #[arg(long, default_value = "blur", value_name = "KIND", value_parser = parse_kinds)]
    corruption: Kinds,
    /// What filters see beyond the border.
    #[arg(long, value_enum, default_value_t = Edge::Zero)]
    boundary: Edge,
    /// Strongest blur (standard deviation) or motion (length) in pixels; for blur the paper's 18 at 32x32, 23 at 64x64.
    #[arg(long, value_name = "PIXELS")]
    largest: Option<f64>,
    /// Order in which masking erases pixels.
    #[arg(long, value_enum, default_value_t = Order::Window)]
    order: Order,
    /// A .json or .safetensors file with the map of `--corruption custom`.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// One corruption or several, each with its part of the way.
#[derive(Clone)]
struct Kinds(Vec<(CorruptionSpec, f64, f64)>);

fn parse_kinds(text: &str) -> Result<Kinds, String> {
    let one = |text: &str| {
        let (name, range) = text.split_once('@').unwrap_or((text, "0-1"));
        let spec = CorruptionSpec::named(name).map_err(|_| {
            let names: Vec<&str> = CORRUPTIONS.iter().map(|entry| entry.name).collect();
            format!("there is no corruption {name:?}; give one of {}", names.join(", "))
        })?;
        let ends = range.split_once('-').and_then(|(from, until)| Some((from.parse().ok()?, until.parse().ok()?)));
        let (from, until): (f64, f64) = ends.ok_or(format!("{range:?} is no part of the way; give one as 0-0.6"))?;
        if !(from >= 0.0 && from < until && until <= 1.0) {
            return Err(format!("{name} runs from {from} until {until}; give a rising part of 0-1, such as 0-0.6"));
        }
        Ok((spec, from, until))
    };
    text.split('+').map(one).collect::<Result<_, _>>().map(Kinds)
}

#[derive(Clone, Copy, ValueEnum)]
enum Edge {
    Zero,
    Reflect,
    Periodic,
}

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    Window,
    Spiral,
    Random,
    Rows,
    Columns,
}

impl CorruptionFlags {
    /// The corruption for images of `shape`; random orders take `seed`.
    pub fn build(&self, shape: Shape, seed: u64) -> Result<Box<dyn Corruption>, CorruptionError> {
        if let [(spec, from, until)] = &self.corruption.0[..]
            && (*from, *until) == (0.0, 1.0)
        {
            return self.with_flags(spec, seed)?.build(shape);
        }
        let mut parts = Vec::new();
        for (spec, from, until) in &self.corruption.0 {
            let part = self.with_flags(spec, seed)?.build(shape)?;
            let knots = usual_candidates(&*part, KNOTS).map_err(|error| CorruptionError::PartLevels {
                name: part.name().to_owned(),
                problem: HintedMessage::of(error),
            })?;
            let curve = Composed::curve(&*part, knots, Interpolation::Linear, [*from, *until])?;
            parts.push((part, curve));
        }
        Ok(Box::new(Composed::new(parts)?))
    }

    /// The parameters that flags give, of those that the corruption has.
    fn with_flags(&self, spec: &CorruptionSpec, seed: u64) -> Result<CorruptionSpec, CorruptionError> {
        let boundary = match self.boundary {
            Edge::Zero => Boundary::Zero,
            Edge::Reflect => Boundary::Reflect,
            Edge::Periodic => Boundary::Periodic,
        };
        let order = match self.order {
            Order::Window => "window",
            Order::Spiral => "spiral",
            Order::Random => "random",
            Order::Rows => "rows",
            Order::Columns => "columns",
        };
        let spec = spec.clone().with_boundary(boundary).with("order", ParameterValue::Word(order));
        let spec = spec.with("order_seed", ParameterValue::Seed(seed));
        let spec = self.largest.map_or(spec.clone(), |largest| spec.with_largest(largest));
        match &self.map {
            Some(map) => Ok(spec.with("map", ParameterValue::File(map.to_string_lossy().into_owned()))),
            None if spec.value("map").is_some() => {
                let problem = HintedMessage::new("--corruption custom needs a map", "name its file");
                Err(CorruptionError::File { path: "--map".to_owned(), problem })
            }
            None => Ok(spec),
        }
    }
}
