//! Selection of the lanes that a claim must read, and how far. Pure: heads in, lanes out.

use std::collections::BTreeMap;

use patra_core::Ts;
use patra_core::tx::{ClaimTasks, PartitionKey};

/// Tasks read per lane of a partition whose tasks differ in C_max. A task behind more than that may rank higher than it
/// should: it is leased early, but never beyond its C_max.
const MOST_LOOKED_AT: i64 = 1_000;

/// A lane: tasks with the same partition, C_max, credential and priority, represented by the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lane {
    pub(super) provenance_code: String,
    pub(super) endpoint_name: String,
    pub(super) operation_code: String,
    pub(super) c_max: i64,
    /// 0 for none.
    pub(super) credential_id: i64,
    pub(super) priority: i32,
    /// Tasks of the partition in progress.
    pub(super) held: i64,
    pub(super) scheduled_at: Ts,
    pub(super) id: i64,
}

/// A lane to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chosen<'a> {
    pub(super) lane: &'a Lane,
    /// The greatest C_max of the partition, or its cap.
    pub(super) most: i64,
    /// Number of tasks to read from its beginning.
    pub(super) take: i64,
}

type Key<'a> = (&'a str, &'a str, &'a str);

impl Lane {
    fn partition(&self) -> Key<'_> {
        (&self.provenance_code, &self.endpoint_name, &self.operation_code)
    }

    pub(super) fn is_of(&self, partition: &PartitionKey) -> bool {
        self.partition() == (&*partition.provenance_code, &*partition.endpoint_name, partition.operation.as_str())
    }

    fn rank(&self, op: &ClaimTasks) -> i64 {
        i64::from(self.priority) * direction(op)
    }
}

/// Order of the priorities.
pub(super) fn direction(op: &ClaimTasks) -> i64 {
    if op.reverse_priority { -1 } else { 1 }
}

/// Attributes shared by the lanes of one partition.
struct Partition {
    cap: i64,
    fewest: i64,
    most: i64,
    /// Rank, time and id of the first task of all lanes, and its C_max.
    first: (i64, Ts, i64),
    c_max: i64,
}

/// Returns the lanes that can matter for this claim.
///
/// If all tasks of a partition have one C_max, a task is leased only after every task before it. So only lanes that can
/// be among the first `limit` matter: every partition whose first task comes before the lane's first takes one slot,
/// and every one with as much or less in progress takes one before the lane's second. If they differ, every task before
/// another one counts for its rank.
pub(super) fn choose<'a>(lanes: &'a [Lane], op: &ClaimTasks) -> Vec<Chosen<'a>> {
    let partitions = partitions(lanes, op);
    let limit = i64::from(op.limit);
    let mut open: Vec<_> = lanes
        .iter()
        .filter_map(|lane| {
            let partition = &partitions[&lane.partition()];
            let rank = lane.rank(op);
            let is_first = partition.first == (rank, lane.scheduled_at, lane.id);
            let is_sure = is_first && partition.c_max.min(partition.cap) > lane.held;
            let has_room = partition.most.min(partition.cap) > lane.held;
            has_room.then_some((rank, lane.held, lane.scheduled_at, lane.id, is_sure, lane, partition))
        })
        .collect();
    open.sort_by_key(|(rank, held, at, id, ..)| (*rank, *held, *at, *id));
    let (mut chosen, mut before) = (Vec::new(), 0);
    for group in open.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let before_second = before + group.iter().filter(|(.., is_sure, _, _)| *is_sure).count() as i64;
        for (.., is_sure, lane, partition) in group {
            let most = partition.most.min(partition.cap);
            let places = limit - before;
            let take = match partition.fewest < partition.most {
                true => (most - lane.held).min(MOST_LOOKED_AT),
                false if before_second >= limit => places.min(1),
                false => places,
            };
            before += i64::from(*is_sure);
            if take > 0 {
                chosen.push(Chosen { lane, most, take });
            }
        }
    }
    chosen
}

fn partitions<'a>(lanes: &'a [Lane], op: &ClaimTasks) -> BTreeMap<Key<'a>, Partition> {
    let caps: BTreeMap<Key<'_>, i64> = op
        .caps
        .iter()
        .map(|(of, cap)| ((&*of.provenance_code, &*of.endpoint_name, of.operation.as_str()), i64::from(*cap)))
        .collect();
    let mut partitions: BTreeMap<_, Partition> = BTreeMap::new();
    for lane in lanes {
        let (key, first) = (lane.partition(), (lane.rank(op), lane.scheduled_at, lane.id));
        let partition = partitions.entry(key).or_insert_with(|| Partition {
            cap: caps.get(&key).copied().unwrap_or(i64::MAX),
            fewest: lane.c_max,
            most: lane.c_max,
            first,
            c_max: lane.c_max,
        });
        partition.fewest = partition.fewest.min(lane.c_max);
        partition.most = partition.most.max(lane.c_max);
        if first < partition.first {
            (partition.first, partition.c_max) = (first, lane.c_max);
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use patra_core::state::Operation;

    /// A waiting task. Its position in the list is its id.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Task {
        partition: usize,
        c_max: i64,
        credential: i64,
        priority: i32,
        at: i64,
    }

    struct Scene {
        tasks: Vec<Task>,
        held: Vec<i64>,
        op: ClaimTasks,
    }

    impl Scene {
        /// Small consecutive numbers, so that all combinations occur.
        fn of(seed: u64) -> Scene {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut below = |most: i64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 33) as i64 % most
            };
            let partitions = 1 + below(6);
            let limits = [[2, 2, 2], [4, 4, 4], [1, 3, 6]][below(3) as usize];
            let mut tasks = Vec::new();
            for _ in 0..40 {
                tasks.push(Task {
                    partition: below(partitions) as usize,
                    c_max: limits[below(3) as usize],
                    credential: below(2),
                    priority: 100 * (1 + below(2)) as i32,
                    at: below(8),
                });
            }
            let held = (0..partitions).map(|_| below(3)).collect();
            let mut caps = Vec::new();
            for partition in 0..below(3).min(partitions) as usize {
                let of = PartitionKey {
                    provenance_code: partition_name(partition),
                    endpoint_name: "e".into(),
                    operation: Operation::Harvest,
                };
                caps.push((of, below(4) as u32));
            }
            let (limit, upside_down) = (1 + below(9) as u32, below(2) == 0);
            Scene {
                tasks,
                held,
                op: ClaimTasks {
                    owner: "w".into(),
                    limit,
                    lease: Duration::ZERO,
                    caps,
                    reverse_priority: upside_down,
                    only: None,
                },
            }
        }

        fn cap(&self, partition: usize) -> i64 {
            let cap = self.op.caps.iter().find(|(of, _)| of.provenance_code == partition_name(partition));
            cap.map_or(i64::MAX, |(_, cap)| i64::from(*cap))
        }

        /// The claim by its definition, over the tasks that are read.
        fn claim(&self, looked_at: impl Fn(usize) -> bool) -> Vec<usize> {
            let rank = |task: &Task| i64::from(task.priority) * direction(&self.op);
            let mut next = Vec::new();
            for (partition, held) in self.held.iter().enumerate() {
                let own = self.tasks.iter().enumerate().filter(|(_, task)| task.partition == partition);
                let mut own: Vec<_> = own.filter(|(id, _)| looked_at(*id)).collect();
                own.sort_by_key(|(id, task)| (rank(task), task.at, *id));
                for (turn, (id, task)) in (*held..).zip(own) {
                    if turn < task.c_max && turn < self.cap(partition) {
                        next.push((rank(task), turn, task.at, id));
                    }
                }
            }
            next.sort_unstable();
            next.truncate(self.op.limit as usize);
            next.into_iter().map(|(.., id)| id).collect()
        }

        fn lanes(&self) -> Vec<(Lane, Vec<usize>)> {
            let mut lanes: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            for (id, task) in self.tasks.iter().enumerate() {
                lanes.entry((task.partition, task.c_max, task.credential, task.priority)).or_default().push(id);
            }
            let lane =
                |((partition, c_max, credential_id, priority), mut ids): ((usize, i64, i64, i32), Vec<usize>)| {
                    ids.sort_by_key(|id| (self.tasks[*id].at, *id));
                    let lane = Lane {
                        provenance_code: partition_name(partition),
                        endpoint_name: "e".into(),
                        operation_code: "HARVEST".into(),
                        c_max,
                        credential_id,
                        priority,
                        held: self.held[partition],
                        scheduled_at: Ts::from_secs(self.tasks[ids[0]].at),
                        id: ids[0] as i64,
                    };
                    (lane, ids)
                };
            lanes.into_iter().map(lane).collect()
        }
    }

    fn partition_name(partition: usize) -> String {
        format!("p{partition}")
    }

    #[test]
    fn unread_lanes_do_not_change_the_claim() {
        let (mut spared, mut claimed) = (0, 0);
        for seed in 1..=3_000 {
            let scene = Scene::of(seed);
            let (lanes, members): (Vec<_>, Vec<_>) = scene.lanes().into_iter().unzip();
            let chosen = choose(&lanes, &scene.op);
            let mut looked_at = vec![false; scene.tasks.len()];
            for Chosen { lane, most, take } in &chosen {
                let at = lanes.iter().position(|other| other == *lane).unwrap();
                let first = (*take).min(most - lane.held).max(0) as usize;
                members[at].iter().take(first).for_each(|id| looked_at[*id] = true);
            }
            let expected = scene.claim(|_| true);
            assert_eq!(scene.claim(|id| looked_at[id]), expected, "seed {seed}");
            spared += looked_at.iter().filter(|seen| !**seen).count();
            claimed += expected.len();
        }
        assert!(spared > 60_000 && claimed > 5_000, "{spared} spared, {claimed} claimed");
    }
}
