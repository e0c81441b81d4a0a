//! A world, its processes and the state of its checks: the base of every kind of round.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use patra_core::rng::Rng;

use super::check::{self, Findings, Marks};
use super::fleet::{Fleet, lease};
use super::tally::Tally;
use super::world::{Job, Kind, ROUNDS_OF_A_STORE, World};
use super::{Params, sql};
use crate::support::now_micros;

/// No job takes longer than this plus a few leases.
const PATIENCE: Duration = Duration::from_secs(40);

pub(super) struct Arena {
    pub(super) world: World,
    pub(super) fleet: Fleet,
    pub(super) tally: Tally,
    /// Duration of an undisturbed job.
    pub(super) typical: Duration,
    /// Tasks of processes that were killed or frozen in this round.
    orphans: Vec<Orphan>,
    marks: Marks,
}

/// A task whose owner is dead or frozen, and since when.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) task: i64,
    fence: i64,
    since: u64,
}

/// One kind of harm, repeated.
pub(super) trait Harm {
    async fn round(&mut self, arena: &mut Arena, rng: &mut Rng) -> Result<(), String>;
}

/// Runs so many rounds, on as many stores as needed. Panics at the first error.
pub(super) async fn torture(kind: Kind, label: &str, params: &Params, harm: &mut impl Harm) {
    let (mut rng, mut tally, start) = (Rng::new(params.seed), Tally::default(), Instant::now());
    eprintln!("{label}: {} rounds, seed {}", params.rounds, params.seed);
    while tally.rounds < params.rounds {
        let Some(mut arena) = Arena::new(kind, &mut rng, tally) else { return };
        let end = (arena.tally.rounds + ROUNDS_OF_A_STORE).min(params.rounds);
        if let Err(wrong) = arena.live(end, label, start, &mut rng, harm).await {
            eprintln!("{}\n{label}: {}", arena.fleet.last_words(&arena.world.place), arena.tally);
            let (round, seed) = (arena.tally.rounds + 1, params.seed);
            panic!(
                "{label}: round {round}: {wrong}\nhint: the same kills again: ./torture, {round} rounds, seed {seed}"
            );
        }
        tally = arena.tally;
    }
    eprintln!("{label}: {tally}");
    tally.judge();
}

impl Arena {
    fn new(kind: Kind, rng: &mut Rng, tally: Tally) -> Option<Arena> {
        let (world, fleet) = (World::new(kind, rng)?, Fleet::new(kind));
        Some(Arena { world, fleet, tally, typical: Duration::ZERO, orphans: Vec::new(), marks: Marks::default() })
    }

    async fn live(
        &mut self,
        end: u64,
        label: &str,
        start: Instant,
        rng: &mut Rng,
        harm: &mut impl Harm,
    ) -> Result<(), String> {
        self.undisturbed(rng).await?;
        while self.tally.rounds < end {
            harm.round(self, rng).await?;
            self.tally.rounds += 1;
            if self.tally.rounds.is_multiple_of(10) {
                let each = start.elapsed().as_secs_f64() / self.tally.rounds as f64;
                eprintln!("{label}: {} rounds, {each:.2} s each", self.tally.rounds);
            }
        }
        self.tally.lost += self.fleet.count(&self.world.place, "lease lost");
        let committed = "SELECT count(*) FROM ing_task_run_batch WHERE status_code = 'SUCCEEDED'";
        let committed: u64 = sql::rows(&self.world.place, committed)[0][0].parse().unwrap();
        self.tally.pages_again += self.world.mock_api.stats().ok.saturating_sub(committed);
        let findings = check::everything(&self.world);
        self.judge(&findings)
    }

    /// A round without harm, to measure an undisturbed job.
    async fn undisturbed(&mut self, rng: &mut Rng) -> Result<(), String> {
        self.fleet.complete(&self.world.place).await?;
        let (job, new) = self.world.grow(rng);
        let start = Instant::now();
        self.finish(&job, false).await?;
        self.typical = start.elapsed();
        self.verify(new).await
    }

    /// Submits the job, if it is not accepted yet, and waits for its end. Every process must survive that.
    pub(super) async fn finish(&mut self, job: &Job, mut accepted: bool) -> Result<(), String> {
        let (start, patience) = (Instant::now(), PATIENCE + lease() * 4);
        while start.elapsed() < patience {
            self.fleet.check()?;
            if !accepted {
                accepted = self.post(job);
            } else if self.is_finished(job) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let open = sql::rows(&self.world.place, "SELECT * FROM ing_task WHERE status_code <> 'SUCCEEDED'");
        Err(format!("{} does not end within {patience:?}; open: {open:?}", job.public_id))
    }

    pub(super) fn post(&self, job: &Job) -> bool {
        self.fleet.address().is_some_and(|address| self.world.post(address, job))
    }

    pub(super) fn is_finished(&self, job: &Job) -> bool {
        self.fleet.address().and_then(|address| self.world.is_finished(address, job)) == Some(true)
    }

    /// Data requests that the upstream has received.
    pub(super) fn data_requests(&self) -> u64 {
        self.world.mock_api.stats().data_requests
    }

    /// Checks that every record is stored once, and that the cursor is at its end; after a killed run another plan may
    /// have to move it.
    pub(super) async fn verify(&mut self, new: Range<usize>) -> Result<(), String> {
        self.tally.records += new.len();
        let findings = check::round(&self.world, new, &mut self.marks);
        self.judge(&findings)?;
        if check::cursor_is_at_its_end(&self.world.place, &self.marks) {
            return Ok(());
        }
        let job = self.world.job();
        self.finish(&job, false).await?;
        let findings = check::round(&self.world, 0..0, &mut self.marks);
        self.judge(&findings)?;
        match check::cursor_is_at_its_end(&self.world.place, &self.marks) {
            true => Ok(()),
            false => Err("the cursor is not at its end, and no plan brings it there".to_owned()),
        }
    }

    /// Checks the invariants that hold at any moment.
    pub(super) fn look(&mut self) -> Result<(), String> {
        let mut findings = Findings::default();
        check::at_any_moment(&self.world.place, &mut findings);
        self.judge(&findings)
    }

    fn judge(&mut self, findings: &Findings) -> Result<(), String> {
        self.tally.gaps += findings.gaps;
        self.tally.doubles += findings.doubles;
        if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) }
    }

    /// Remembers the tasks of this process. Called right after it was killed or frozen, and only where another process
    /// can take them over.
    pub(super) fn remember_orphans(&mut self, pid: u32) {
        if self.world.place.database_url().is_none() {
            return;
        }
        let since = now_micros();
        let statement = format!(
            "SELECT id, lease_epoch FROM ing_task
             WHERE status_code IN ('DISPATCHED', 'EXECUTING') AND lease_owner LIKE '%:{pid}:%'"
        );
        let rows = sql::rows(&self.world.place, &statement);
        let number = |text: &String| text.parse().unwrap();
        self.orphans.extend(rows.iter().map(|row| Orphan { task: number(&row[0]), fence: number(&row[1]), since }));
    }

    pub(super) fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Measures how soon each of them was started again.
    pub(super) fn count_reruns(&mut self) {
        for orphan in std::mem::take(&mut self.orphans) {
            let statement = format!(
                "SELECT (extract(epoch FROM min(created_at)) * 1000000)::bigint FROM ing_task_run
                 WHERE task_id = {} AND attempt_no > {}",
                orphan.task, orphan.fence
            );
            // No later run if its last transaction had reached the server and closed it.
            if let Ok(again) = sql::rows(&self.world.place, &statement)[0][0].parse::<u64>() {
                self.tally.rerun(Duration::from_micros(again.saturating_sub(orphan.since)));
            }
        }
    }
}
