//! UPDATE: stored records are fetched again because they are old, mapped by other rules, or signalled.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use patra_core::Ts;
use patra_core::cursor::{CursorName, CursorScope};
use patra_core::protocol::planner::{PlanDraft, PlanSpan, RefreshSpec, SliceContext};
use patra_core::protocol::run;
use patra_core::rng::Rng;
use patra_core::state::{Operation, SignalStatus, TaskStatus, UpdateReason};
use patra_core::tx::{ClaimedJob, SignalRecords};

use super::api::key;
use super::check::Broken;
use super::profile::Profile;
use super::scene;
use super::world::World;

#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// Ids per slice, and per request.
    size: u32,
    group: u32,
    stale_after: Duration,
    pub(super) signals: u64,
}

/// The mapping of an UPDATE is newer than that of a harvest.
static GENERATION: LazyLock<Arc<str>> = LazyLock::new(|| "newer".into());

/// No record has this number.
const NOBODY: u64 = 255;

impl Update {
    pub(super) fn draw(rng: &mut Rng) -> Update {
        Update {
            size: 1 + rng.below(3) as u32,
            group: 1 + rng.below(3) as u32,
            stale_after: Duration::from_secs(rng.below(20)),
            signals: rng.below(4),
        }
    }

    pub(super) fn draft(&self, trigger: &ClaimedJob, draft: PlanDraft) -> PlanDraft {
        let refresh = RefreshSpec {
            reason: trigger.reason.unwrap_or(UpdateReason::Staleness),
            stale_after: self.stale_after,
            generation: GENERATION.to_string(),
            size: self.size,
        };
        PlanDraft {
            cursor: CursorName { scope: CursorScope::Custom, namespace_key: scene::activity(trigger), ..draft.cursor },
            span: PlanSpan::Ids { stream: scene::main_stream(), refresh },
            context: SliceContext { operation: Operation::Update, ..draft.context },
            ..draft
        }
    }

    pub(super) fn policy(&self, profile: &Profile) -> Arc<run::RunPolicy> {
        let details = run::DetailOptions { batch_size: self.group, missing_is_bad: true };
        Arc::new(run::RunPolicy {
            details: Some(details),
            split: None,
            generation: Arc::clone(&GENERATION),
            ..(*scene::policy(profile, None)).clone()
        })
    }
}

pub(super) fn reason(rng: &mut Rng) -> UpdateReason {
    [UpdateReason::Staleness, UpdateReason::ExprChange, UpdateReason::Signals][rng.below(3) as usize]
}

impl World {
    /// Signals some records, stored or not, for a refresh.
    pub(super) fn signal(&mut self) -> Result<(), Broken> {
        let count = 1 + self.rng.below(3);
        let mut keys: Vec<String> = (0..count).map(|_| self.any_key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let signal = SignalRecords {
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            keys,
            reason: String::new(),
            by: "reader".into(),
        };
        self.execute(&signal.into()).map(drop)
    }

    /// The key of a record of the first endpoint, or of none.
    fn any_key(&mut self) -> String {
        let number = self.rng.below(self.profile.records + 1);
        key(if number == self.profile.records { NOBODY } else { number })
    }

    /// The last UPDATE of the calm phase has checked all of its ids. Ids that the upstream refuses may stay as old
    /// as they were, and a segment of nothing else fails.
    pub(super) fn check_update(&self) -> Result<(), Broken> {
        let mem = &self.store.mem;
        let (Some(update), Some(trigger)) = (self.profile.update, mem.instances.last()) else { return Ok(()) };
        let since = trigger.created_at;
        let looked_at = |at: Ts| match trigger.reason {
            Some(UpdateReason::Staleness) => at >= since - update.stale_after,
            Some(UpdateReason::ExprChange) => at >= since,
            _ => true,
        };
        let skipped = mem.items.iter().filter(|item| item.endpoint_name == "e" && *item.generation != **GENERATION);
        let refused = |key: &String| self.api.details(std::slice::from_ref(key), self.now).is_none();
        let skipped = skipped.filter(|item| !refused(&item.key));
        if let Some(item) = skipped.into_iter().find(|item| !looked_at(item.checked_at)) {
            return Err(format!("no gap: {} was not looked at again", item.key));
        }
        let open = |status| status == SignalStatus::Open && trigger.reason == Some(UpdateReason::Signals);
        if let Some(row) = mem
            .signals
            .values()
            .filter(|row| row.about.endpoint_name == "e")
            .find(|row| open(row.status) && row.updated_at < since)
        {
            return Err(format!("no gap: {} was not checked, although it was signalled", row.about.key));
        }
        let hopeless = (0..self.profile.records).any(|number| refused(&key(number)));
        let failed = |status| status == TaskStatus::Partial || status == TaskStatus::Failed && !hopeless;
        match mem.tasks.iter().find(|task| task.lineage.job == trigger.id && failed(task.status)) {
            Some(task) => Err(format!("every task ends: task {} is {} in calm times", task.id, task.status)),
            None => Ok(()),
        }
    }
}
