//! `softdiff studio`: the page in the browser.

use super::device::DeviceFlag;
use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use serde_json::json;
use softdiff::hint::Hint;
use softdiff::restore::photo_model;
use softdiff::run::StopRequest;
use softdiff_studio::{StudioOptions, serve};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "\
Example: look at corruptions, and at the runs in ./runs; then open the address it prints
  softdiff studio

Example: sample from two models side by side, one of them exported
  softdiff studio --model runs/first --model exported/

Example: from another machine, through ssh rather than the open network
  ssh -L 7860:localhost:7860 box softdiff studio

Ctrl-C ends it. Nothing is written to disk. Requests need the token of the printed address, so neither
other users of this machine nor pages of other sites can ask it anything.";

/// How often signals are looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// Open a page in the browser to corrupt, sample, restore and compare runs.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct StudioCommand {
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 7860)]
    port: u16,
    /// The address to listen at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    host: IpAddr,
    /// The folder with runs to show.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    runs: PathBuf,
    /// A further model: a run's folder, one of its checkpoints, or an exported model.
    #[arg(long, value_name = "RUN_OR_MODEL")]
    model: Vec<PathBuf>,
    /// Answer requests without the token of the printed address; every user of this machine can then use the studio.
    #[arg(long)]
    no_token: bool,
    #[command(flatten)]
    device: DeviceFlag,
}

impl StudioCommand {
    /// Runs the verb, until a signal ends it.
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        let device = self.device.name().to_owned();
        let (models, photo_model) = (self.model, photo_model().ok());
        let options = StudioOptions { runs: self.runs, models, photo_model, device, token: !self.no_token };
        let url = serve(SocketAddr::new(self.host, self.port), options).map_err(|error| {
            match error.hint().map(|hint| hint.into_owned()) {
                Some(hint) => Failure::new(error).hint(hint),
                None => error.into(),
            }
        })?;
        // A signal is how it is meant to end.
        let _hold = stop.hold();
        if json {
            println!("{}", json!({ "url": url }));
        } else {
            eprintln!("the studio is open; Ctrl-C closes it");
            println!("{url}");
        }
        while stop.signal().is_none() {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
