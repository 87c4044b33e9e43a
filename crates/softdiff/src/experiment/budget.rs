//! How long to train: minutes, images, or as the paper did.

use super::ExperimentError;

/// How long the models of an experiment are trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// The whole experiment in so many minutes.
    Minutes(f64),
    /// So many images seen by each model.
    Images(u64),
    /// The paper's steps.
    Paper,
    /// The recipe's steps.
    Recipe,
}

/// Images sampled for a number at least, however short the time.
const FEWEST: usize = 64;
/// The part of the minutes that sampling may take.
const SAMPLING: f64 = 0.5;
/// A step computes the network forwards and backwards: some three times the work of an evaluation.
const FORWARD_PART: f64 = 1.0 / 3.0;

/// What a first look at training found, and what is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredPace {
    /// Seconds of a step.
    pub step: f64,
    /// Seconds until training begins.
    pub preparation: f64,
    /// Images in a step.
    pub batch: usize,
    /// Models.
    pub models: usize,
    /// Evaluations per image of all measurements together.
    pub evaluations: usize,
}

impl Budget {
    /// Minutes, else images, else the paper's steps, else the recipe's.
    pub fn new(minutes: Option<f64>, images: Option<u64>, paper: bool) -> Result<Budget, ExperimentError> {
        Ok(match (minutes, images) {
            (Some(minutes), _) if !(minutes > 0.0 && minutes.is_finite()) => {
                return Err(ExperimentError::Minutes { minutes });
            }
            (Some(minutes), _) => Budget::Minutes(minutes),
            (None, Some(images)) => Budget::Images(images),
            (None, None) if paper => Budget::Paper,
            (None, None) => Budget::Recipe,
        })
    }

    /// In words; two budgets are the same if these are.
    pub fn words(&self) -> String {
        match self {
            Budget::Minutes(minutes) => format!("{minutes} minutes for the whole experiment"),
            Budget::Images(images) => format!("{images} images seen by each model"),
            Budget::Paper => "the paper's".into(),
            Budget::Recipe => "the recipe's steps".into(),
        }
    }

    /// Images behind each number where the time does not decide.
    pub fn usual_samples(&self, gpu: bool) -> usize {
        match (self, gpu) {
            (Budget::Paper, _) => 50_000,
            (_, true) => 10_000,
            (_, false) => 256,
        }
    }
}

/// Steps of each model and images behind each number that fit into so many seconds; `samples` if that is fixed.
pub(super) fn share(seconds: f64, pace: &MeasuredPace, samples: Option<usize>, most: usize) -> (u64, usize) {
    let per_image = pace.evaluations as f64 * pace.step / pace.batch.max(1) as f64 * FORWARD_PART;
    let left = (seconds - pace.preparation * pace.models as f64).max(0.0);
    let affordable = (left * SAMPLING / per_image.max(1e-12)) as usize;
    let samples = samples.unwrap_or_else(|| affordable.min(most).max(FEWEST.min(most)));
    // Sampling that was asked for may cost more than its part; training keeps the other half.
    let training = (left - per_image * samples as f64).max(left * (1.0 - SAMPLING));
    let steps = training / (pace.step.max(1e-9) * pace.models.max(1) as f64);
    ((steps as u64).max(1), samples)
}

/// `500000`, `500k` or `2M`.
pub fn parse_images(text: &str) -> Result<u64, String> {
    let bad = || "give a number of images above zero, such as 500000, 500k or 2M".to_owned();
    let (digits, unit) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1e3),
        Some((end, 'm' | 'M')) => (&text[..end], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = digits.replace('_', "").parse().map_err(|_| bad())?;
    let images = (number * unit).round();
    if (1.0..1e15).contains(&images) { Ok(images as u64) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_counted_in_thousands_and_millions() {
        let found = ["500000", "500k", "2M", "1.5m", "10_000"].map(|text| parse_images(text).unwrap());
        assert_eq!(found, [500_000, 500_000, 2_000_000, 1_500_000, 10_000]);
        for bad in ["", "k", "-3", "0", "NaN", "2G", "1e300M"] {
            assert!(parse_images(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn minutes_are_shared_by_models_and_half_of_them_is_left_for_training() {
        let pace = MeasuredPace { step: 0.3, preparation: 2.0, batch: 30, models: 2, evaluations: 100 };
        // An image costs 100 * 0.01 / 3 = 1/3 s: 100 s minus 4 s leave 48 s, 144 images, and as long for 80 steps of each.
        assert_eq!(share(100.0, &pace, None, 256), (80, 144));
        assert_eq!(share(100.0, &pace, None, 72), (120, 72));
        assert_eq!(share(100.0, &pace, Some(10_000), 256), (80, 10_000));
        assert_eq!(share(1.0, &pace, None, 256), (1, 64));
    }
}
