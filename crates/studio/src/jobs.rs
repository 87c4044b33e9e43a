//! Long tasks: a short queue, one at a time, each of which can be looked at and stopped.

use super::problem::HttpProblem;
use super::query::QueryValues;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most tasks that wait.
const WAITING: usize = 8;
/// Most tasks that are remembered.
const REMEMBERED: usize = 16;
/// Most tasks whose file to download is kept.
const FILES: usize = 4;
/// Most bytes of images that one task keeps.
const LARGEST: usize = 64 << 20;
/// Most bytes of images in one answer.
const ANSWER: usize = 4 << 20;

type JobFunction = Box<dyn FnOnce(&Job) -> Result<(), HttpProblem> + Send>;

/// A task: its work, and what has come of it so far.
pub struct Job {
    id: u64,
    title: String,
    cancelled: AtomicBool,
    work: Mutex<Option<JobFunction>>,
    progress: Mutex<JobProgress>,
}

#[derive(Default)]
struct JobProgress {
    state: JobState,
    done: usize,
    total: usize,
    frames: Vec<(usize, Value)>,
    bytes: usize,
    result: Option<Arc<Vec<u8>>>,
    problem: Option<HttpProblem>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum JobState {
    #[default]
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl Job {
    /// Whether the page asked it to stop; work looks at this at every evaluation of the network.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Sets the progress that the page shows.
    pub fn update(&self, done: usize, total: usize) {
        let mut progress = held(&self.progress);
        (progress.done, progress.total) = (done, total);
    }

    /// Adds a frame for the page; left out once the task holds its most bytes.
    pub fn show(&self, frame: Value) {
        let size = frame.to_string().len();
        let mut progress = held(&self.progress);
        if progress.bytes + size <= LARGEST {
            progress.bytes += size;
            progress.frames.push((size, frame));
        }
    }

    /// Keeps a file to download.
    pub fn keep(&self, file: Vec<u8>) {
        held(&self.progress).result = Some(Arc::new(file));
    }

    fn run(&self) {
        let Some(work) = held(&self.work).take() else { return };
        if !self.is_cancelled() {
            held(&self.progress).state = JobState::Running;
            let outcome =
                catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| Err(HttpProblem::panicked()));
            let mut progress = held(&self.progress);
            (progress.state, progress.problem) = match outcome {
                Ok(()) => (JobState::Done, None),
                Err(problem) => (JobState::Failed, Some(problem)),
            };
        }
        if self.is_cancelled() {
            let mut progress = held(&self.progress);
            (progress.state, progress.problem) = (JobState::Cancelled, None);
        }
    }

    fn facts(&self, since: usize) -> Value {
        let progress = held(&self.progress);
        let (mut bytes, mut frames) = (0, Vec::new());
        for (size, frame) in progress.frames.iter().skip(since) {
            bytes += size;
            if bytes > ANSWER && !frames.is_empty() {
                break;
            }
            frames.push(frame);
        }
        let state = match progress.state {
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        };
        let problem = progress.problem.as_ref().map(HttpProblem::facts);
        let result = progress.result.is_some();
        json!({
            "id": self.id, "title": self.title, "state": state, "done": progress.done, "total": progress.total,
            "next": since.saturating_add(frames.len()), "more": since + frames.len() < progress.frames.len(),
            "frames": frames, "result": result, "problem": problem,
        })
    }

    fn is_over(&self) -> bool {
        !matches!(held(&self.progress).state, JobState::Waiting | JobState::Running)
    }
}

/// A queue of tasks, and the thread that runs them one by one.
pub struct Jobs {
    line: Arc<(Mutex<JobQueue>, Condvar)>,
}

#[derive(Default)]
struct JobQueue {
    last: u64,
    waiting: VecDeque<Arc<Job>>,
    all: VecDeque<Arc<Job>>,
}

impl Jobs {
    /// Starts the thread, which waits for tasks.
    pub fn begin() -> std::io::Result<Jobs> {
        let line = Arc::new((Mutex::new(JobQueue::default()), Condvar::new()));
        let own = line.clone();
        std::thread::Builder::new().name("studio jobs".into()).spawn(move || {
            loop {
                let mut line = held(&own.0);
                while line.waiting.is_empty() {
                    line = own.1.wait(line).unwrap_or_else(PoisonError::into_inner);
                }
                let job = line.waiting.pop_front();
                drop(line);
                if let Some(job) = job {
                    job.run();
                }
            }
        })?;
        Ok(Jobs { line })
    }

    /// Appends a task to the queue, unless the queue is full.
    pub fn submit(
        &self,
        title: String,
        work: impl FnOnce(&Job) -> Result<(), HttpProblem> + Send + 'static,
    ) -> Result<Value, HttpProblem> {
        let mut line = held(&self.line.0);
        line.waiting.retain(|job| !job.is_cancelled());
        if line.waiting.len() >= WAITING {
            let problem = format!("{WAITING} tasks are waiting already");
            return Err(HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, problem, "wait for one of them, or stop one"));
        }
        line.last += 1;
        let work: Mutex<Option<JobFunction>> = Mutex::new(Some(Box::new(work)));
        let cancelled = AtomicBool::new(false);
        let job = Arc::new(Job { id: line.last, title, cancelled, work, progress: Mutex::default() });
        line.waiting.push_back(job.clone());
        line.all.push_back(job.clone());
        while line.all.len() > REMEMBERED && line.all.front().is_some_and(|oldest| oldest.is_over()) {
            line.all.pop_front();
        }
        // Files are large: only the last few are kept.
        for older in line.all.iter().rev().skip(FILES) {
            held(&older.progress).result = None;
        }
        self.line.1.notify_one();
        Ok(json!({ "id": job.id }))
    }

    /// `/api/job?id=&since=`: how one is doing, with what it showed after the first `since`.
    pub fn look(&self, query: &QueryValues) -> Result<Value, HttpProblem> {
        Ok(self.find(query)?.facts(query.number("since", 0)?))
    }

    /// `/api/result?id=`: the file that one made.
    pub fn result(&self, query: &QueryValues) -> Result<Arc<Vec<u8>>, HttpProblem> {
        let result = held(&self.find(query)?.progress).result.clone();
        result.ok_or_else(|| HttpProblem::missing("this task has made no file", "wait for its end, or start it again"))
    }

    /// `POST /api/cancel?id=`: asks one to stop.
    pub fn cancel(&self, query: &QueryValues) -> Result<Value, HttpProblem> {
        let job = self.find(query)?;
        job.cancelled.store(true, Ordering::Relaxed);
        let mut progress = held(&job.progress);
        if progress.state == JobState::Waiting {
            progress.state = JobState::Cancelled;
        }
        Ok(json!({ "id": job.id }))
    }

    fn find(&self, query: &QueryValues) -> Result<Arc<Job>, HttpProblem> {
        let id: Option<u64> = query.value("id").and_then(|id| id.parse().ok());
        let found = held(&self.line.0).all.iter().find(|job| id == Some(job.id)).cloned();
        found.ok_or_else(|| HttpProblem::missing("this task is not here any more", "start it again"))
    }
}

/// A lock; what a panic left behind is still whole here.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
