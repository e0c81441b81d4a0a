//! Broken and hostile manifests, ten thousand of them in `./test full` and a quarter of that otherwise: none panics, none takes long or uses much memory, and each rejected one
//! has a problem. In its own binary, because it counts the allocations of the whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

mod mutate;

use std::time::Duration;

use patra_spec::{Operation, Overrides, compile, explain, read, registry, to_yaml};
use peak_alloc::PeakAlloc;

use mutate::Rng;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Number of manifests, unless `PATRA_HOSTILE_MANIFESTS` says otherwise.
const CASES: u64 = 2_500;
/// Most CPU time of one step.
const MAX_TIME: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// CPU time of this thread, so that a busy machine does not count; zero if the system does not report it.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(schedstat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// One case, and the maximum cost of its steps.
struct Case {
    seed: u64,
    slowest: Duration,
    largest: usize,
}

impl Case {
    fn step<T>(&mut self, step: impl FnOnce() -> T) -> T {
        MEMORY.reset_peak_usage();
        let (before, start) = (MEMORY.current_usage(), cpu_time());
        let done = step();
        let (time, bytes) = (cpu_time() - start, MEMORY.peak_usage().saturating_sub(before));
        assert!(time < MAX_TIME, "seed {} took {time:?}", self.seed);
        assert!(bytes < MAX_BYTES, "seed {} took {bytes} bytes", self.seed);
        (self.slowest, self.largest) = (self.slowest.max(time), self.largest.max(bytes));
        done
    }

    /// Runs one manifest through every function that takes outside manifests; returns whether it was accepted.
    fn check(&mut self, text: &str) -> bool {
        let manifest = match self.step(|| read("t.yaml", text)) {
            Ok(manifest) => manifest,
            Err(problems) => {
                assert!(!problems.as_slice().is_empty());
                let lines = u32::try_from(text.lines().count()).unwrap() + 1;
                for problem in problems.as_slice() {
                    assert!(!problem.message.trim().is_empty(), "seed {}: {problem:?}", self.seed);
                    let inside = (1..=lines).contains(&problem.line) && problem.column >= 1;
                    assert!(inside, "seed {}: {problem:?} of {lines} lines", self.seed);
                }
                return false;
            }
        };
        let overrides = Overrides::parse(["retry.max_attempts=1"]).unwrap();
        for name in manifest.endpoints.keys().take(2) {
            let _ = self.step(|| compile(&manifest, name, Operation::Harvest));
            let _ = self.step(|| explain(&manifest, name, Operation::Update, &overrides));
        }
        let rows = self.step(|| registry::rows(&manifest));
        assert_eq!(self.step(|| registry::manifest(&manifest.provenance, &rows)).unwrap(), manifest);
        let yaml = self.step(|| to_yaml(&manifest));
        assert_eq!(self.step(|| read("t.yaml", &yaml)).unwrap(), manifest, "seed {}", self.seed);
        true
    }
}

#[test]
fn hostile_manifests_are_handled_within_limits() {
    let sources = mutate::sources();
    let (mut accepted, mut refused) = (0_u64, 0_u64);
    let (mut slowest, mut largest) = ((Duration::ZERO, 0), (0, 0));
    let cases = std::env::var("PATRA_HOSTILE_MANIFESTS").map_or(CASES, |cases| cases.parse().unwrap());
    for seed in 0..cases {
        let text = mutate::mutated(&sources, &mut Rng::new(seed));
        let mut case = Case { seed, slowest: Duration::ZERO, largest: 0 };
        let taken = case.check(&text);
        (accepted, refused) = (accepted + u64::from(taken), refused + u64::from(!taken));
        slowest = slowest.max((case.slowest, seed));
        largest = largest.max((case.largest, seed));
    }
    println!("{accepted} accepted, slowest {slowest:?}, largest {largest:?}");
    // Some must be accepted and some rejected.
    assert!(accepted > cases / 20 && refused > cases / 2, "{accepted} accepted, {refused} refused");
}
