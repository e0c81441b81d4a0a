//! Rounds in which the disk becomes full while a job runs, and has room again later. The script mounts a small file system
//! for this; the store and the logs are on it.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use patra_core::rng::Rng;

use super::Params;
use super::arena::{self, Arena, Harm};
use super::world::Kind;

/// The file system that may be filled.
const PLACE: &str = "PATRA_TORTURE_SMALL_DISK";

/// Longest time without room.
const LONGEST_MS: u64 = 4_000;

pub(super) async fn torture(params: &Params) {
    let Ok(disk) = std::env::var(PLACE) else {
        eprintln!("skipped: {PLACE} does not name a small file system; ./torture disk-full mounts one, as root");
        return;
    };
    let small = std::env::temp_dir().starts_with(&disk);
    assert!(small, "TMPDIR must be on {disk}, where the store is to be");
    let mut full = FullDisk { ballast: Path::new(&disk).join("ballast") };
    arena::torture(Kind::Sqlite, "disk-full", params, &mut full).await;
}

struct FullDisk {
    ballast: PathBuf,
}

impl Harm for FullDisk {
    async fn round(&mut self, arena: &mut Arena, rng: &mut Rng) -> Result<(), String> {
        arena.fleet.complete(&arena.world.place).await?;
        let (job, new) = arena.world.grow(rng);
        let mut accepted = rng.chance(700) && arena.post(&job);
        tokio::time::sleep(Duration::from_micros(rng.below(arena.typical.as_micros() as u64))).await;
        arena.tally.harm("disk full");
        self.fill();
        let left = Duration::from_millis(rng.below(LONGEST_MS));
        tokio::time::sleep(left / 2).await;
        if !accepted {
            accepted = arena.post(&job);
        }
        if rng.chance(200) {
            arena.tally.harm("kill -9 with a full disk");
            arena.fleet.kill_all();
        }
        tokio::time::sleep(left / 2).await;
        std::fs::remove_file(&self.ballast).map_err(|error| format!("the disk cannot be freed: {error}"))?;
        let struck = Instant::now();
        arena.fleet.complete(&arena.world.place).await?;
        arena.finish(&job, accepted).await?;
        arena.tally.recovered(struck.elapsed());
        arena.verify(new).await
    }
}

impl FullDisk {
    /// Writes until nothing more fits.
    fn fill(&self) {
        let mut file = File::create(&self.ballast).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            let block = vec![0; size];
            while file.write_all(&block).is_ok() {}
        }
    }
}
