//! The profile of one seed. Every kind of fault has its own probability, drawn per seed and mostly zero, so that seeds
//! differ in kind and not only in detail. Most worlds are small: what two processes and a few pages can get wrong is
//! found there, in a tenth of the time; a few are long, for what takes many turns.

use std::ops::Range;
use std::time::Duration;

use patra_core::rng::Rng;
use patra_core::window::{Align, Cut};

use super::api_behavior::ApiBehavior;
use super::partition::Partitions;
use super::passes::Passes;
use super::update::Update;

#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) faults: Faults,
    pub(super) executors: u64,
    pub(super) planners: u64,
    /// Every process has all roles.
    pub(super) joined: bool,
    pub(super) capacity: u32,
    /// Failed attempts without progress after which a task fails.
    pub(super) attempts: u32,
    /// Lease duration of tasks and triggers.
    pub(super) lease: Duration,
    pub(super) cut: Cut,
    pub(super) page_size: u32,
    /// Most records of one transaction; pages with more are committed in parts.
    pub(super) max_batch_records: usize,
    pub(super) inventory: u32,
    pub(super) lag: Duration,
    /// History of the first plan, before the start of the world.
    pub(super) history: Duration,
    /// Faults stop after this long.
    pub(super) rough: Duration,
    /// Poll interval of an executor or planner that found nothing, or no store.
    pub(super) idle_poll: Duration,
    /// Sweep interval.
    pub(super) sweep: Duration,
    pub(super) records: u64,
    /// Permille of the records with the update time of another record.
    pub(super) clustered: u64,
    /// Permille of the revisions that cannot be read.
    pub(super) malformed: u64,
    pub(super) skewed: bool,
    pub(super) outages: u64,
    pub(super) triggers: u64,
    pub(super) scheduled: bool,
    pub(super) poison: bool,
    /// Ids per details request; `None` if pages contain whole records.
    pub(super) details: Option<u32>,
    /// Whether a query returns a limited number of records.
    pub(super) ceiling: bool,
    pub(super) partitions: Option<Partitions>,
    /// The partitions are read as whole lists.
    pub(super) passes: Option<Passes>,
    pub(super) api: ApiBehavior,
    /// A backfill runs alongside the harvest, to its end.
    pub(super) backfill: bool,
    pub(super) update: Option<Update>,
    /// Frequency of pauses and cancellations.
    pub(super) pauses: u64,
    pub(super) cancels: u64,
}

/// Probability of each fault, in permille.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Faults {
    /// Faults of a transaction.
    pub(super) busy: u64,
    pub(super) unavailable: u64,
    pub(super) unknown_done: u64,
    pub(super) unknown_lost: u64,
    pub(super) slow_store: u64,
    pub(super) stall: u64,
    /// Faults of a process, when it receives an event.
    pub(super) crash: u64,
    pub(super) pause: u64,
    pub(super) jump: u64,
    pub(super) drain: u64,
    /// Faults of a request.
    pub(super) throttle: u64,
    pub(super) error: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    pub(super) slow_far: u64,
    pub(super) repeat: u64,
    /// A refusal that stops more than its task.
    pub(super) fatal: u64,
}

/// Maximum size of a world. Times in seconds.
struct Size {
    executors: Range<u64>,
    planners: Range<u64>,
    lease: Range<u64>,
    width: Range<u64>,
    records: Range<u64>,
    lag: Range<u64>,
    history: Range<u64>,
    rough: Range<u64>,
    idle_poll: Range<u64>,
    triggers: Range<u64>,
    /// Factor by which faults are more likely than in a long world.
    intensity: u64,
    /// Permille of the worlds with a schedule, a small inventory, partitions.
    scheduled: u64,
    in_parts: u64,
    partitions: u64,
}

/// One or two tasks: most of what can go wrong between two holders of one task goes wrong here.
const TINY: Size = Size {
    executors: 1..3,
    planners: 1..3,
    lease: 4..10,
    width: 20..60,
    records: 1..7,
    lag: 3..8,
    history: 8..40,
    rough: 20..60,
    idle_poll: 1..6,
    triggers: 1..3,
    intensity: 2,
    scheduled: 50,
    in_parts: 50,
    partitions: 0,
};

const SMALL: Size = Size {
    executors: 1..3,
    planners: 1..3,
    lease: 4..13,
    width: 10..60,
    records: 2..10,
    lag: 3..12,
    history: 15..50,
    rough: 20..60,
    idle_poll: 1..6,
    triggers: 1..4,
    intensity: 2,
    scheduled: 300,
    in_parts: 300,
    partitions: 130,
};

const LONG: Size = Size {
    executors: 1..4,
    planners: 1..3,
    lease: 12..13,
    width: 15..75,
    records: 10..50,
    lag: 5..25,
    history: 100..101,
    rough: 60..150,
    idle_poll: 1..6,
    triggers: 2..7,
    intensity: 1,
    scheduled: 500,
    in_parts: 300,
    partitions: 400,
};

impl Size {
    fn draw(rng: &mut Rng) -> Size {
        match rng.below(1_000) {
            0..720 => TINY,
            720..994 => SMALL,
            _ => LONG,
        }
    }
}

impl Profile {
    pub(super) fn draw(rng: &mut Rng) -> Profile {
        let size = Size::draw(rng);
        let faults = Faults::draw(rng, size.intensity);
        let mut within = |range: &Range<u64>| range.start + rng.below(range.end - range.start);
        let (executors, planners) = (within(&size.executors), within(&size.planners));
        let lease = Duration::from_secs(within(&size.lease));
        let (width, lag, history) = (within(&size.width), within(&size.lag), within(&size.history));
        let (rough, idle_poll) = (within(&size.rough), within(&size.idle_poll));
        let (records, triggers) = (within(&size.records), within(&size.triggers));
        // A window is only split if it has more records than one query returns, and not all in one second.
        let ceiling = rng.chance(200);
        let (records, width, clustered) = match ceiling {
            true => (records + 5, width.max(60), 100),
            false => (records, width, [300, 700][rng.below(2) as usize]),
        };
        let partitions = rng.chance(size.partitions).then(|| Partitions::draw(rng));
        Profile {
            faults,
            executors,
            planners,
            joined: rng.chance(400),
            capacity: 1 + rng.below(3) as u32,
            attempts: 1 + rng.below(3) as u32,
            lease,
            cut: Cut {
                max_width: Duration::from_secs(width),
                align: if rng.chance(300) { Some(Align::Minute) } else { None },
            },
            page_size: 1 + rng.below(4).min(rng.below(4)) as u32,
            max_batch_records: 10_000,
            inventory: if rng.chance(size.in_parts) { 1 + rng.below(4) as u32 } else { 100 },
            lag: Duration::from_secs(lag),
            history: Duration::from_secs(history),
            rough: Duration::from_secs(rough),
            idle_poll: Duration::from_secs(idle_poll),
            sweep: lease + Duration::from_secs(rng.below(10)),
            records,
            clustered,
            malformed: if rng.chance(300) { 1 + rng.below(200) } else { 0 },
            outages: u64::from(rng.chance(200)),
            triggers,
            skewed: rng.chance(600),
            scheduled: rng.chance(size.scheduled),
            poison: rng.chance(150),
            details: rng.chance(300).then(|| 1 + rng.below(3) as u32),
            ceiling,
            partitions,
            passes: None,
            api: ApiBehavior::draw(rng, ceiling),
            backfill: rng.chance(150),
            update: rng.chance(120).then(|| Update::draw(rng)),
            pauses: if rng.chance(120) { 1 + rng.below(3) } else { 0 },
            cancels: if rng.chance(80) { 1 + rng.below(2) } else { 0 },
        }
    }
}

impl Faults {
    fn draw(rng: &mut Rng, intensity: u64) -> Faults {
        // Permille of the fault kinds that this world has.
        let share = [200, 400, 600][rng.below(3) as usize];
        let mut upto = |most: u64| if rng.chance(share) { 1 + rng.below(most * intensity) } else { 0 };
        Faults {
            busy: upto(120),
            unavailable: upto(80),
            unknown_done: upto(120),
            unknown_lost: upto(120),
            slow_store: upto(60),
            stall: upto(50),
            crash: upto(40),
            pause: upto(40),
            jump: upto(25),
            drain: upto(10),
            throttle: upto(250),
            error: upto(250),
            refused: upto(60),
            lost: upto(60),
            slow_far: upto(100),
            repeat: upto(30),
            fatal: upto(12),
        }
    }
}
