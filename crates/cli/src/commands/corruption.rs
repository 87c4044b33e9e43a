//! The flags that name a corruption, shared by several verbs.

use clap::{Args, ValueEnum};
use softdiff::corruption::*;
use softdiff::curve::Interpolation;
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

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Blur,
    Heat,
    Masking,
    Pixelation,
    Fading,
    Decolourisation,
    Motion,
    Identity,
    Custom,
}

/// One corruption or several, each with its part of the way.
#[derive(Clone)]
struct Kinds(Vec<(Kind, f64, f64)>);

fn parse_kinds(text: &str) -> Result<Kinds, String> {
    let one = |text: &str| {
        let (name, range) = text.split_once('@').unwrap_or((text, "0-1"));
        let kind = Kind::from_str(name, false).map_err(|_| {
            let names = Kind::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
            format!("there is no corruption {name:?}; give one of {}", names.join(", "))
        })?;
        let ends = range.split_once('-').and_then(|(from, until)| Some((from.parse().ok()?, until.parse().ok()?)));
        let (from, until): (f64, f64) = ends.ok_or(format!("{range:?} is no part of the way; give one as 0-0.6"))?;
        if !(from >= 0.0 && from < until && until <= 1.0) {
            return Err(format!("{name} runs from {from} until {until}; give a rising part of 0-1, such as 0-0.6"));
        }
        Ok((kind, from, until))
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
        if let [(kind, from, until)] = self.corruption.0[..]
            && (from, until) == (0.0, 1.0)
        {
            return self.one(kind, shape, seed);
        }
        let mut parts = Vec::new();
        for &(kind, from, until) in &self.corruption.0 {
            let part = self.one(kind, shape, seed)?;
            let knots = usual_candidates(&*part, KNOTS).map_err(|error| CorruptionError::PartLevels {
                name: part.name().to_owned(),
                problem: error.to_string(),
            })?;
            let curve = Composed::curve(&*part, knots, Interpolation::Linear, [from, until])?;
            parts.push((part, curve));
        }
        Ok(Box::new(Composed::new(parts)?))
    }

    fn one(&self, kind: Kind, shape: Shape, seed: u64) -> Result<Box<dyn Corruption>, CorruptionError> {
        let boundary = match self.boundary {
            Edge::Zero => Boundary::Zero,
            Edge::Reflect => Boundary::Reflect,
            Edge::Periodic => Boundary::Periodic,
        };
        let order = match self.order {
            Order::Window => ErasureOrder::Window,
            Order::Spiral => ErasureOrder::Spiral,
            Order::Random => ErasureOrder::Random { seed },
            Order::Rows => ErasureOrder::Rows,
            Order::Columns => ErasureOrder::Columns,
        };
        let side = shape.height.max(shape.width);
        // The paper's strongest blurs (appendix, "Blur parameters"), in proportion for other sizes.
        let paper_blur = if side <= 32 { 18.0 * side as f64 / 32.0 } else { 23.0 * side as f64 / 64.0 };
        let largest = self.largest.unwrap_or(match kind {
            Kind::Motion => side as f64 / 2.0,
            _ => paper_blur,
        });
        Ok(match kind {
            Kind::Blur => Box::new(Blur::new(shape, boundary, largest)?),
            Kind::Heat => Box::new(HeatDissipation::new(shape, largest)?),
            Kind::Masking => Box::new(Masking::new(shape, order)),
            Kind::Pixelation => Box::new(Pixelation::new(shape)),
            Kind::Fading => Box::new(Fading::new(shape)),
            Kind::Decolourisation => Box::new(Decolourisation::new(shape, Grey::Mean)?),
            Kind::Motion => Box::new(MotionBlur::new(shape, Direction::Horizontal, boundary, largest)?),
            Kind::Identity => Box::new(Unchanged::new(shape)),
            Kind::Custom => match &self.map {
                Some(map) => Box::new(Custom::from_file(shape, map)?),
                None => {
                    let problem = "--corruption custom needs a map; name its file".to_owned();
                    return Err(CorruptionError::File { path: "--map".to_owned(), problem });
                }
            },
        })
    }
}
