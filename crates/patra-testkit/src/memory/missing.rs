//! Lists that are read as a whole: which of their records each pass has seen, and which are gone.

use patra_core::record::RecordStream;
use patra_core::state::TaskStatus;
use patra_core::tx::{CommitBatch, MarkMissing, MissingMarked, TxError};
use patra_core::{SliceId, Ts};

use super::{MemStore, place};

/// A list that is read as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemList {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub key: String,
}

/// A record that a list has or had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    pub slice: SliceId,
    pub missing_since: Option<Ts>,
}

impl MemStore {
    /// Records which stored records the page has, and takes their marks away.
    pub(super) fn see(&mut self, op: &CommitBatch) {
        let keys = op.listed();
        let Some(list) = op.pass.as_ref().and_then(|pass| pass.list.as_ref()).filter(|_| !keys.is_empty()) else {
            return;
        };
        let list = list_of(&op.stream, list);
        let at = self.lists.iter().position(|known| *known == list).unwrap_or_else(|| {
            self.lists.push(list);
            self.lists.len() - 1
        });
        let stream = self.stream(&op.stream);
        for key in keys {
            let Some(item) = self.index.items[stream].get(key).map(|at| &mut self.items[*at]) else { continue };
            item.missing_since = None;
            let seen = Listed { slice: op.lineage.slice, missing_since: None };
            let row = self.listed.entry((at, item.id)).or_insert(seen);
            *row = Listed { slice: row.slice.max(seen.slice), ..seen };
        }
    }

    pub(super) fn mark_missing(&mut self, now: Ts, op: &MarkMissing) -> Result<MissingMarked, TxError> {
        if self.leased_task(op.lease).is_none_or(|task| task.status != TaskStatus::Executing) {
            return Err(TxError::Fenced);
        }
        let (list, slice) = (list_of(&op.stream, &op.list), op.lineage.slice);
        let mut marked = MissingMarked::default();
        let Some(list) = self.lists.iter().position(|known| *known == list) else { return Ok(marked) };
        let after = op.after.map_or(i64::MIN, |after| after + 1);
        let part = self.listed.range((list, after)..=(list, i64::MAX)).take(op.limit as usize);
        let part: Vec<_> = part.map(|((_, item), row)| (*item, *row)).collect();
        marked.next = part.last().filter(|_| part.len() == op.limit as usize).map(|(item, _)| *item);
        for (item, row) in part {
            let is_own = row.missing_since.is_some() && row.slice == slice;
            let is_gone = row.missing_since.is_none() && row.slice < slice;
            marked.known += u32::from(is_own || row.missing_since.is_none());
            if !is_own && !is_gone {
                continue;
            }
            marked.gone += 1;
            if is_gone && !op.only_count {
                self.listed.insert((list, item), Listed { slice, missing_since: Some(now) });
                let has_it =
                    |((_, other), row): (&(usize, i64), &Listed)| *other == item && row.missing_since.is_none();
                if !self.listed.iter().any(has_it) {
                    self.items[place(item)].missing_since.get_or_insert(now);
                }
            }
            marked.missing += u32::from(self.items[place(item)].missing_since.is_some());
        }
        Ok(marked)
    }
}

fn list_of(stream: &RecordStream, key: &str) -> ItemList {
    ItemList {
        project_key: stream.project_key.clone(),
        provenance_code: stream.provenance_code.clone(),
        endpoint_name: stream.endpoint_name.clone(),
        key: key.to_owned(),
    }
}
