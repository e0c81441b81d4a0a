//! Sources: their settings, their types, and their state between two polls.

use std::time::Duration;

use patra_core::port::source::HeartbeatRow;
use patra_core::source::{DEFAULT_MINUTES, Interval};
use patra_core::state::{IntervalFrom, PausedReason, TaskStatus};
use patra_core::tx::{
    ChangeSource, Heartbeat, HeartbeatRecorded, NewSource, NewSourceConfig, SaveSetting, SaveSources, SavedSource,
    SettingSaved, SourceChanged, SourcesSaved, SyncTypes, TxError, TypesSynced,
};
use patra_core::{SourceId, TaskId, Ts};

use super::{MemStore, SourceRow, next_id, place};

pub(super) const A_DAY: Duration = Duration::from_secs(86_400);

impl MemStore {
    pub(super) fn save_sources(&mut self, now: Ts, op: &SaveSources) -> SourcesSaved {
        let save = |new| self.save_source(now, &op.project_key, new);
        SourcesSaved { sources: op.sources.iter().map(save).collect() }
    }

    fn save_source(&mut self, now: Ts, project_key: &str, new: &NewSource) -> SavedSource {
        if let Some(id) = self.source_by_key(project_key, &new.source_key) {
            return SavedSource { id, existed: true };
        }
        let id = SourceId(next_id(&self.sources));
        let mut row = SourceRow {
            id,
            project_key: project_key.to_owned(),
            r#type: new.r#type.clone(),
            name: new.name.clone(),
            config: new.config.clone(),
            source_key: new.source_key.clone(),
            minutes: new.minutes,
            is_public: new.is_public,
            is_deleted: false,
            state: patra_core::source::SourceState::default(),
            poll_count: 0,
            validators: None,
            created_at: now,
            updated_at: now,
        };
        row.state.last_fetched_at = new.last_fetched_at;
        row.state.fetch_count = i64::from(new.last_fetched_at.is_some());
        if new.is_active {
            row.state.reschedule(id.0, self.interval(&row).duration());
        } else {
            row.state.pause(now);
        }
        self.sources.push(row);
        self.settle_source(now, id);
        SavedSource { id, existed: false }
    }

    pub(super) fn source_by_key(&self, project_key: &str, source_key: &str) -> Option<SourceId> {
        let same = |row: &&SourceRow| row.project_key == project_key && row.source_key == source_key;
        self.sources.iter().filter(|row| !row.is_deleted).find(same).map(|row| row.id)
    }

    /// The source, unless it is missing or deleted.
    pub(super) fn live_source(&self, id: SourceId) -> Option<&SourceRow> {
        self.sources.get(place(id.0)).filter(|row| !row.is_deleted)
    }

    /// The interval in force for a source.
    pub(super) fn interval(&self, row: &SourceRow) -> Interval {
        let of_type = self.source_types.get(&row.r#type).map(|known| known.interval);
        let default = Interval { minutes: DEFAULT_MINUTES, from: IntervalFrom::Default };
        match row.minutes {
            Some(minutes) => Interval { minutes, from: IntervalFrom::Source },
            None => of_type.unwrap_or(default),
        }
    }

    /// Updates the due time after a change of state: a source without a fetcher is never due.
    pub(super) fn settle_source(&mut self, now: Ts, id: SourceId) {
        let row = &mut self.sources[place(id.0)];
        if self.source_types.get(&row.r#type).is_none_or(|known| known.unsupported.is_some()) {
            row.state.next_due_at = None;
        }
        row.updated_at = now;
    }

    pub(super) fn change_source(&mut self, now: Ts, op: &ChangeSource) -> Result<SourceChanged, TxError> {
        let id = SourceId(op.id);
        if self.live_source(id).is_none_or(|row| row.project_key != op.project_key) {
            return Ok(SourceChanged::Unknown);
        }
        if let Some(NewSourceConfig { source_key, .. }) = &op.config
            && self.source_by_key(&op.project_key, source_key).is_some_and(|other| other != id)
        {
            return Err(TxError::Conflict);
        }
        let row = &mut self.sources[place(op.id)];
        row.name = op.name.clone().unwrap_or_else(|| row.name.clone());
        row.is_public = op.is_public.unwrap_or(row.is_public);
        if let Some(NewSourceConfig { config, source_key, minutes }) = &op.config {
            (row.config, row.source_key, row.minutes) = (config.clone(), source_key.clone(), *minutes);
            row.validators = None;
            if row.state.paused.is_none() {
                row.state.next_due_at = Some(now);
            }
        }
        let interval = self.interval(&self.sources[place(op.id)]).duration();
        let row = &mut self.sources[place(op.id)];
        match op.is_active {
            Some(true) if row.state.paused.is_some() => row.state.resume(interval, now),
            Some(false) => row.state.pause(now),
            _ => {}
        }
        if op.delete {
            row.is_deleted = true;
            row.state.next_due_at = None;
        }
        self.settle_source(now, id);
        if op.delete || op.config.is_some() || op.is_active == Some(false) {
            self.cancel_queued_poll(now, id);
        }
        Ok(SourceChanged::Changed)
    }

    fn cancel_queued_poll(&mut self, now: Ts, source: SourceId) {
        let queued = |id: &TaskId| self.tasks[place(id.0)].status == TaskStatus::Queued;
        if let Some(id) = self.poll_of(source).filter(queued) {
            self.set_task(id, TaskStatus::Cancelled, None);
            self.tasks[place(id.0)].finished_at = Some(now);
        }
    }

    pub(super) fn sync_types(&mut self, now: Ts, op: &SyncTypes) -> TypesSynced {
        let mut moved = 0;
        for row in &op.types {
            let before = self.source_types.insert(row.r#type.clone(), row.clone());
            let follows = before
                .is_none_or(|before| before.interval.minutes != row.interval.minutes || before.unsupported.is_some());
            for at in 0..self.sources.len() {
                let source = &self.sources[at];
                if source.r#type != row.r#type || source.is_deleted {
                    continue;
                }
                let (id, due) = (source.id, source.state.next_due_at);
                if row.unsupported.is_some() {
                    self.sources[at].state.next_due_at = None;
                } else if follows && (due.is_none() || source.minutes.is_none()) {
                    self.wake(now, id);
                }
                moved += u64::from(self.sources[at].state.next_due_at != due);
            }
        }
        TypesSynced { moved }
    }

    fn wake(&mut self, now: Ts, id: SourceId) {
        let interval = self.interval(&self.sources[place(id.0)]).duration();
        let row = &mut self.sources[place(id.0)];
        let before = row.state.next_due_at;
        row.state.reschedule(id.0, interval);
        // A failed source lost its due time when it had no fetcher.
        if row.state.next_due_at.is_none() && row.state.paused != Some(PausedReason::User) {
            row.state.next_due_at = Some(now);
        }
        if row.state.next_due_at != before {
            row.updated_at = now;
        }
    }

    pub(super) fn beat(&mut self, now: Ts, op: &Heartbeat) -> HeartbeatRecorded {
        let row = HeartbeatRow {
            owner: op.owner.clone(),
            last_tick_at: now,
            next_tick_at: now + op.tick,
            tick_seconds: op.tick.as_secs() as i64,
            concurrency: op.concurrency.into(),
            leaving: op.leaving,
        };
        self.beats.insert(op.owner.clone(), row);
        self.beats.retain(|_, row| row.next_tick_at >= now - A_DAY);
        HeartbeatRecorded { now }
    }

    pub(super) fn configure(&mut self, op: &SaveSetting) -> SettingSaved {
        match &op.value {
            Some(value) => self.settings.insert(op.key.clone(), value.clone()),
            None => self.settings.remove(&op.key),
        };
        SettingSaved
    }
}
