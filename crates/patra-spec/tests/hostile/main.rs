//! Ten thousand broken and hostile manifests: none panics, none takes long, none takes much memory, and whoever is
//! refused is told why. Alone in its binary, as it counts what the whole process allocates.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

mod mutate;

use std::time::Duration;

use patra_spec::{Operation, Overrides, compile, explain, read, registry, to_yaml};
use peak_alloc::PeakAlloc;

use mutate::Rng;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const CASES: u64 = 10_000;
/// On the core, of any one step.
const MAX_TIME: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long this thread has had a core, so that a busy machine does not count; zero where the system does not tell.
fn on_the_core() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// One case, and what its steps have cost at most.
struct Case {
    seed: u64,
    slowest: Duration,
    largest: usize,
}

impl Case {
    fn step<T>(&mut self, step: impl FnOnce() -> T) -> T {
        MEMORY.reset_peak_usage();
        let (before, start) = (MEMORY.current_usage(), on_the_core());
        let done = step();
        let (time, bytes) = (on_the_core() - start, MEMORY.peak_usage().saturating_sub(before));
        assert!(time < MAX_TIME, "seed {} took {time:?}", self.seed);
        assert!(bytes < MAX_BYTES, "seed {} took {bytes} bytes", self.seed);
        (self.slowest, self.largest) = (self.slowest.max(time), self.largest.max(bytes));
        done
    }

    /// One manifest through everything that takes manifests from outside; whether it was accepted.
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
fn no_manifest_does_harm() {
    let sources = mutate::sources();
    let (mut accepted, mut refused) = (0, 0);
    let (mut slowest, mut largest) = ((Duration::ZERO, 0), (0, 0));
    for seed in 0..CASES {
        let text = mutate::mutated(&sources, &mut Rng::new(seed));
        let mut case = Case { seed, slowest: Duration::ZERO, largest: 0 };
        let taken = case.check(&text);
        (accepted, refused) = (accepted + u32::from(taken), refused + u32::from(!taken));
        slowest = slowest.max((case.slowest, seed));
        largest = largest.max((case.largest, seed));
    }
    println!("{accepted} accepted, slowest {slowest:?}, largest {largest:?}");
    // Both ways must have been gone.
    assert!(accepted > 500 && refused > 5_000, "{accepted} accepted, {refused} refused");
}
