//! Rounds in which the wall clock of the processes is set while they work, by libfaketime. On SQLite this is the clock of
//! the store; on PostgreSQL the processes must not care.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use patra_core::rng::Rng;

use super::Params;
use super::arena::{self, Arena, Harm};
use super::world::Kind;

/// The library, or the folders in which packages put it.
const LIBRARY: &str = "PATRA_TORTURE_FAKETIME";
const FOLDERS: &[&str] =
    &["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];

/// Steps of the wall clock in seconds.
const STEPS: [i64; 8] = [-3_600, 3_600, -86_400, 600, -600, -7, 30, -2];

pub(super) async fn torture(kind: Kind, params: &Params) {
    let Some(library) = library() else {
        eprintln!("skipped: clock steps need libfaketime (Debian: apt install libfaketime), or its path in {LIBRARY}");
        return;
    };
    let mut clock = ClockSteps { library, file: PathBuf::new(), offset: 0 };
    arena::torture(kind, &format!("clock {kind:?}"), params, &mut clock).await;
}

fn library() -> Option<String> {
    let named = std::env::var(LIBRARY).ok();
    let known = FOLDERS.iter().map(|folder| format!("{folder}/libfaketimeMT.so.1"));
    named.into_iter().chain(known).find(|path| std::path::Path::new(path).is_file())
}

struct ClockSteps {
    library: String,
    /// The file that libfaketime reads.
    file: PathBuf,
    offset: i64,
}

impl Harm for ClockSteps {
    async fn round(&mut self, arena: &mut Arena, rng: &mut Rng) -> Result<(), String> {
        let file = arena.world.place.folder.path().join("faketime");
        if self.file != file {
            // A new store, whose processes run with the true time.
            self.file = file;
            self.set(0);
            arena.fleet.environment = self.environment();
            arena.fleet.kill_all();
        }
        arena.fleet.complete(&arena.world.place).await?;
        let (job, new) = arena.world.grow(rng);
        // Before the job, or while it runs.
        let accepted = rng.chance(500) && arena.post(&job);
        tokio::time::sleep(Duration::from_micros(rng.below(arena.typical.as_micros() as u64))).await;
        let step = STEPS[rng.below(STEPS.len() as u64) as usize];
        arena.tally.harm(&format!("clock {step:+} s"));
        self.set(self.offset + step);
        let struck = Instant::now();
        if rng.chance(300) {
            arena.tally.harm("kill -9 with a wrong clock");
            arena.fleet.kill_all();
            arena.fleet.complete(&arena.world.place).await?;
        }
        if rng.chance(300) {
            tokio::time::sleep(Duration::from_millis(rng.below(8_000))).await;
            arena.tally.harm("clock right again");
            self.set(0);
        }
        arena.finish(&job, accepted).await?;
        arena.tally.recovered(struck.elapsed());
        arena.verify(new).await
    }
}

impl ClockSteps {
    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            // The monotonic clock runs on, as in a real step.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("DONT_FAKE_MONOTONIC", "1".into()),
            ("FAKETIME_CACHE_DURATION", "1".into()),
        ]
    }

    /// Sets how far the clock is ahead of the true time, in seconds.
    fn set(&mut self, offset: i64) {
        self.offset = offset;
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{offset:+}\n")).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }
}
