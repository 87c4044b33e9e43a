//! The flags that name a corruption, shared by several verbs.

use clap::{Args, ValueEnum};
use softdiff::corruption::*;
use std::path::PathBuf;

/// Which corruption.
#[derive(Args)]
pub struct CorruptionFlags {
    /// The corruption.
    #[arg(long, value_enum, default_value_t = Kind::Blur)]
    corruption: Kind,
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
    #[arg(long, value_name = "FILE", required_if_eq("corruption", "custom"))]
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
        let largest = self.largest.unwrap_or(match self.corruption {
            Kind::Motion => side as f64 / 2.0,
            _ => paper_blur,
        });
        Ok(match self.corruption {
            Kind::Blur => Box::new(Blur::new(shape, boundary, largest)?),
            Kind::Heat => Box::new(HeatDissipation::new(shape, largest)?),
            Kind::Masking => Box::new(Masking::new(shape, order)),
            Kind::Pixelation => Box::new(Pixelation::new(shape)),
            Kind::Fading => Box::new(Fading::new(shape)),
            Kind::Decolourisation => Box::new(Decolourisation::new(shape, Grey::Mean)?),
            Kind::Motion => Box::new(MotionBlur::new(shape, Direction::Horizontal, boundary, largest)?),
            Kind::Identity => Box::new(Unchanged::new(shape)),
            Kind::Custom => Box::new(Custom::from_file(shape, self.map.as_deref().unwrap_or("".as_ref()))?),
        })
    }
}
