//! The records visible to one request, in its order: a range of the dataset without hidden records, addressed by rank.

use std::ops::Range;

use bytes::Bytes;

use crate::dataset::Dataset;
use crate::time::rfc3339;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SortOrder {
    Ascending,
    Descending,
}

/// How a record is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemForm {
    Record,
    /// The id as a string.
    Id,
    /// `{"id","version"}`, where the version is the record's `updated_at`.
    Version,
}

pub(super) struct DatasetView<'a> {
    dataset: &'a Dataset,
    form: ItemForm,
    /// Rows from this rank on are not served.
    ceiling: usize,
    range: Range<usize>,
    /// Hidden indexes within the range; sorted, without duplicates.
    hidden: Vec<usize>,
    order: SortOrder,
}

/// Consecutive rows of a view.
pub(super) struct ViewRows {
    pub(super) count: usize,
    /// The rank after the last row.
    pub(super) end: usize,
    /// The records, joined by commas.
    pub(super) items: Vec<Bytes>,
}

impl<'a> DatasetView<'a> {
    /// `hidden` must be sorted and without duplicates.
    pub(super) fn new(dataset: &'a Dataset, range: Range<usize>, mut hidden: Vec<usize>, order: SortOrder) -> Self {
        debug_assert!(hidden.is_sorted());
        hidden.retain(|index| range.contains(index));
        Self { dataset, form: ItemForm::Record, ceiling: usize::MAX, range, hidden, order }
    }

    pub(super) fn with_form(self, shape: ItemForm) -> Self {
        Self { form: shape, ..self }
    }

    pub(super) fn with_ceiling(self, ceiling: usize) -> Self {
        Self { ceiling, ..self }
    }

    pub(super) fn form(&self) -> ItemForm {
        self.form
    }

    pub(super) fn ceiling(&self) -> usize {
        self.ceiling
    }

    pub(super) fn len(&self) -> usize {
        self.range.len() - self.hidden.len()
    }

    /// Up to `size` rows from `rank` on; none after the end.
    pub(super) fn rows(&self, rank: usize, size: usize) -> ViewRows {
        let len = self.len().min(self.ceiling);
        let start = rank.min(len);
        let end = start.saturating_add(size).min(len);
        let items = match (self.form, self.order) {
            _ if start == end => Vec::new(),
            (ItemForm::Record, SortOrder::Ascending) => self.ascending_records(start, end),
            (ItemForm::Record, SortOrder::Descending) => self.descending_records(start, end),
            _ => vec![self.id_items(start, end)],
        };
        ViewRows { count: end - start, end, items }
    }

    /// The boundary in the dataset before the row of this rank, in the view's order.
    pub(super) fn boundary(&self, rank: usize) -> u64 {
        let boundary = match self.order {
            SortOrder::Ascending if rank == 0 => self.range.start,
            SortOrder::Ascending => self.index(rank - 1) + 1,
            SortOrder::Descending if rank == 0 => self.range.end,
            SortOrder::Descending => self.index(self.len() - rank),
        };
        boundary as u64
    }

    /// The rank of the first row after a boundary, in the view's order.
    pub(super) fn rank(&self, boundary: u64) -> usize {
        let boundary = usize::try_from(boundary).unwrap_or(usize::MAX).clamp(self.range.start, self.range.end);
        let hidden = self.hidden.partition_point(|index| *index < boundary);
        let below = boundary - self.range.start - hidden;
        match self.order {
            SortOrder::Ascending => below,
            SortOrder::Descending => self.len() - below,
        }
    }

    /// The dataset's index of the row with this ascending rank.
    fn index(&self, rank: usize) -> usize {
        let start = self.range.start + rank;
        self.hidden.iter().fold(start, |index, hidden| index + usize::from(*hidden <= index))
    }

    /// Ascending rows, in as few slices as the hidden records allow.
    fn ascending_records(&self, start: usize, end: usize) -> Vec<Bytes> {
        let (first, last) = (self.index(start), self.index(end - 1));
        let mut items = Vec::with_capacity(1);
        let mut at = first;
        let gaps = self.hidden.iter().copied().filter(|hidden| (first..last).contains(hidden));
        for stop in gaps.chain([last + 1]) {
            if at < stop {
                push(&mut items, self.dataset.joined_records(at..stop));
            }
            at = stop + 1;
        }
        items
    }

    fn descending_records(&self, start: usize, end: usize) -> Vec<Bytes> {
        let mut items = Vec::with_capacity(2 * (end - start));
        for rank in start..end {
            let index = self.index(self.len() - 1 - rank);
            push(&mut items, self.dataset.joined_records(index..index + 1));
        }
        items
    }
}

impl DatasetView<'_> {
    /// Ids or versions instead of records.
    fn id_items(&self, start: usize, end: usize) -> Bytes {
        let ranks = (start..end).map(|rank| match self.order {
            SortOrder::Ascending => rank,
            SortOrder::Descending => self.len() - 1 - rank,
        });
        let records = ranks.filter_map(|rank| self.dataset.get(self.index(rank)));
        let items: Vec<String> = records
            .map(|(id, updated_at, _)| match self.form {
                ItemForm::Version => format!(r#"{{"id":"{id}","version":"{}"}}"#, rfc3339(updated_at)),
                ItemForm::Id | ItemForm::Record => format!("\"{id}\""),
            })
            .collect();
        Bytes::from(items.join(","))
    }
}

fn push(items: &mut Vec<Bytes>, records: Bytes) {
    if !items.is_empty() {
        items.push(Bytes::from_static(b","));
    }
    items.push(records);
}
