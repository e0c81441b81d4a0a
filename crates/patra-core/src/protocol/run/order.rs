//! What of a window is complete when its reading stops half-way: known only where records come in the order of their update
//! times (G-26). The order must be declared, and every page is checked against it.

use std::time::Duration;

use crate::record::Record;
use crate::time::Ts;
use crate::window::Window;

/// The order by update time that a far side declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Ascending,
    Descending,
}

/// How far the records of a run have come.
#[derive(Debug, Default)]
pub(super) struct Track {
    reached: Option<Ts>,
    broken: bool,
}

impl Track {
    /// Takes note of the records of a page, in the order in which they came.
    pub(super) fn page(&mut self, order: Order, records: &[Record]) {
        for at in records.iter().map(|record| record.version.updated_at) {
            let onward = match (self.reached, order) {
                (None, _) => true,
                (Some(reached), Order::Ascending) => at >= reached,
                (Some(reached), Order::Descending) => at <= reached,
            };
            self.broken |= !onward;
            self.reached = Some(at);
        }
    }

    /// A page without order was read, or pages are read again.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// The part of `window` that is complete and the part that is not; `None` when that cannot be said. Records that share
    /// the last update time may stand on the next page: the border lies before them, and on a multiple of `step`, as the far
    /// side may tell times no finer than that.
    pub(super) fn parts(&self, order: Order, window: Window, step: Duration) -> Option<(Option<Window>, Window)> {
        let reached = self.reached.filter(|_| !self.broken)?;
        let step = step.max(Duration::from_micros(1));
        let border = match order {
            Order::Ascending => reached.floor_to(step),
            Order::Descending => {
                let next = reached + Duration::from_micros(1);
                let floor = next.floor_to(step);
                if floor == next { floor } else { floor + step }
            }
        };
        let border = border.max(window.from).min(window.to);
        let (before, behind) = (Window::new(window.from, border), Window::new(border, window.to));
        match order {
            Order::Ascending => Some((before, behind?)),
            Order::Descending => Some((behind, before?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytestring::ByteString;

    use super::*;
    use crate::record::Version;

    fn record(at: i64) -> Record {
        Record {
            key: at.to_string(),
            version: Version { updated_at: Ts::from_micros(at), source_version: 0 },
            fields: String::new(),
            payload: ByteString::new(),
            content_hash: [0; 16],
        }
    }

    fn w(from: i64, to: i64) -> Window {
        Window { from: Ts::from_micros(from), to: Ts::from_micros(to) }
    }

    fn parts(order: Order, pages: &[&[i64]], step: u64) -> Option<(Option<Window>, Window)> {
        let mut track = Track::default();
        for page in pages {
            track.page(order, &page.iter().copied().map(record).collect::<Vec<_>>());
        }
        track.parts(order, w(0, 100), Duration::from_micros(step))
    }

    // covers: ING-4.4-24
    #[test]
    fn the_remaining_window_keeps_what_shares_the_last_time() {
        use Order::{Ascending, Descending};
        assert_eq!(parts(Ascending, &[&[1, 5], &[5, 30]], 1), Some((Some(w(0, 30)), w(30, 100))));
        assert_eq!(parts(Descending, &[&[90, 80], &[80, 70]], 1), Some((Some(w(71, 100)), w(0, 71))));
        assert_eq!(parts(Ascending, &[&[1, 37]], 10), Some((Some(w(0, 30)), w(30, 100))), "rounded down");
        assert_eq!(parts(Descending, &[&[90, 63]], 10), Some((Some(w(70, 100)), w(0, 70))), "rounded up");
    }

    #[test]
    fn without_order_or_records_nothing_is_known() {
        assert_eq!(parts(Order::Ascending, &[], 1), None);
        assert_eq!(parts(Order::Ascending, &[&[5, 4]], 1), None);
        assert_eq!(parts(Order::Descending, &[&[5], &[6]], 1), None);
        assert_eq!(parts(Order::Ascending, &[&[0]], 1), Some((None, w(0, 100))), "nothing is complete yet");
    }

    #[test]
    fn records_outside_the_window_do_not_carry_the_border_out_of_it() {
        assert_eq!(parts(Order::Ascending, &[&[-50]], 1), Some((None, w(0, 100))));
        assert_eq!(parts(Order::Ascending, &[&[150]], 1), None, "nothing remains: the reading goes on instead");
        assert_eq!(parts(Order::Descending, &[&[-5]], 1), None);
    }
}
