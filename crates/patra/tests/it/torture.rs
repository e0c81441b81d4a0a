//! Proves on real processes that nothing is lost and nothing is stored twice. Planners and executors are killed at
//! random moments and at named crash points, the database dies under them, executors freeze and wake as zombies; after
//! every round the store is compared with the upstream's own list.
//!
//! `./torture kill ROUNDS`, `zombie`, `clock` and `disk-full` run it for long. Every test run does a few rounds of kills and
//! zombies; the others need what not every machine has.

mod arena;
mod check;
mod clock;
mod disk;
mod fleet;
mod kill;
mod moving;
mod points;
mod postgres;
mod sql;
mod tally;
mod world;
mod zombie;

use crate::support::{Workspace, now_micros};
use world::Kind;

/// Rounds and seed: those of the script, or a few rounds in an ordinary run of the tests.
struct Params {
    rounds: u64,
    seed: u64,
}

impl Params {
    fn or(rounds: u64) -> Params {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Params {
            rounds: number("PATRA_TORTURE_ROUNDS").unwrap_or(rounds),
            seed: number("PATRA_TORTURE_SEED").unwrap_or_else(now_micros),
        }
    }
}

// covers: ING-5.8-01, ING-9.4-05
#[tokio::test(flavor = "multi_thread")]
async fn kills_on_sqlite() {
    kill::torture(Kind::Sqlite, &Params::or(6)).await;
}

// covers: ING-5.4-03, ING-5.8-01, ING-5.8-02, ING-13.3-07
#[tokio::test(flavor = "multi_thread")]
async fn kills_on_postgres() {
    kill::torture(Kind::Postgres, &Params::or(2)).await;
}

// covers: ING-5.4-02, ING-11.9-03
#[tokio::test(flavor = "multi_thread")]
async fn zombies_on_postgres() {
    zombie::torture(&Params::or(1)).await;
}

// covers: G-23
#[test]
fn moving_lists_on_sqlite() {
    moving::torture(&Workspace::sqlite(), &Params::or(8));
}

// covers: G-23
#[test]
fn moving_lists_on_postgres() {
    if let Some(place) = Workspace::postgres() {
        moving::torture(&place, &Params::or(8));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_steps_on_sqlite() {
    clock::torture(Kind::Sqlite, &Params::or(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_steps_on_postgres() {
    clock::torture(Kind::Postgres, &Params::or(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_on_sqlite() {
    disk::torture(&Params::or(1)).await;
}
