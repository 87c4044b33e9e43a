//! The terminal while the dashboard is on it, and how it is left.

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How soon a signal is noticed.
const SOON: Duration = Duration::from_millis(50);

/// The alternate screen in raw mode. When dropped, and by ratatui's hook on a panic, the terminal is as it was before.
pub struct Screen {
    /// Never dropped: ratatui's drop panics where the terminal is gone.
    pub terminal: ManuallyDrop<DefaultTerminal>,
    events: Receiver<Event>,
    suspend: Arc<AtomicBool>,
}

/// Why the screen is to be drawn again, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time is over.
    Time,
    /// It has another size, or was covered by others.
    Redraw,
    /// q, Ctrl-C, or a signal.
    Leave,
}

impl Screen {
    /// Takes over the terminal.
    pub fn enter() -> io::Result<Screen> {
        let suspend = Arc::default();
        #[cfg(unix)]
        signal_hook::flag::register(signal_hook::consts::SIGTSTP, Arc::clone(&suspend))?;
        let terminal = ratatui::try_init().inspect_err(|_| drop(ratatui::try_restore()))?;
        Ok(Screen { terminal: ManuallyDrop::new(terminal), events: events(), suspend })
    }

    /// Waits until the time is over or something happens; a request by `stop` ends it too.
    pub fn wait(&mut self, time: Duration, stop: &dyn Fn() -> bool) -> io::Result<Wake> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            if stop() {
                return Ok(Wake::Leave);
            }
            if self.suspend.swap(false, Ordering::Relaxed) {
                self.suspend()?;
                return Ok(Wake::Redraw);
            }
            match self.events.recv_timeout(SOON) {
                Ok(Event::Resize(..)) => return Ok(Wake::Redraw),
                Ok(Event::Key(key)) if key.is_press() => {
                    match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
                        (KeyCode::Char('q' | 'Q'), _) | (KeyCode::Char('c'), true) => return Ok(Wake::Leave),
                        // What the terminal would do by itself if it were not in raw mode.
                        #[cfg(unix)]
                        (KeyCode::Char('z'), true) => {
                            rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
                        }
                        _ => {}
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(SOON),
            }
        }
        Ok(Wake::Time)
    }

    /// Gives the terminal to the shell until `fg`.
    fn suspend(&mut self) -> io::Result<()> {
        self.leave()?;
        #[cfg(unix)]
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        ratatui::crossterm::terminal::enable_raw_mode()?;
        ratatui::crossterm::execute!(io::stdout(), ratatui::crossterm::terminal::EnterAlternateScreen)?;
        // Clears and forgets what was drawn; `clear` would ask for the cursor's place, and the answer is a key to `events`.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    fn leave(&mut self) -> io::Result<()> {
        self.terminal.show_cursor()?;
        ratatui::try_restore()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone there is nothing to restore. On a panic ratatui's hook has left the screen: leaving it
        // twice would put the cursor over the message.
        let _ = if std::thread::panicking() { self.terminal.show_cursor() } else { self.leave() };
    }
}

/// Keys and sizes, read by a thread of their own: crossterm waits without end within half a key's code, and where the
/// terminal is gone.
fn events() -> Receiver<Event> {
    let (sender, events) = mpsc::channel();
    std::thread::spawn(move || while event::read().is_ok_and(|event| sender.send(event).is_ok()) {});
    events
}
