//! The core of Patra, without any I/O: types, decisions, protocols and ports.
//!
//! Nothing here opens a socket, reads a clock, draws a random number or knows SQL. Time and randomness are arguments,
//! so the code that runs in production is the code that runs in the simulator.

pub mod alert;
pub mod bounds;
pub mod clock_step;
pub mod cookie;
pub mod cookie_import;
pub mod crawl;
pub mod credential;
pub mod cron;
pub mod cursor;
pub mod error;
pub mod gate;
pub mod hash;
pub mod health;
pub mod id;
pub mod mask;
pub mod paging;
pub mod params;
pub mod port;
pub mod project;
pub mod protocol;
pub mod record;
pub mod registry;
pub mod retry;
pub mod rng;
pub mod seal;
pub mod secret;
pub mod source;
pub mod state;
pub mod text;
pub mod time;
pub mod tweet;
pub mod tx;
pub mod vault;
pub mod window;

pub use clock_step::ClockStep;
pub use error::{Code, Fault, Level};
pub use id::{BatchId, CredentialId, CursorId, Fence, JobId, PauseId, PlanId, RunId, SliceId, SourceId, TaskId};
pub use time::Ts;
pub use window::Window;
