//! Rounds with zombies: an executor freezes in the middle of its runs, another takes them over, and the first one wakes
//! and believes that it still has the leases. None of its writes may have an effect.

use std::time::Duration;

use tokio::time::Instant;

use patra_core::rng::Rng;

use super::arena::{self, Arena, Harm};
use super::fleet::{Process, lease};
use super::world::Kind;
use super::{Params, sql};

/// A point where an executor freezes, and the last passage at which it may.
const POINTS: &[(&str, u64)] = &[
    ("run.before-StartRun", 3),
    ("run.before-CommitBatch", 10),
    ("run.before-EndRun", 3),
    ("executor.before-Renew", 1),
    ("executor.after-Renew", 1),
    ("executor.after-ClaimTasks", 1),
    ("run.after-StartRun", 3),
    ("run.before-Fetch", 10),
    ("run.after-Fetch", 10),
    ("run.after-CommitBatch", 10),
    ("run.after-EndRun", 3),
    ("run.before-RecordAdvance", 2),
    ("run.before-AdvanceCursor", 1),
];

/// The very first round freezes in the middle of the work.
const FIRST: (&str, u64) = ("run.before-CommitBatch", 3);

/// Right after the first so many points comes a write under a lease.
const BEFORE_WRITES: usize = 4;

/// Slow enough that a job lasts for some renewals.
const LATENCY_MS: u64 = 60;

/// Tenths of a lease that it is frozen: every lease has expired then, whenever it was renewed.
const FROZEN: u32 = 22;

/// The executor that freezes, and the one that takes over.
const VICTIM: usize = 1;
const OTHER: usize = 2;

pub(super) async fn torture(params: &Params) {
    arena::torture(Kind::Postgres, "zombie", params, &mut Zombies).await;
}

struct Zombies;

impl Harm for Zombies {
    async fn round(&mut self, arena: &mut Arena, rng: &mut Rng) -> Result<(), String> {
        arena.world.mock_api.script().update(|script| script.latency_ms = LATENCY_MS);
        arena.fleet.complete(&arena.world.place).await?;
        let (job, new) = arena.world.grow(rng);
        let accepted = freeze(arena, &job, rng).await?;
        let frozen = Instant::now();
        let Some(pid) = arena.fleet.process(VICTIM).map(Process::pid) else {
            return Err("the executor is gone".to_owned());
        };
        arena.remember_orphans(pid);
        let held = arena.orphans();
        arena.fleet.complete(&arena.world.place).await?;
        arena.finish(&job, accepted).await?;
        arena.tally.recovered(frozen.elapsed());
        arena.count_reruns();
        arena.verify(new).await?;
        tokio::time::sleep_until(frozen + lease() * FROZEN / 10).await;
        wake(arena, held).await
    }
}

/// Freezes the victim at a point or at a random moment. Returns whether the job had been accepted.
async fn freeze(arena: &mut Arena, job: &super::world::Job, rng: &mut Rng) -> Result<bool, String> {
    // It starts with a full queue, so that it has work to lose.
    arena.fleet.kill(VICTIM);
    if rng.chance(700) || arena.tally.rounds == 0 {
        arena.fleet.kill(OTHER);
    }
    let accepted = arena.post(job);
    let is_first = arena.tally.rounds == 0;
    if rng.chance(300) && !is_first {
        arena.fleet.start(&arena.world.place, VICTIM, None);
        arena.fleet.ready(VICTIM).await?;
        tokio::time::sleep(Duration::from_micros(rng.below(arena.typical.as_micros() as u64 / 2))).await;
        arena.tally.harm("SIGSTOP");
    } else {
        let points = if rng.chance(500) { &POINTS[..BEFORE_WRITES] } else { POINTS };
        let (point, passages) = points[rng.below(points.len() as u64) as usize];
        let (point, passages) = if is_first { FIRST } else { (point, passages) };
        let armed = format!("{point}:{}", 1 + rng.below(passages));
        arena.fleet.start(&arena.world.place, VICTIM, Some(("PATRA_STOP_POINT", &armed)));
        let (start, limit) = (Instant::now(), arena.typical * 2 + Duration::from_secs(2));
        let is_stopped = |arena: &Arena| arena.fleet.process(VICTIM).is_some_and(Process::is_stopped);
        while !is_stopped(arena) && start.elapsed() < limit && !arena.is_finished(job) {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        match is_stopped(arena) {
            true => arena.tally.harm(point),
            false => arena.tally.missed(point),
        }
        let writes = POINTS[..BEFORE_WRITES].iter().any(|(name, _)| *name == point);
        arena.tally.stale_writes += u64::from(writes && is_stopped(arena));
    }
    if let Some(process) = arena.fleet.process(VICTIM) {
        process.signal("STOP");
    }
    Ok(accepted)
}

/// Wakes the victim, and checks that all of its writes are refused.
async fn wake(arena: &mut Arena, held: usize) -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let lost = |arena: &Arena| arena.fleet.count(&arena.world.place, "lease lost");
    let (before, lost_before) = (fingerprint(arena), lost(arena));
    if let Some(process) = arena.fleet.process(VICTIM) {
        process.signal("CONT");
    }
    let start = Instant::now();
    while lost(arena) < lost_before + held {
        arena.fleet.check()?;
        if start.elapsed() > PATIENCE {
            let only = lost(arena) - lost_before;
            return Err(format!("the zombie had {held} leases and gave up {only} of them within {PATIENCE:?}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Time for a late write.
    tokio::time::sleep(Duration::from_millis(100)).await;
    if fingerprint(arena) == before {
        return Ok(());
    }
    arena.tally.accepted += 1;
    Err("a zombie has changed something".to_owned())
}

/// Every byte that a run can write.
fn fingerprint(arena: &Arena) -> Vec<String> {
    let tables = ["ing_task", "ing_task_run", "ing_task_run_batch", "ing_cursor", "ing_cursor_event", "item"];
    let digest = |table: &str| {
        let statement = format!("SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY id)) FROM {table} t");
        sql::rows(&arena.world.place, &statement).swap_remove(0).join(" ")
    };
    tables.map(digest).to_vec()
}
