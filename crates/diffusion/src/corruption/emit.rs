//! Linear maps in the engine: the structure of a [`LinearMap`] as operations, its numbers as tensors.
//!
//! A batch holds images at different times, whose maps share a structure and differ in numbers. The structure is a
//! [`MapProgram`]; the numbers are tensors with a leading dimension of the batch, so that gradients flow through
//! `C_t x` for every image at its own t (Soft Diffusion, Eq. 8-11). `emit` computes what [`LinearMap::apply`] does.

use super::{CorruptionError, LinearMap, Shape, SharedMap};
use crate::linalg::Matrix;
use softdiff_engine::{Graph, Result as EngineResult, Var};

/// The structure of linear maps on images of one shape, without their time-dependent numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct MapProgram {
    shape: Shape,
    part: MapPart,
}

#[derive(Debug, Clone, PartialEq)]
enum MapPart {
    Identity,
    Scale,
    /// `shared`: one matrix for rows and columns.
    Separable {
        shared: bool,
    },
    /// The bases do not depend on time; the gains do.
    Spectral {
        rows: Matrix,
        cols: Matrix,
    },
    PixelDiagonal,
    ChannelMix,
    Dense,
    Compose(Vec<MapPart>),
    Sum(Vec<MapPart>),
    /// Nothing of it depends on time.
    Shared(SharedMap),
    /// Not in the engine.
    Operator,
}

impl MapProgram {
    /// The structure of one map.
    pub fn of(map: &LinearMap, shape: Shape) -> Result<Self, CorruptionError> {
        map.check(shape)?;
        Ok(MapProgram { shape, part: MapPart::of(map) })
    }

    /// The least structure that holds all of `maps`: identities and scales become whatever richer map they meet.
    pub fn covering<'a>(maps: impl IntoIterator<Item = &'a LinearMap>, shape: Shape) -> Result<Self, CorruptionError> {
        let nothing = MapProgram { shape, part: MapPart::Identity };
        maps.into_iter().try_fold(nothing, |program, map| program.covering_also(map))
    }

    /// The least structure that holds `map` as well.
    pub fn covering_also(self, map: &LinearMap) -> Result<Self, CorruptionError> {
        map.check(self.shape)?;
        Ok(MapProgram { shape: self.shape, part: self.part.joined(MapPart::of(map))? })
    }

    /// The structure `X -> G X G^T`.
    pub fn symmetric_separable(shape: Shape) -> Self {
        MapProgram { shape, part: MapPart::Separable { shared: true } }
    }

    /// One structure after the other, the first one first; one alone stays as it is.
    pub fn composed(mut programs: Vec<MapProgram>, shape: Shape) -> Self {
        let part = match programs.len() {
            1 => programs.swap_remove(0).part,
            _ => MapPart::Compose(programs.into_iter().map(|program| program.part).collect()),
        };
        MapProgram { shape, part }
    }

    /// The structure of a mask.
    pub fn mask(shape: Shape) -> Self {
        MapProgram { shape, part: MapPart::PixelDiagonal }
    }

    /// The images it acts on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Shapes of the tensors of numbers, without the dimension of the batch.
    pub fn parameter_shapes(&self) -> Vec<Vec<usize>> {
        let mut shapes = Vec::new();
        self.part.shapes(self.shape, &mut shapes);
        shapes
    }

    /// The numbers of one map, one list per tensor.
    pub fn values(&self, map: &LinearMap) -> Result<Vec<Vec<f64>>, CorruptionError> {
        map.check(self.shape)?;
        let mut values = Vec::new();
        self.part.values(map, self.shape, &mut values)?;
        Ok(values)
    }

    /// The numbers of a batch of maps, one list per tensor with the maps one after the other.
    pub fn batch_values(&self, maps: &[LinearMap]) -> Result<Vec<Vec<f64>>, CorruptionError> {
        let mut batch = vec![Vec::new(); self.parameter_shapes().len()];
        for map in maps {
            for (all, one) in batch.iter_mut().zip(self.values(map)?) {
                all.extend(one);
            }
        }
        Ok(batch)
    }

    /// Declares one input `name.i` per tensor, for the host to set from [`MapProgram::batch_values`].
    pub fn inputs(&self, g: &mut Graph, name: &str, batch: usize) -> EngineResult<Vec<Var>> {
        let shapes = self.parameter_shapes().into_iter().enumerate();
        shapes.map(|(i, shape)| g.input(&format!("{name}.{i}"), [&[batch], &shape[..]].concat())).collect()
    }

    /// `C x` for images `x [n, h, w, c]` and the tensors of numbers, each with leading dimension n or 1.
    pub fn emit(&self, g: &mut Graph, x: Var, parameters: &[Var]) -> EngineResult<Var> {
        self.part.emit(g, self.shape, x, &mut parameters.iter().copied())
    }
}

impl MapPart {
    fn of(map: &LinearMap) -> MapPart {
        match map {
            LinearMap::Identity => MapPart::Identity,
            LinearMap::Scale(_) => MapPart::Scale,
            LinearMap::Separable { rows, cols } => MapPart::Separable { shared: rows == cols },
            LinearMap::Spectral { rows, cols, .. } => MapPart::Spectral { rows: rows.clone(), cols: cols.clone() },
            LinearMap::PixelDiagonal(_) => MapPart::PixelDiagonal,
            LinearMap::ChannelMix(_) => MapPart::ChannelMix,
            LinearMap::Dense(_) => MapPart::Dense,
            LinearMap::Compose(parts) => MapPart::Compose(parts.iter().map(MapPart::of).collect()),
            LinearMap::Sum(parts) => MapPart::Sum(parts.iter().map(MapPart::of).collect()),
            LinearMap::Shared(shared) => MapPart::Shared(shared.clone()),
            LinearMap::Operator(_) => MapPart::Operator,
        }
    }

    fn joined(self, other: MapPart) -> Result<MapPart, CorruptionError> {
        let pairwise = |a: Vec<MapPart>, b: Vec<MapPart>| {
            a.into_iter().zip(b).map(|(a, b)| a.joined(b)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match (self, other) {
            (MapPart::Separable { shared: a }, MapPart::Separable { shared: b }) => {
                MapPart::Separable { shared: a && b }
            }
            (MapPart::Compose(a), MapPart::Compose(b)) if a.len() == b.len() => MapPart::Compose(pairwise(a, b)?),
            (MapPart::Sum(a), MapPart::Sum(b)) if a.len() == b.len() => MapPart::Sum(pairwise(a, b)?),
            (a, b) if a == b => a,
            (MapPart::Identity, richer) | (richer, MapPart::Identity) => richer,
            // A multiple of the identity has a place in every other structure but an empty one.
            (MapPart::Scale, richer) | (richer, MapPart::Scale) => richer,
            (a, b) => return Err(CorruptionError::Structures { first: a.name(), second: b.name() }),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            MapPart::Identity => "identity",
            MapPart::Scale => "scale",
            MapPart::Separable { .. } => "separable",
            MapPart::Spectral { .. } => "spectral",
            MapPart::PixelDiagonal => "pixel mask",
            MapPart::ChannelMix => "channel mix",
            MapPart::Dense => "dense",
            MapPart::Compose(_) => "composition",
            MapPart::Sum(_) => "sum",
            MapPart::Shared(_) => "constant",
            MapPart::Operator => "operator",
        }
    }

    fn shapes(&self, shape: Shape, out: &mut Vec<Vec<usize>>) {
        let Shape { height, width, channels } = shape;
        match self {
            MapPart::Identity | MapPart::Shared(_) | MapPart::Operator => {}
            MapPart::Scale => out.push(vec![1, 1, 1]),
            MapPart::Separable { shared: true } => out.push(vec![height, height]),
            MapPart::Separable { shared: false } => out.extend([vec![height, height], vec![width, width]]),
            MapPart::Spectral { .. } | MapPart::PixelDiagonal => out.push(vec![height, width, 1]),
            MapPart::ChannelMix => out.push(vec![channels, channels]),
            MapPart::Dense => out.push(vec![shape.len(), shape.len()]),
            MapPart::Compose(parts) | MapPart::Sum(parts) => parts.iter().for_each(|part| part.shapes(shape, out)),
        }
    }

    fn values(&self, map: &LinearMap, shape: Shape, out: &mut Vec<Vec<f64>>) -> Result<(), CorruptionError> {
        match (self, map) {
            (MapPart::Separable { shared: true }, LinearMap::Separable { rows, cols }) if rows == cols => {
                out.push(rows.values().to_vec());
            }
            (MapPart::Separable { shared: false }, LinearMap::Separable { rows, cols }) => {
                out.extend([rows.values().to_vec(), cols.values().to_vec()]);
            }
            (MapPart::Spectral { rows, cols }, LinearMap::Spectral { rows: b, cols: d, gains })
                if rows == b && cols == d =>
            {
                out.push(gains.clone());
            }
            (MapPart::PixelDiagonal, LinearMap::PixelDiagonal(weights)) => out.push(weights.clone()),
            (MapPart::ChannelMix, LinearMap::ChannelMix(matrix)) | (MapPart::Dense, LinearMap::Dense(matrix)) => {
                out.push(matrix.values().to_vec());
            }
            (MapPart::Compose(parts), LinearMap::Compose(maps)) | (MapPart::Sum(parts), LinearMap::Sum(maps))
                if parts.len() == maps.len() =>
            {
                for (part, map) in parts.iter().zip(maps) {
                    part.values(map, shape, out)?;
                }
            }
            (MapPart::Shared(one), LinearMap::Shared(other)) if one == other => {}
            (_, LinearMap::Identity) => self.multiple_of_identity(1.0, shape, out)?,
            (_, LinearMap::Scale(factor)) => self.multiple_of_identity(*factor, shape, out)?,
            _ => return Err(CorruptionError::Structures { first: self.name(), second: MapPart::of(map).name() }),
        }
        Ok(())
    }

    /// The numbers that make this structure `factor` times the identity.
    fn multiple_of_identity(&self, factor: f64, shape: Shape, out: &mut Vec<Vec<f64>>) -> Result<(), CorruptionError> {
        let diagonal = |n: usize, value: f64| Matrix::diagonal(&vec![value; n]).into_values();
        match self {
            MapPart::Identity if factor == 1.0 => {}
            MapPart::Identity | MapPart::Shared(_) | MapPart::Operator => {
                return Err(CorruptionError::Structures { first: self.name(), second: "scale" });
            }
            MapPart::Scale => out.push(vec![factor]),
            // G G^T = factor I.
            MapPart::Separable { shared: true } if factor >= 0.0 => out.push(diagonal(shape.height, factor.sqrt())),
            MapPart::Separable { shared: true } => {
                return Err(CorruptionError::Structures { first: "symmetric separable", second: "negative scale" });
            }
            MapPart::Separable { shared: false } => {
                out.extend([diagonal(shape.height, factor), diagonal(shape.width, 1.0)]);
            }
            MapPart::Spectral { .. } | MapPart::PixelDiagonal => out.push(vec![factor; shape.pixels()]),
            MapPart::ChannelMix => out.push(diagonal(shape.channels, factor)),
            MapPart::Dense => out.push(diagonal(shape.len(), factor)),
            MapPart::Compose(parts) | MapPart::Sum(parts) => {
                let rest = if matches!(self, MapPart::Sum(_)) { 0.0 } else { 1.0 };
                // The factor goes to the first part that can hold it.
                let first = parts.iter().position(MapPart::holds_a_factor).unwrap_or(0);
                for (index, part) in parts.iter().enumerate() {
                    // Zero times anything is zero.
                    if factor == 0.0 && index != first && matches!(part, MapPart::Shared(_)) {
                        continue;
                    }
                    part.multiple_of_identity(if index == first { factor } else { rest }, shape, out)?;
                }
            }
        }
        Ok(())
    }

    fn holds_a_factor(&self) -> bool {
        match self {
            MapPart::Identity | MapPart::Shared(_) => false,
            MapPart::Compose(parts) => parts.iter().any(MapPart::holds_a_factor),
            MapPart::Sum(parts) => parts.iter().all(MapPart::holds_a_factor),
            _ => true,
        }
    }

    fn emit(
        &self,
        g: &mut Graph,
        shape: Shape,
        x: Var,
        parameters: &mut impl Iterator<Item = Var>,
    ) -> EngineResult<Var> {
        let mut next = || {
            parameters.next().ok_or(softdiff_engine::Error::Unknown {
                kind: "number tensor of a map",
                name: self.name().into(),
                hint: Some("give as many as `parameter_shapes` lists".into()),
            })
        };
        match self {
            MapPart::Identity => Ok(x),
            MapPart::Scale | MapPart::PixelDiagonal => {
                let factor = next()?;
                g.mul(x, factor)
            }
            MapPart::Separable { shared } => {
                let rows = next()?;
                let cols = if *shared { rows } else { next()? };
                g.separable(x, rows, cols)
            }
            MapPart::Spectral { rows, cols } => {
                let gains = next()?;
                let fixed = |g: &mut Graph, m: Matrix| g.constant([1, m.rows(), m.cols()], m.into_values());
                let (b, d) = (fixed(g, rows.clone())?, fixed(g, cols.clone())?);
                let (bt, dt) = (fixed(g, rows.transposed())?, fixed(g, cols.transposed())?);
                let spectrum = g.separable(x, b, d)?;
                let damped = g.mul(spectrum, gains)?;
                g.separable(damped, bt, dt)
            }
            MapPart::ChannelMix => {
                let matrix = next()?;
                g.channel_mix(x, matrix)
            }
            MapPart::Dense => {
                let matrix = next()?;
                let n = g.shape(x).first().copied().unwrap_or(1);
                let y = if g.shape(matrix)[0] == 1 {
                    // One matrix for all images: one product, with the images as rows.
                    let flat = g.reshape(x, [1, n, shape.len()])?;
                    g.matmul(flat, matrix, [false, true])?
                } else {
                    let flat = g.reshape(x, [n, shape.len(), 1])?;
                    g.matmul(matrix, flat, [false, false])?
                };
                g.reshape(y, [n, shape.height, shape.width, shape.channels])
            }
            MapPart::Shared(shared) => {
                let program = MapProgram { shape, part: MapPart::of(shared.map()) };
                let (mut values, mut constants) = (Vec::new(), Vec::new());
                // A map always fits its own structure.
                if program.part.values(shared.map(), shape, &mut values).is_err() {
                    unreachable!("a map has the numbers of its own structure");
                }
                for (shape, values) in program.parameter_shapes().into_iter().zip(values) {
                    constants.push(g.constant([&[1], &shape[..]].concat(), values)?);
                }
                program.emit(g, x, &constants)
            }
            MapPart::Operator => Err(softdiff_engine::Error::Unknown {
                kind: "map of the engine",
                name: self.name().into(),
                hint: Some("give the map as matrices".into()),
            }),
            MapPart::Compose(parts) => parts.iter().try_fold(x, |x, part| part.emit(g, shape, x, parameters)),
            MapPart::Sum(parts) => {
                let mut terms = Vec::with_capacity(parts.len());
                for part in parts {
                    terms.push((1.0, part.emit(g, shape, x, parameters)?));
                }
                g.combine(&terms)
            }
        }
    }
}
