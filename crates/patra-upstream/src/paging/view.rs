//! The records one request may see, in its order: a range of the dataset without the hidden ones, addressed by rank.

use std::ops::Range;

use bytes::Bytes;

use crate::dataset::Dataset;
use crate::time::rfc3339;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// What is shown of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Record,
    /// The id, as a string.
    Id,
    /// `{"id","version"}`, where the version is the record's `updated_at`.
    Version,
}

pub(super) struct View<'a> {
    dataset: &'a Dataset,
    shape: Shape,
    /// No row of this rank or a higher one is served.
    ceiling: usize,
    range: Range<usize>,
    /// Within the range; sorted, without repetition.
    hidden: Vec<usize>,
    order: Order,
}

/// A stretch of a view.
pub(super) struct Rows {
    pub(super) count: usize,
    /// The rank after the last row.
    pub(super) end: usize,
    /// The records with their commas.
    pub(super) items: Vec<Bytes>,
}

impl<'a> View<'a> {
    /// `hidden` must be sorted and without repetition.
    pub(super) fn new(dataset: &'a Dataset, range: Range<usize>, mut hidden: Vec<usize>, order: Order) -> Self {
        debug_assert!(hidden.is_sorted());
        hidden.retain(|index| range.contains(index));
        Self { dataset, shape: Shape::Record, ceiling: usize::MAX, range, hidden, order }
    }

    pub(super) fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    pub(super) fn with_ceiling(self, ceiling: usize) -> Self {
        Self { ceiling, ..self }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn ceiling(&self) -> usize {
        self.ceiling
    }

    pub(super) fn len(&self) -> usize {
        self.range.len() - self.hidden.len()
    }

    /// Up to `size` rows from `rank` on; none behind the end.
    pub(super) fn rows(&self, rank: usize, size: usize) -> Rows {
        let len = self.len().min(self.ceiling);
        let start = rank.min(len);
        let end = start.saturating_add(size).min(len);
        let items = match (self.shape, self.order) {
            _ if start == end => Vec::new(),
            (Shape::Record, Order::Ascending) => self.run(start, end),
            (Shape::Record, Order::Descending) => self.backwards(start, end),
            _ => vec![self.reduced(start, end)],
        };
        Rows { count: end - start, end, items }
    }

    /// The boundary in the dataset that lies before the row of this rank, in the view's order.
    pub(super) fn boundary(&self, rank: usize) -> u64 {
        let boundary = match self.order {
            Order::Ascending if rank == 0 => self.range.start,
            Order::Ascending => self.index(rank - 1) + 1,
            Order::Descending if rank == 0 => self.range.end,
            Order::Descending => self.index(self.len() - rank),
        };
        boundary as u64
    }

    /// The rank of the first row behind a boundary, in the view's order.
    pub(super) fn rank(&self, boundary: u64) -> usize {
        let boundary = usize::try_from(boundary).unwrap_or(usize::MAX).clamp(self.range.start, self.range.end);
        let hidden = self.hidden.partition_point(|index| *index < boundary);
        let below = boundary - self.range.start - hidden;
        match self.order {
            Order::Ascending => below,
            Order::Descending => self.len() - below,
        }
    }

    /// The dataset's index of the row with this ascending rank.
    fn index(&self, rank: usize) -> usize {
        let start = self.range.start + rank;
        self.hidden.iter().fold(start, |index, hidden| index + usize::from(*hidden <= index))
    }

    /// As few slices as the hidden records allow.
    fn run(&self, start: usize, end: usize) -> Vec<Bytes> {
        let (first, last) = (self.index(start), self.index(end - 1));
        let mut items = Vec::with_capacity(1);
        let mut at = first;
        let gaps = self.hidden.iter().copied().filter(|hidden| (first..last).contains(hidden));
        for stop in gaps.chain([last + 1]) {
            if at < stop {
                push(&mut items, self.dataset.run(at..stop));
            }
            at = stop + 1;
        }
        items
    }

    fn backwards(&self, start: usize, end: usize) -> Vec<Bytes> {
        let mut items = Vec::with_capacity(2 * (end - start));
        for rank in start..end {
            let index = self.index(self.len() - 1 - rank);
            push(&mut items, self.dataset.run(index..index + 1));
        }
        items
    }
}

impl View<'_> {
    /// Not the records but what stands for them.
    fn reduced(&self, start: usize, end: usize) -> Bytes {
        let ranks = (start..end).map(|rank| match self.order {
            Order::Ascending => rank,
            Order::Descending => self.len() - 1 - rank,
        });
        let records = ranks.filter_map(|rank| self.dataset.get(self.index(rank)));
        let items: Vec<String> = records
            .map(|(id, updated_at, _)| match self.shape {
                Shape::Version => format!(r#"{{"id":"{id}","version":"{}"}}"#, rfc3339(updated_at)),
                Shape::Id | Shape::Record => format!("\"{id}\""),
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
