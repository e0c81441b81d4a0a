//! What a task reads beside its window: a range of pages, or a segment of ids. Stands in `ing_task.params`.

use serde::{Deserialize, Serialize};

use crate::tx::{IdRange, Wanted};

/// Pages of a numbered listing, counted from 0 whatever the far side calls its first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageRange {
    pub from: u64,
    /// The last page that is read; `None`: to the end, wherever that is by then.
    pub to: Option<u64>,
}

impl PageRange {
    /// Covers `pages` pages in ranges of `size`. Each begins one page before its share, so that a record which moves one page
    /// towards the beginning between two reads is still met (G-16); the last is open.
    pub fn cover(pages: u64, size: u64) -> Vec<PageRange> {
        let size = size.max(1);
        let count = pages.div_ceil(size).max(1);
        let range = |index: u64| PageRange {
            from: (index * size).saturating_sub(1),
            to: (index + 1 < count).then(|| (index + 1) * size - 1),
        };
        (0..count).map(range).collect()
    }
}

/// A part of the records that an UPDATE wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Segment {
    pub wanted: Wanted,
    pub range: IdRange,
}

/// Read from the params of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Bounds {
    #[serde(default)]
    pub pages: Option<PageRange>,
    #[serde(default)]
    pub ids: Option<Segment>,
}

impl Bounds {
    pub fn of_task(task_params: &str) -> Result<Bounds, serde_json::Error> {
        // Most tasks have neither: no need to read the rest of them.
        if !task_params.contains("\"pages\":") && !task_params.contains("\"ids\":") {
            return Ok(Bounds::default());
        }
        serde_json::from_str(task_params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-8.2-02
    #[test]
    fn ranges_cover_all_pages_overlap_by_one_and_leave_the_end_open() {
        let range = |from, to| PageRange { from, to };
        assert_eq!(PageRange::cover(450, 200), [range(0, Some(199)), range(199, Some(399)), range(399, None)]);
        assert_eq!(PageRange::cover(1, 200), [range(0, None)]);
        assert_eq!(PageRange::cover(0, 0), [range(0, None)]);
    }

    #[test]
    fn bounds_read_back_from_the_params_of_a_task() {
        assert_eq!(Bounds::of_task(r#"{"window":{}}"#).unwrap(), Bounds::default());
        let pages = Bounds::of_task(r#"{"pages":{"from":1,"to":null},"params":{"pages":"x"}}"#).unwrap();
        assert_eq!(pages.pages, Some(PageRange { from: 1, to: None }));
        let ids =
            r#"{"ids":{"wanted":{"stale":{"before":"2026-01-01T00:00:00Z"}},"range":{"after":null,"through":"b"}}}"#;
        assert_eq!(Bounds::of_task(ids).unwrap().ids.unwrap().range.through, "b");
    }
}
