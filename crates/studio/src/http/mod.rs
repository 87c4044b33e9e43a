//! As much of HTTP/1.1 (RFC 9112) as one page needs: one request per connection, all of it within limits.

mod request;
mod response;
mod server;

pub use request::{HttpMethod, HttpRequest};
pub use response::{HttpResponse, HttpStatus};
pub use server::{Handler, serve};

use std::time::Duration;

/// Longest request line and headers together.
pub const LONGEST_HEAD: usize = 16 << 10;
/// Most headers.
pub const MOST_HEADERS: usize = 64;
/// Largest body: an uploaded picture.
pub const LARGEST_BODY: usize = 8 << 20;
/// Within this time a request must have come in whole, and its answer must be taken.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are answered at once; more wait their turn.
pub const WORKERS: usize = 32;
/// Connections that wait in our own line; beyond it the system's line is used.
pub const WAITING: usize = 64;
