//! The records of the mock API: synthetic bibliographic records, rendered once into one buffer, so that a page is a few
//! slices of it and serving needs no serialisation.

mod people;
mod record;
mod vocabulary;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub use self::people::People;

/// Records in ascending order of `updated_at`; a clone shares the buffer.
#[derive(Clone)]
pub struct Dataset {
    text: Arc<String>,
    /// The same memory as `text`, as bytes for the connection.
    bytes: Bytes,
    index: Arc<[RecordEntry]>,
    /// Built at the first lookup by id; listings do not need it.
    by_id: Arc<OnceLock<Box<[usize]>>>,
}

#[derive(Clone, Copy)]
struct RecordEntry {
    /// Range of the record in the buffer. The byte at `end` is a comma, so that neighbouring records are one slice.
    start: usize,
    end: usize,
    updated_at: i64,
}

/// Builds a [`Dataset`]; see [`Dataset::builder`].
#[derive(Debug, Clone)]
pub struct DatasetBuilder {
    seed: u64,
    count: usize,
    start_micros: i64,
    step_micros: i64,
    tie_every: usize,
}

impl Dataset {
    /// One record a minute from 2024-01-01; every seventh has the `updated_at` of the one before it.
    pub fn new(seed: u64, count: usize) -> Self {
        Self::builder().seed(seed).count(count).build()
    }

    /// Seed 1, no records, one a minute from 2024-01-01T00:00:00Z, every seventh tied to the one before.
    pub fn builder() -> DatasetBuilder {
        DatasetBuilder { seed: 1, count: 0, start_micros: 1_704_067_200_000_000, step_micros: 60_000_000, tie_every: 7 }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// All records: id, `updated_at` in microseconds since 1970, and the record as served.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = (&str, i64, &str)> + ExactSizeIterator {
        self.index.iter().map(|entry| self.record(*entry))
    }

    pub fn get(&self, index: usize) -> Option<(&str, i64, &str)> {
        self.index.get(index).map(|entry| self.record(*entry))
    }

    /// The index of the record with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        let id_of = |index: &usize| self.record(self.index[*index]).0;
        let by_id = self.by_id.get_or_init(|| {
            let mut all: Box<[usize]> = (0..self.len()).collect();
            all.sort_unstable_by(|a, b| id_of(a).cmp(id_of(b)));
            all
        });
        by_id.binary_search_by(|index| id_of(index).cmp(id)).ok().map(|at| by_id[at])
    }

    /// The same records as posts of this many users.
    pub fn people(&self, users: usize) -> People<'_> {
        People::new(self, users)
    }

    /// The indexes of the records with `updated_at` in `[from, to)`.
    pub fn range(&self, from_micros: i64, to_micros: i64) -> Range<usize> {
        let before = |micros: i64| self.index.partition_point(|entry| entry.updated_at < micros);
        let start = before(from_micros);
        start..before(to_micros).max(start)
    }

    /// The ids of the records with `updated_at` in `[from, to)`.
    pub fn ids_in(&self, from_micros: i64, to_micros: i64) -> impl Iterator<Item = &str> {
        self.index[self.range(from_micros, to_micros)].iter().map(|entry| self.record(*entry).0)
    }

    /// Size of all records in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Neighbouring records, joined by commas.
    pub(crate) fn joined_records(&self, range: Range<usize>) -> Bytes {
        match self.index.get(range) {
            Some([first, .., last]) => self.bytes.slice(first.start..last.end),
            Some([only]) => self.bytes.slice(only.start..only.end),
            _ => Bytes::new(),
        }
    }

    fn record(&self, entry: RecordEntry) -> (&str, i64, &str) {
        let json = &self.text[entry.start..entry.end];
        (&json[record::ID], entry.updated_at, json)
    }
}

/// Prints no records: they would flood the output of a failed assertion.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset").field("records", &self.len()).field("bytes", &self.byte_len()).finish()
    }
}

impl DatasetBuilder {
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub fn count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    /// `updated_at` of the first record, in microseconds since 1970.
    pub fn start_micros(mut self, start_micros: i64) -> Self {
        self.start_micros = start_micros;
        self
    }

    /// Step between two `updated_at`; with 0 all records have the same.
    pub fn step_micros(mut self, step_micros: i64) -> Self {
        self.step_micros = step_micros.max(0);
        self
    }

    /// Every n-th record has the `updated_at` of the one before it; 0 for no ties.
    pub fn tie_every(mut self, tie_every: usize) -> Self {
        self.tie_every = tie_every;
        self
    }

    pub fn build(self) -> Dataset {
        let mut text = String::with_capacity(self.count * record::TYPICAL_BYTES);
        let index = (0..self.count).map(|n| {
            let (start, updated_at) = (text.len(), self.updated_at(n));
            record::render(&mut text, self.seed, n as u64, updated_at);
            let end = text.len();
            text.push(',');
            RecordEntry { start, end, updated_at }
        });
        let index = index.collect();
        let text = Arc::new(text);
        Dataset { bytes: Bytes::from_owner(SharedText(text.clone())), text, index, by_id: Arc::default() }
    }

    fn updated_at(&self, n: usize) -> i64 {
        let tied = self.tie_every > 0 && n > 0 && (n + 1).is_multiple_of(self.tie_every);
        self.start_micros + (n - usize::from(tied)) as i64 * self.step_micros
    }
}

struct SharedText(Arc<String>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests;
