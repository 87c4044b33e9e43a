//! `softdiff watch`: a run in the terminal, live or finished, without touching it.

mod chart;
mod dashboard;
mod keyboard;
mod picture;
mod screen;
mod sixel;

use crate::diagnostics::{Failure, Outcome};
use crate::output;
use clap::Args;
use dashboard::DashboardLayout;
use keyboard::Keyboard;
use picture::{ImageProtocol, TerminalPreview};
use screen::{Screen, ScreenFrame};
use softdiff::run::{RunFolder, StopRequest};
use softdiff::watch::{Snapshot, Watch};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the run is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How often the same is said where there is no terminal.
const ELSEWHERE: Duration = Duration::from_secs(30);
/// How soon Ctrl-C and a new size are noticed.
const SOON: Duration = Duration::from_millis(50);

const EXAMPLE: &str = "\
Example: look on while it trains (q or Ctrl-C leaves, and leaves it alone), or see once how far it is
  softdiff watch runs/first
  softdiff watch runs/first --once
  softdiff watch runs/first --json | jq .seconds_left

Previews are shown as pictures in kitty, Ghostty, iTerm2, WezTerm and where the terminal says that it knows sixels (foot, xterm
-ti vt340, Windows Terminal, tmux), and as coloured half blocks elsewhere.
Where there is no terminal, one line every 30 s is printed until the run is over.";

/// Show a run in the terminal as it goes: loss, speed, time left, memory, metrics, warnings, previews.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct WatchRun {
    /// The run's folder.
    run: PathBuf,
    /// Show it once and leave; --json does so too.
    #[arg(long)]
    once: bool,
    /// How to show pictures.
    #[arg(long, value_enum, default_value_t = ImageProtocol::Auto, value_name = "WAY")]
    pictures: ImageProtocol,
}

impl WatchRun {
    /// Runs the verb.
    pub fn run(self, json: bool) -> Outcome {
        let folder = RunFolder::new(&self.run);
        if !folder.config().is_file() && !folder.events().is_file() {
            let failure = Failure::new(format!("{} is no run: it has no config.toml", self.run.display()));
            return Err(failure.hint("give the folder that softdiff train writes"));
        }
        let (begun, mut watch) = (Instant::now(), Watch::new(&folder));
        if json {
            println!("{}", serde_json::to_string(&watch.look(begun.elapsed())?)?);
            return Ok(());
        }
        let terminal = std::io::stdout().is_terminal();
        let keyboard = terminal.then(Keyboard::take);
        let sixels = || keyboard.as_ref().is_some_and(Keyboard::shows_sixels);
        let way = self.pictures.here(terminal, &|name| std::env::var(name).ok(), &sixels);
        if self.once {
            let snapshot = watch.look(begun.elapsed())?;
            let (columns, rows) = if terminal { screen::size() } else { (80, 40) };
            let look = DashboardLayout { columns, rows, colours: output::data_colours(), picture: false };
            let lines = dashboard::lines(&snapshot, watch.losses(), &look);
            lines.iter().for_each(|line| println!("{}", line.trim_end()));
            if let Some(drawn) =
                TerminalPreview::default().draw(&folder, &snapshot, way, (columns, rows / 2), screen::cell())
            {
                println!("{}", drawn.replace("\r", ""));
            }
            return Ok(());
        }
        let stop = StopRequest::install()?;
        match keyboard {
            Some(keyboard) => live(&folder, &mut watch, way, &stop, &keyboard),
            None => plain(&mut watch, &stop),
        }
    }
}

/// The dashboard, until q or Ctrl-C.
fn live(folder: &RunFolder, watch: &mut Watch, way: ImageProtocol, stop: &StopRequest, keyboard: &Keyboard) -> Outcome {
    let (begun, mut preview) = (Instant::now(), TerminalPreview::default());
    let mut screen = Screen::enter();
    while stop.signal().is_none() {
        let snapshot = watch.look(begun.elapsed())?;
        let (columns, rows) = screen::size();
        let wanted = way != ImageProtocol::None && snapshot.preview.is_some();
        let look = DashboardLayout { columns, rows, colours: output::data_colours(), picture: wanted };
        let lines = dashboard::lines(&snapshot, watch.losses(), &look);
        let room = rows.saturating_sub(lines.len());
        let picture = preview.draw(folder, &snapshot, way, (columns, room), screen::cell()).map(str::to_owned);
        screen.draw(ScreenFrame { lines, picture, size: (columns, rows) });
        let looked = Instant::now();
        while looked.elapsed() < EVERY && stop.signal().is_none() && screen::size() == (columns, rows) {
            if keyboard.wants_to_leave() {
                return Ok(());
            }
            std::thread::sleep(SOON);
        }
    }
    Ok(())
}

/// One line every so often, until the run is over.
fn plain(watch: &mut Watch, stop: &StopRequest) -> Outcome {
    let (begun, mut said): (Instant, Option<(Instant, String)>) = (Instant::now(), None);
    while stop.signal().is_none() {
        let snapshot: Snapshot = watch.look(begun.elapsed())?;
        let (line, over) = (dashboard::line(&snapshot), snapshot.state.is_over());
        if said.as_ref().is_none_or(|(when, last)| *last != line && (over || when.elapsed() >= ELSEWHERE)) {
            println!("{line}");
            said = Some((Instant::now(), line));
        }
        if over {
            break;
        }
        let looked = Instant::now();
        while looked.elapsed() < EVERY && stop.signal().is_none() {
            std::thread::sleep(SOON);
        }
    }
    Ok(())
}
