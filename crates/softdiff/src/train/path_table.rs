//! A path in the graph of a training step: C_t and sigma_t looked up in a table from times drawn on the device.

use crate::corruption::{Corruption, CorruptionError, MapProgram, Shape};
use crate::curve::Curve;
use crate::objective::MomentVars;
use crate::path::{LevelSchedule, Path, PathError};
use softdiff_engine::{Graph, Hint, Result, Var};
use std::borrow::Cow;

/// Rows of the table that training uses.
pub const TABLE_ROWS: usize = 1024;
/// The largest table, in bytes of single precision.
pub const TABLE_LIMIT: usize = 256 << 20;

/// What is wrong with a table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Fewer than two rows.
    #[error("a table over time needs at least 2 rows, not {0}")]
    Rows(usize),
    /// Too large.
    #[error(
        "a table of {rows} times needs {} MiB, more than {} MiB",
        bytes >> 20, TABLE_LIMIT >> 20
    )]
    TooLarge {
        /// Rows asked for.
        rows: usize,
        /// What they need.
        bytes: usize,
    },
    /// A bad path.
    #[error("{0}")]
    Path(#[from] PathError),
    /// Maps of different kinds.
    #[error("{0}")]
    Corruption(#[from] CorruptionError),
}

impl Hint for TableError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            TableError::Rows(_) => format!("{TABLE_ROWS} are usual").into(),
            TableError::TooLarge { .. } => "give smaller images by data.size".into(),
            _ => return None,
        })
    }
}

/// The numbers of a path at equally spaced times, linear in between: C_t is exact at the rows. Hard masks are exact at all
/// times: their levels are compared with those at which pixels are erased.
///
/// sigma_t is linear between the rows too, and one and the same for the noise and for the weights of the loss.
#[derive(Debug, Clone)]
pub struct PathTable {
    pub(super) shape: Shape,
    pub(super) centre: f64,
    program: MapProgram,
    rows: usize,
    stages: Vec<StageTable>,
    sigma: Vec<f64>,
}

#[derive(Debug, Clone)]
enum StageTable {
    /// One table `[rows, numbers]` per tensor; a single row where nothing depends on time.
    Rows { program: MapProgram, tables: Vec<Vec<f64>> },
    /// A hard mask.
    Mask(MaskTable),
}

/// The level of a hard mask at equal distances of time from `start` to 1, and where its pixels are erased.
#[derive(Debug, Clone)]
struct MaskTable {
    start: f64,
    levels: Vec<f64>,
    erased_at: Vec<f64>,
}

impl PathTable {
    /// The table of `path` at `rows` times from 0 to 1.
    pub fn new(path: &Path, rows: usize) -> Result<Self, TableError> {
        if rows < 2 {
            return Err(TableError::Rows(rows));
        }
        let shape = path.shape();
        let (mut stages, mut programs) = (Vec::new(), Vec::new());
        for part in timed_parts(path) {
            let stage = match part.corruption.erased_at() {
                Some(erased_at) => StageTable::Mask(MaskTable::new(&part, erased_at)),
                None => StageTable::rows(&part, rows)?,
            };
            programs.push(match &stage {
                StageTable::Rows { program, .. } => program.clone(),
                StageTable::Mask(_) => MapProgram::mask(shape),
            });
            stages.push(stage);
        }
        let sigma = (0..rows).map(|row| path.sigma(row as f64 / (rows - 1) as f64)).collect();
        let (program, centre) = (MapProgram::composed(programs, shape), path.centre());
        Ok(PathTable { shape, centre, program, rows, stages, sigma })
    }

    /// C_t and sigma_t for times `t [n]`; times outside [0, 1] count as its ends.
    pub fn moment(&self, g: &mut Graph, t: Var) -> Result<MomentVars> {
        let n = g.shape(t).numel();
        let position = g.scale(t, (self.rows - 1) as f64)?;
        let mut parameters = Vec::new();
        for stage in &self.stages {
            let (program, tables) = match stage {
                StageTable::Rows { program, tables } => (program, tables),
                StageTable::Mask(mask) => {
                    parameters.push(mask.emit(g, t, self.shape)?);
                    continue;
                }
            };
            for (values, shape) in tables.iter().zip(program.parameter_shapes()) {
                let width: usize = shape.iter().product();
                if values.len() == width {
                    parameters.push(g.constant([&[1], &shape[..]].concat(), values.clone())?);
                    continue;
                }
                let table = g.constant([self.rows, width], values.clone())?;
                let row = g.interpolate(table, position)?;
                parameters.push(g.reshape(row, [&[n], &shape[..]].concat())?);
            }
        }
        let table = g.constant([self.rows, 1], self.sigma.clone())?;
        let sigma = g.interpolate(table, position)?;
        let sigma = g.reshape(sigma, [n, 1, 1, 1])?;
        Ok(MomentVars { program: self.program.clone(), parameters, sigma })
    }
}

/// A corruption that is not composed of others, with its level over time.
struct TimedPart<'a> {
    corruption: &'a dyn Corruption,
    schedule: &'a LevelSchedule,
    /// The level as a function of the composition's, for parts of one.
    curve: Option<&'a Curve>,
}

impl TimedPart<'_> {
    fn level(&self, t: f64) -> f64 {
        let level = self.schedule.at(t).0;
        self.curve.map_or(level, |curve| curve.value(level))
    }
}

/// What a path consists of, in the order it is applied.
fn timed_parts(path: &Path) -> Vec<TimedPart<'_>> {
    let mut all = Vec::new();
    for (corruption, schedule) in path.stages() {
        if corruption.parts().is_empty() {
            all.push(TimedPart { corruption, schedule, curve: None });
        }
        for (part, curve) in corruption.parts() {
            all.push(TimedPart { corruption: &**part, schedule, curve: Some(curve) });
        }
    }
    all
}

impl StageTable {
    fn rows(part: &TimedPart, rows: usize) -> Result<Self, TableError> {
        let at = |row: usize| part.corruption.at(part.level(row as f64 / (rows - 1) as f64));
        let mut program = MapProgram::of(&at(rows / 2)?, part.corruption.shape())?;
        let size: usize = program.parameter_shapes().iter().map(|s| s.iter().product::<usize>()).sum();
        let bytes = rows.saturating_mul(size).saturating_mul(size_of::<f32>());
        if bytes > TABLE_LIMIT {
            return Err(TableError::TooLarge { rows, bytes });
        }
        for row in 0..rows {
            program = program.covering_also(&at(row)?)?;
        }
        let mut tables = vec![Vec::new(); program.parameter_shapes().len()];
        for row in 0..rows {
            for (table, values) in tables.iter_mut().zip(program.values(&at(row)?)?) {
                table.extend(values);
            }
        }
        for table in &mut tables {
            let width = table.len() / rows;
            if table.chunks(width.max(1)).all(|row| *row == table[..width]) {
                table.truncate(width);
            }
        }
        Ok(StageTable::Rows { program, tables })
    }
}

impl MaskTable {
    /// Rows at least: far more than there are pixels, so that levels between them are as good as exact for any curve.
    const ROWS: usize = 1 << 16;

    fn new(part: &TimedPart, erased_at: &[f64]) -> Self {
        let (start, pieces) = match part.schedule {
            LevelSchedule::Curve { curve, start } => (*start, curve.knots() - 1),
            _ => (0.0, 1),
        };
        // Equally spaced knots are rows, so straight lines between them are exact.
        let last = pieces * Self::ROWS.div_ceil(pieces);
        let time = |row: usize| start + (1.0 - start) * row as f64 / last as f64;
        let levels = (0..=last).map(|row| part.level(time(row).min(1.0))).collect();
        MaskTable { start, levels, erased_at: erased_at.to_vec() }
    }

    /// `[n, height, width, 1]` of zeros and ones: a pixel is there while the level is below the one that erases it.
    fn emit(&self, g: &mut Graph, t: Var, shape: Shape) -> Result<Var> {
        let (n, pixels) = (g.shape(t).numel(), shape.pixels());
        let shift = g.constant([1], vec![-self.start])?;
        let since = g.add(t, shift)?;
        let position = g.scale(since, (self.levels.len() - 1) as f64 / (1.0 - self.start))?;
        let table = g.constant([self.levels.len(), 1], self.levels.clone())?;
        let level = g.interpolate(table, position)?;
        let erased_at = g.constant([1, pixels], self.erased_at.clone())?;
        let lowered = g.scale(level, -1.0)?;
        let left = g.add(erased_at, lowered)?;
        // 0 up to zero, 1 above: a steep table.
        let steep = g.scale(left, 1e30)?;
        let steep = g.reshape(steep, [n * pixels])?;
        let bits = g.constant([2, 1], vec![0.0, 1.0])?;
        let mask = g.interpolate(bits, steep)?;
        g.reshape(mask, [n, shape.height, shape.width, 1])
    }
}
