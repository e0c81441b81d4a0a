//! The complete part of a window whose reading stops half-way: known only where records come in the order of their
//! update times (G-26). The order must be declared, and every page is checked against it.

use std::time::Duration;

use crate::record::Record;
use crate::time::Ts;
use crate::window::Window;

/// The order by update time that an upstream declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordOrder {
    Ascending,
    Descending,
}

/// How far the records of a run have come.
#[derive(Debug, Default)]
pub(super) struct OrderTracker {
    reached: Option<Ts>,
    broken: bool,
}

impl OrderTracker {
    /// Checks the records of a page, in the order in which they came.
    pub(super) fn page(&mut self, order: RecordOrder, records: &[Record]) {
        for at in records.iter().map(|record| record.version.updated_at) {
            let onward = match (self.reached, order) {
                (None, _) => true,
                (Some(reached), RecordOrder::Ascending) => at >= reached,
                (Some(reached), RecordOrder::Descending) => at <= reached,
            };
            self.broken |= !onward;
            self.reached = Some(at);
        }
    }

    /// An unordered page was read, or pages are read again.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// The complete part of `window` and the rest; `None` when that is unknown. Records that share the last update
    /// time may be on the next page: the boundary lies before them, and on a multiple of `step`, because the upstream
    /// may not filter by finer times.
    pub(super) fn parts(&self, order: RecordOrder, window: Window, step: Duration) -> Option<(Option<Window>, Window)> {
        let reached = self.reached.filter(|_| !self.broken)?;
        let step = step.max(Duration::from_micros(1));
        let border = match order {
            RecordOrder::Ascending => reached.floor_to(step),
            RecordOrder::Descending => {
                let next = reached + Duration::from_micros(1);
                let floor = next.floor_to(step);
                if floor == next { floor } else { floor + step }
            }
        };
        let border = border.max(window.from).min(window.to);
        let (before, behind) = (Window::new(window.from, border), Window::new(border, window.to));
        match order {
            RecordOrder::Ascending => Some((before, behind?)),
            RecordOrder::Descending => Some((behind, before?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytestring::ByteString;

    use super::*;
    use crate::record::RecordVersion;

    fn record(at: i64) -> Record {
        Record {
            key: at.to_string(),
            version: RecordVersion { updated_at: Ts::from_micros(at), source_version: 0 },
            fields: String::new(),
            payload: ByteString::new(),
            content_hash: [0; 16],
        }
    }

    fn w(from: i64, to: i64) -> Window {
        Window { from: Ts::from_micros(from), to: Ts::from_micros(to) }
    }

    fn parts(order: RecordOrder, pages: &[&[i64]], step: u64) -> Option<(Option<Window>, Window)> {
        let mut track = OrderTracker::default();
        for page in pages {
            track.page(order, &page.iter().copied().map(record).collect::<Vec<_>>());
        }
        track.parts(order, w(0, 100), Duration::from_micros(step))
    }

    // covers: ING-4.4-24
    #[test]
    fn the_remaining_window_keeps_what_shares_the_last_time() {
        use RecordOrder::{Ascending, Descending};
        assert_eq!(parts(Ascending, &[&[1, 5], &[5, 30]], 1), Some((Some(w(0, 30)), w(30, 100))));
        assert_eq!(parts(Descending, &[&[90, 80], &[80, 70]], 1), Some((Some(w(71, 100)), w(0, 71))));
        assert_eq!(parts(Ascending, &[&[1, 37]], 10), Some((Some(w(0, 30)), w(30, 100))), "rounded down");
        assert_eq!(parts(Descending, &[&[90, 63]], 10), Some((Some(w(70, 100)), w(0, 70))), "rounded up");
    }

    #[test]
    fn without_order_or_records_nothing_is_known() {
        assert_eq!(parts(RecordOrder::Ascending, &[], 1), None);
        assert_eq!(parts(RecordOrder::Ascending, &[&[5, 4]], 1), None);
        assert_eq!(parts(RecordOrder::Descending, &[&[5], &[6]], 1), None);
        assert_eq!(parts(RecordOrder::Ascending, &[&[0]], 1), Some((None, w(0, 100))), "nothing is complete yet");
    }

    #[test]
    fn records_outside_the_window_do_not_carry_the_border_out_of_it() {
        assert_eq!(parts(RecordOrder::Ascending, &[&[-50]], 1), Some((None, w(0, 100))));
        assert_eq!(parts(RecordOrder::Ascending, &[&[150]], 1), None, "nothing remains: the reading goes on instead");
        assert_eq!(parts(RecordOrder::Descending, &[&[-5]], 1), None);
    }
}
