//! Rounds with a list that changes while real processes read it, and die: a record that was there all the time is stored,
//! or the program does not say that everything is collected.

#![expect(clippy::disallowed_methods, reason = "the program runs alongside; nothing else waits for this thread")]
#![expect(clippy::print_stdout, reason = "what a long run found")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use patra_core::rng::Rng;

use super::Params;
use crate::moving::{List, MovingApi, OFFSET, PAGE, URL, stored};
use crate::support::Workspace;

/// Runs of a round, of which all but the last may be killed.
const RUNS: u64 = 3;

pub(super) fn torture(place: &Workspace, params: &Params) {
    let (mut rng, mut complete, mut unverified, mut partial) = (Rng::new(params.seed), 0, 0, 0);
    for round in 0..params.rounds {
        let case = format!("round {round} of seed {}", params.seed);
        let paging = [OFFSET, PAGE, URL][rng.below(3) as usize];
        let twice = if rng.chance(400) { ", verify: twice" } else { "" };
        let mut list = List::new();
        if rng.chance(700) {
            list.edits = Some((Rng::new(rng.below(u64::MAX)), 1 + rng.below(12)));
        }
        let total = if rng.chance(600) { ", total_path: $.total" } else { "" };
        let api = MovingApi::start(if total.is_empty() { list } else { list.with_total() });
        place.apply(&api.manifest(paging.0, &format!("{}{twice}", paging.1), total));
        let text = read(place, &api.provenance(), &mut rng);
        let kept = stored(place, &api.provenance());
        let list = api.list.lock().unwrap();
        let missing: Vec<_> = list.stayed.iter().filter(|row| kept.binary_search(row).is_err()).collect();
        let says_all =
            text.contains("all verified") || text.contains("was read before") && is_verified(place, &api.provenance());
        assert!(missing.is_empty() || !says_all, "{case}: {paging:?}{twice}{total}: without {missing:?}: {text}");
        assert!(
            says_all || text.contains("unverified") || text.contains("read before") || text.contains("error"),
            "{case}: {text}"
        );
        complete += u64::from(says_all);
        unverified += u64::from(text.contains("unverified"));
        partial += u64::from(!says_all && !text.contains("unverified"));
    }
    println!(
        "{} rounds of moving lists, seed {}: {complete} complete, {unverified} unverified, {partial} partial",
        params.rounds, params.seed
    );
    assert!(complete > 0, "nothing was ever complete");
}

/// Whether every run that succeeded is verified.
fn is_verified(place: &Workspace, provenance: &str) -> bool {
    let runs = place.list(&["runs", "--provenance", provenance]);
    let succeeded = || runs.iter().filter(|run| run["status_code"] == "SUCCEEDED");
    succeeded().count() > 0 && succeeded().all(|run| run["stats"]["verification"] != "unverified")
}

/// Reads the list, perhaps killed on the way, and returns what the last run says.
fn read(place: &Workspace, provenance: &str, rng: &mut Rng) -> String {
    let args = ["run", provenance, "rows", "--to", "2024-01-20T00:00:00Z"];
    // On PostgreSQL, the leases of a process that was killed last for a minute.
    let killed = if place.database_url().is_some() { 50 } else { 500 };
    for _ in 1..RUNS {
        if rng.chance(killed) {
            let mut child = place.patra().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let until = Instant::now() + Duration::from_millis(rng.below(400));
            while Instant::now() < until && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    let output = place.run(&args);
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
