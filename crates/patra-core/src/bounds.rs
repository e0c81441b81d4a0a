//! Further bounds of a task within its window: a range of pages, or a segment of ids. Stored in `ing_task.params`.

use serde::{Deserialize, Serialize};

use crate::tx::{IdRange, RefreshCriteria};

/// Pages of a numbered listing, counted from 0 whatever number the upstream's first page has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageRange {
    pub from: u64,
    /// The last page to read; `None`: read to the end, which may move.
    pub to: Option<u64>,
    /// Total of the list when it was divided: if another range sees a different one, records may have moved between
    /// ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl PageRange {
    /// Covers `pages` pages in ranges of `size`. Each begins one page before its share, so that a record which moves
    /// one page towards the beginning between two reads is still read (G-16); the last is open.
    pub fn cover(pages: u64, size: u64, total: Option<u64>) -> Vec<PageRange> {
        let size = size.max(1);
        let count = pages.div_ceil(size).max(1);
        let range = |index: u64| PageRange {
            from: (index * size).saturating_sub(1),
            to: (index + 1 < count).then(|| (index + 1) * size - 1),
            total,
        };
        (0..count).map(range).collect()
    }
}

/// A part of the records that an UPDATE refreshes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdSegment {
    #[serde(rename = "wanted")]
    pub criteria: RefreshCriteria,
    pub range: IdRange,
}

/// Read from the params of a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct TaskBounds {
    #[serde(default)]
    pub pages: Option<PageRange>,
    #[serde(default)]
    pub ids: Option<IdSegment>,
    /// Total of the window that this one was cut from because of it.
    #[serde(default)]
    pub total: Option<u64>,
}

impl TaskBounds {
    pub fn of_task(task_params: &str) -> Result<TaskBounds, serde_json::Error> {
        // Most tasks have none: skip parsing the rest.
        if !["\"pages\":", "\"ids\":", "\"total\":"].iter().any(|name| task_params.contains(name)) {
            return Ok(TaskBounds::default());
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
        let range = |from, to| PageRange { from, to, total: Some(9) };
        assert_eq!(PageRange::cover(450, 200, Some(9)), [range(0, Some(199)), range(199, Some(399)), range(399, None)]);
        assert_eq!(PageRange::cover(1, 200, Some(9)), [range(0, None)]);
        assert_eq!(PageRange::cover(0, 0, Some(9)), [range(0, None)]);
    }

    #[test]
    fn bounds_read_back_from_the_params_of_a_task() {
        assert_eq!(TaskBounds::of_task(r#"{"window":{}}"#).unwrap(), TaskBounds::default());
        let pages = TaskBounds::of_task(r#"{"pages":{"from":1,"to":null},"params":{"pages":"x"}}"#).unwrap();
        assert_eq!(pages.pages, Some(PageRange { from: 1, to: None, total: None }));
        let ids =
            r#"{"ids":{"wanted":{"stale":{"before":"2026-01-01T00:00:00Z"}},"range":{"after":null,"through":"b"}}}"#;
        assert_eq!(TaskBounds::of_task(ids).unwrap().ids.unwrap().range.through, "b");
    }
}
