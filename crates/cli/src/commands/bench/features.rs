//! `softdiff bench features`: images per second through the FID network.

use super::peer::Peer;
use crate::commands::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use softdiff::inception::{Extractor, Inception, Preset};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLE: &str = "\
Example: on the CPU, side by side with PyTorch on the same threads.
  softdiff bench features --network inception-2015-12-05.safetensors --device cpu --against torch";

/// Time the features of 32 x 32 images, resize included, in f32.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct FeaturesBenchmark {
    /// The FID network; the peer reads the .safetensors form.
    #[arg(long, value_name = "FILE")]
    network: PathBuf,
    /// Images of a round.
    #[arg(long, alias = "pictures", default_value_t = 16)]
    images: usize,
    /// Timed rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Run the same network in this peer too, taking turns.
    #[arg(long, value_enum)]
    against: Option<FeaturesPeer>,
    /// The Python that has the peer.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    #[command(flatten)]
    device: DeviceFlag,
}

#[derive(Clone, Copy, ValueEnum)]
enum FeaturesPeer {
    /// PyTorch on the CPU, in the faster of its two memory layouts.
    Torch,
}

impl FeaturesBenchmark {
    pub fn run(self, json: bool) -> Outcome {
        let device = self.device.open()?;
        let mut extractor = Extractor::new(&device, &Inception::read(&self.network)?, Preset::PytorchFid);
        let images: Vec<u8> = (0..self.images.max(1) * 32 * 32 * 3).map(|i| ((i * 37 + i / 7) % 256) as u8).collect();
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let mut peer = match self.against {
            Some(FeaturesPeer::Torch) => {
                const SCRIPT: &str = include_str!("../../../../../benches/peers/inception_torch.py");
                let numbers = [self.images.max(1), threads].map(|n| n.to_string());
                let arguments = [vec![self.network.display().to_string()], numbers.to_vec()].concat();
                Some(Peer::start(&self.python, SCRIPT, &arguments, threads, "torch numpy")?)
            }
            None => None,
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        extractor.features(&images, 32, 32, 3)?;
        for _ in 0..self.rounds.max(1) {
            let begin = Instant::now();
            let features = extractor.features(&images, 32, 32, 3)?;
            ours.push(begin.elapsed().as_secs_f64());
            if let Some((peer, _)) = &mut peer {
                let answer = peer.ask(&json!({ "do": "features" }))?;
                theirs.push(answer["seconds"].as_f64().unwrap_or(f64::NAN));
                let squares: f64 = features.iter().map(|&v| f64::from(v).powi(2)).sum();
                let other = answer["squares"].as_f64().unwrap_or(f64::NAN);
                // A NaN must fail too.
                if (squares - other).abs().partial_cmp(&(1e-4 * squares)) != Some(std::cmp::Ordering::Less) {
                    return Err(Failure::new(format!("the peer has other features: {other}, ours are {squares}")));
                }
            }
        }
        let rate = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            self.images.max(1) as f64 / times[times.len() / 2]
        };
        let own = rate(&mut ours);
        let peer = peer.map(|(_, greeting)| (rate(&mut theirs), greeting));
        if json {
            let torch = peer.map(|(rate, greeting)| json!({ "pictures_per_second": rate, "peer": greeting }));
            println!("{}", json!({ "device": device.to_string(), "pictures_per_second": own, "torch": torch }));
            return Ok(());
        }
        println!("{device}\n  softdiff  {own:8.2} images/s");
        if let Some((rate, greeting)) = peer {
            let text = |key: &str| greeting[key].as_str().unwrap_or("?").to_string();
            println!("  torch     {rate:8.2} images/s  (PyTorch {}, {})", text("version"), text("layout"));
            println!("  softdiff is {:.2} times as fast", own / rate);
        }
        Ok(())
    }
}
