//! `softdiff watch`: a run in the terminal, live or finished, without touching it.

mod dashboard;
mod loss_chart;
mod preview;
mod screen;
mod text;

use crate::diagnostics::{Failure, Outcome};
use crate::output;
use clap::Args;
use dashboard::Dashboard;
use preview::{FORGET, ImageProtocol, TerminalPreview};
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::MoveTo;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Position, Rect, Size};
use ratatui::widgets::Widget;
use screen::{Screen, Wake};
use softdiff::run::{RunFolder, StopRequest};
use softdiff::watch::{Snapshot, Watch};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the run is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How often the same is said where there is no terminal.
const ELSEWHERE: Duration = Duration::from_secs(30);
/// How soon Ctrl-C is noticed there.
const SOON: Duration = Duration::from_millis(50);

const EXAMPLE: &str = "\
Example: look on while it trains (q or Ctrl-C leaves, Ctrl-Z suspends; the run goes on), or see once how far it is
  softdiff watch runs/first
  softdiff watch runs/first --once
  softdiff watch runs/first --json | jq .seconds_left

Previews are shown as images in kitty and Ghostty, and as coloured half blocks elsewhere.
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
    /// How to show images.
    #[arg(long, alias = "pictures", value_enum, default_value_t = ImageProtocol::Auto, value_name = "WAY")]
    images: ImageProtocol,
}

impl WatchRun {
    pub fn run(self, json: bool, stop: &StopRequest) -> Outcome {
        let folder = RunFolder::new(&self.run);
        if !folder.config().is_file() && !folder.events().is_file() {
            let failure = Failure::new(format!("{} is no run: it has no config.toml", self.run.display()));
            return Err(failure.hint("give the folder that softdiff train writes"));
        }
        let mut watch = Watch::new(&folder);
        if json {
            println!("{}", serde_json::to_string(&watch.look(Duration::ZERO)?)?);
            return Ok(());
        }
        // Whether there are colours is decided here.
        ratatui::crossterm::style::force_color_output(true);
        let terminal = std::io::stdout().is_terminal();
        let protocol = self.images.here(terminal, &|name| std::env::var(name).ok());
        if self.once {
            return once(&folder, &mut watch, protocol, terminal);
        }
        // The terminal is to be restored.
        let _hold = stop.hold();
        match terminal && std::io::stdin().is_terminal() {
            true => live(&folder, &mut watch, protocol, stop),
            false => plain(&mut watch, stop),
        }
    }
}

/// The dashboard and the preview below it, as text.
fn once(folder: &RunFolder, watch: &mut Watch, protocol: ImageProtocol, terminal: bool) -> Outcome {
    let snapshot = watch.look(Duration::ZERO)?;
    let size = if terminal { ratatui::crossterm::terminal::size()? } else { (80, 40) };
    let (colours, size) = (output::data_colours(), Size::from(size));
    let dashboard = Dashboard::new(&snapshot, watch.losses(), size, false, colours);
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, dashboard.height()));
    dashboard.render(buffer.area, &mut buffer);
    print!("{}", text::lines(&buffer));
    let (mut preview, room) = (TerminalPreview::default(), Size::new(size.width, size.height / 2));
    if let Some(image) = preview.fit(folder, &snapshot, protocol, room) {
        match &image.kitty {
            // Room for it first, because it does not scroll.
            Some(kitty) => {
                print!("{}\x1b[{1}A{kitty}\x1b[{1}B", "\n".repeat(image.size.height.into()), image.size.height)
            }
            None => {
                let mut buffer = Buffer::empty(Rect::from((Position::ORIGIN, image.size)));
                image.render(buffer.area, &mut buffer);
                print!("{}", text::lines(&buffer));
            }
        }
    }
    Ok(())
}

/// The dashboard, until q, Ctrl-C or a signal.
fn live(folder: &RunFolder, watch: &mut Watch, protocol: ImageProtocol, stop: &StopRequest) -> Outcome {
    let (begun, colours, mut preview) = (Instant::now(), output::data_colours(), TerminalPreview::default());
    let mut screen = Screen::enter()?;
    // Kitty's image that is on the screen, and where.
    let mut drawn: Option<(Rect, String)> = None;
    let mut wake = Wake::Time;
    while wake != Wake::Leave {
        let snapshot = watch.look(begun.elapsed())?;
        let mut kitty = None;
        screen.terminal.draw(|frame| {
            let area = frame.area();
            let wanted = protocol != ImageProtocol::None && snapshot.preview.is_some();
            let dashboard = Dashboard::new(&snapshot, watch.losses(), area.as_size(), wanted, colours);
            let [above, room] = Layout::vertical([Length(dashboard.height()), Fill(1)]).areas(area);
            dashboard.render(above, frame.buffer_mut());
            if let Some(image) = preview.fit(folder, &snapshot, protocol, room.as_size()) {
                image.render(room, frame.buffer_mut());
                kitty = image.kitty.clone().map(|kitty| (room, kitty));
            }
        })?;
        if kitty != drawn || wake == Wake::Redraw {
            let text =
                kitty.as_ref().map_or(String::new(), |(room, kitty)| format!("{}{kitty}", MoveTo(room.x, room.y)));
            print!("{}{text}", if drawn.is_some() { FORGET } else { "" });
            drawn = kitty;
        }
        wake = screen.wait(EVERY, &|| stop.signal().is_some())?;
    }
    if drawn.is_some() {
        print!("{FORGET}");
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
