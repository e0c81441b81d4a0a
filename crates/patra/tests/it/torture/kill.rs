//! Rounds with kills: processes at a random moment or at a crash point, and the database server.

use std::time::Duration;

use tokio::time::Instant;

use patra_core::rng::Rng;

use super::Params;
use super::arena::{self, Arena, Harm};
use super::fleet::{Part, Process};
use super::points::Deck;
use super::postgres::{self, PrivateServer};
use super::world::{Job, Kind};

pub(super) async fn torture(kind: Kind, params: &Params) {
    let label = format!("kill {kind:?}");
    let mut kills = Kills { kind, deck: Deck::new(), server: PrivateServer::of_script() };
    arena::torture(kind, &label, params, &mut kills).await;
}

struct Kills {
    kind: Kind,
    deck: Deck,
    server: Option<PrivateServer>,
}

impl Harm for Kills {
    async fn round(&mut self, arena: &mut Arena, rng: &mut Rng) -> Result<(), String> {
        let latency_ms = 1 + rng.below(4);
        arena.world.mock_api.script().update(|script| script.latency_ms = latency_ms);
        let (job, new) = arena.world.grow(rng);
        // One of each kind first, so that a few rounds have them all.
        let accepted = match (self.kind, arena.tally.rounds, rng.below(100)) {
            (_, 0, _) => self.crash(arena, &job, rng).await?,
            (Kind::Postgres, 1, _) | (Kind::Postgres, _, 0..15) => self.harm_server(arena, &job, rng).await?,
            (_, 2, _) | (_, _, 0..55) => kill(arena, &job, rng).await?,
            _ => self.crash(arena, &job, rng).await?,
        };
        let struck = Instant::now();
        if rng.chance(150) {
            kill_while_starting(arena, rng).await;
        }
        arena.fleet.complete(&arena.world.place).await?;
        arena.finish(&job, accepted).await?;
        arena.tally.recovered(struck.elapsed());
        arena.count_reruns();
        arena.verify(new).await
    }
}

/// kill -9 at a random moment. Returns whether the job had been accepted.
async fn kill(arena: &mut Arena, job: &Job, rng: &mut Rng) -> Result<bool, String> {
    let seats = seats(arena, rng);
    // An executor that has just started claims at once; an idle one polls at its interval.
    let fresh = if rng.chance(700) { arena.fleet.with(Part::Executor) } else { Vec::new() };
    for at in &fresh {
        arena.fleet.kill(*at);
    }
    let before = arena.data_requests();
    let accepted = arena.post(job);
    for at in &fresh {
        arena.fleet.start(&arena.world.place, *at, None);
    }
    moment(arena, before, rng).await;
    strike(arena, &seats, "kill -9");
    if rng.chance(250) {
        arena.look()?;
    }
    Ok(accepted)
}

/// Kills these processes and remembers their tasks.
fn strike(arena: &mut Arena, seats: &[usize], what: &str) {
    for at in seats {
        let Some(pid) = arena.fleet.process(*at).map(Process::pid) else { continue };
        arena.fleet.kill(*at);
        arena.tally.harm(&format!("{what} {:?}", arena.fleet.part(*at)));
        arena.remember_orphans(pid);
    }
}

/// Kills processes while they start.
async fn kill_while_starting(arena: &mut Arena, rng: &mut Rng) {
    for at in 0..arena.fleet.len() {
        if arena.fleet.process(at).is_none() {
            arena.fleet.start(&arena.world.place, at, None);
            tokio::time::sleep(Duration::from_micros(rng.below(100_000))).await;
            strike(arena, &[at], "kill -9 at start");
        }
    }
}

impl Kills {
    /// Makes the process, or both executors, die at a crash point.
    async fn crash(&mut self, arena: &mut Arena, job: &Job, rng: &mut Rng) -> Result<bool, String> {
        let (point, armed) = self.deck.deal(rng);
        let mut seats = arena.fleet.with(point.part);
        if seats.is_empty() {
            seats = arena.fleet.with(Part::All);
        }
        if rng.chance(500) && arena.tally.rounds > 0 {
            seats.truncate(1);
        }
        // Leases are renewed only during a job.
        if point.name.ends_with("Renew") {
            arena.world.mock_api.script().update(|script| script.latency_ms = 80);
        }
        let mut accepted = false;
        // Executors that run before share the work; one that starts with a full queue takes as much as it can.
        if !seats.contains(&0) && rng.chance(500) {
            accepted = arena.post(job);
        }
        for at in &seats {
            arena.fleet.kill(*at);
            arena.fleet.start(&arena.world.place, *at, Some(("PATRA_CRASH_POINT", &armed)));
        }
        for at in &seats {
            // It may die before it serves; that is checked below.
            let _ = arena.fleet.ready(*at).await;
        }
        let (start, limit) = (Instant::now(), arena.typical * 3 + Duration::from_secs(3));
        let mut done_since: Option<Instant> = None;
        loop {
            let mut alive = Vec::new();
            for at in &seats {
                let Some(pid) = arena.fleet.process(*at).map(Process::pid) else { continue };
                match arena.fleet.has_crashed(*at)? {
                    true => arena.remember_orphans(pid),
                    false => alive.push(*at),
                }
            }
            if !accepted {
                accepted = arena.post(job);
            } else if done_since.is_none() && arena.is_finished(job) {
                done_since = Some(Instant::now());
            }
            // The steps after the last task have crash points too.
            let over = done_since.is_some_and(|since| since.elapsed() > Duration::from_millis(60));
            if alive.is_empty() || over || start.elapsed() > limit {
                let (hit, what) = (seats.len() - alive.len(), point.name);
                (0..hit).for_each(|_| arena.tally.harm(what));
                if hit == 0 {
                    arena.tally.missed(what);
                }
                strike(arena, &alive, "kill -9 idle");
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if rng.chance(250) {
            arena.look()?;
        }
        Ok(accepted)
    }

    /// Takes the database away during the job. The processes must survive it.
    async fn harm_server(&self, arena: &mut Arena, job: &Job, rng: &mut Rng) -> Result<bool, String> {
        let before = arena.data_requests();
        let accepted = arena.post(job);
        moment(arena, before, rng).await;
        match (&self.server, rng.below(3)) {
            (Some(server), 0) => {
                arena.tally.harm("kill -9 postmaster");
                server.kill();
                tokio::time::sleep(Duration::from_millis(rng.below(1_500))).await;
                server.restart().await;
            }
            (Some(_), 1) => {
                arena.tally.harm("kill -9 backend");
                postgres::kill_backend(&arena.world.place);
            }
            _ => {
                arena.tally.harm("connections cut");
                postgres::cut_connections(&arena.world.place);
            }
        }
        postgres::answers(&arena.world.place).await;
        Ok(accepted)
    }
}

/// Chooses one process, several, or all.
fn seats(arena: &Arena, rng: &mut Rng) -> Vec<usize> {
    let all = 0..arena.fleet.len();
    let one = rng.below(all.end as u64) as usize;
    if rng.chance(600) { vec![one] } else { all.filter(|at| *at == one || rng.chance(600)).collect() }
}

/// Waits for some moment of the job: any, or shortly after one of its requests to the upstream, when there is work to
/// lose.
async fn moment(arena: &Arena, before: u64, rng: &mut Rng) {
    const PAGES: u64 = 20;
    let start = Instant::now();
    if rng.chance(300) {
        tokio::time::sleep(Duration::from_micros(rng.below(arena.typical.as_micros() as u64 * 11 / 10))).await;
        return;
    }
    let wanted = before + rng.below(PAGES);
    while arena.data_requests() < wanted && start.elapsed() < arena.typical * 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_micros(rng.below(8_000))).await;
}
