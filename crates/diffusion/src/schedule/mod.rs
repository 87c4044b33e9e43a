//! The scheduler: which corruption levels a diffusion passes through (Soft Diffusion, section 3.3 and appendix
//! "Schedulings").
//!
//! Candidate levels are nodes of a graph, joined where the distributions of corrupted images lie within `max_hop` of one
//! another (the paper's epsilon); the shortest path from clean to fully corrupted is the schedule, and `max_hop` is tuned
//! until the path has the number of knots asked for. The levels between knots are interpolated over time.

mod arc_length;
mod candidates;
mod distances;
mod file;
mod graph;
mod increments;
mod joint;
mod metric;
mod mse_matched;
mod plan;
mod search;

pub use arc_length::equal_arc_length;
pub use candidates::{log_spaced, usual_candidates};
pub use distances::{Distances, LazyDistances, ScheduleProgress};
pub use file::{DataRecord, LARGEST_SCHEDULE, Method, Schedule, Spread, Timing};
pub use graph::{ShortestPath, shortest_path, shortest_path_of};
pub use increments::paired_distances;
pub use joint::{JointGrid, JointPath};
pub use metric::TransportMetric;
pub use mse_matched::{VarianceExploding, mse_matched};
pub use plan::{Request, plan};
pub use search::{KnotSearch, find_knots};

use crate::corruption::CorruptionError;
use crate::curve::CurveError;
use crate::transport::TransportError;
use softdiff_engine::{Hint, HintedMessage};
use std::borrow::Cow;

/// What can go wrong when a schedule is made or read.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// No path of short enough hops.
    #[error("no path reaches the last level with hops of at most {max_hop}")]
    Unreachable {
        /// The limit given.
        max_hop: f64,
        /// The smallest limit that leaves a path.
        bottleneck: f64,
    },
    /// A limit that is no limit.
    #[error("max_hop is {0}")]
    MaxHop(f64),
    /// Knots that cannot be had.
    #[error("{knots} knots cannot be chosen from {candidates} candidate levels")]
    Knots {
        /// Knots asked for.
        knots: usize,
        /// Candidates there are.
        candidates: usize,
    },
    /// Candidates that do not rise.
    #[error("candidate {index} is {level} after {previous}")]
    Candidates {
        /// Which candidate.
        index: usize,
        /// Its level.
        level: f64,
        /// The level before it.
        previous: f64,
    },
    /// A distance that is NaN, infinite or negative.
    #[error("the distance between candidates {i} and {j} is {value}")]
    Distance {
        /// One candidate.
        i: usize,
        /// The other.
        j: usize,
        /// The value.
        value: f64,
    },
    /// Too few images.
    #[error("{found} images are not enough")]
    Images {
        /// Images given.
        found: usize,
        /// Images needed.
        needed: usize,
    },
    /// A range that makes no sense.
    #[error("{what} runs from {from} to {to}")]
    Range {
        /// What it is.
        what: &'static str,
        /// Its start.
        from: f64,
        /// Its end.
        to: f64,
        /// What to give.
        remedy: &'static str,
    },
    /// A schedule file that cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: HintedMessage,
    },
    /// A bad corruption or image.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    /// A distance that could not be measured.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Bad knots.
    #[error(transparent)]
    Curve(#[from] CurveError),
}

impl Hint for ScheduleError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            ScheduleError::Unreachable { bottleneck, .. } => format!("give a max_hop of at least {bottleneck}").into(),
            ScheduleError::MaxHop(_) => "give a positive distance".into(),
            ScheduleError::Knots { candidates, .. } => format!("give 2 to {candidates} knots").into(),
            ScheduleError::Candidates { .. } => "candidate levels must rise".into(),
            ScheduleError::Distance { .. } => "is there NaN in the data?".into(),
            ScheduleError::Images { needed, .. } => format!("give at least {needed}").into(),
            ScheduleError::Range { remedy, .. } => (*remedy).into(),
            ScheduleError::File { problem, .. } => return problem.hint(),
            ScheduleError::Corruption(error) => return error.hint(),
            ScheduleError::Transport(error) => return error.hint(),
            ScheduleError::Curve(error) => return error.hint(),
        })
    }
}
