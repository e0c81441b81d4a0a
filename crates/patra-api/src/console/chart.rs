//! Line charts as SVG: one line per series, with axes, a grid and labels.

use std::fmt::Write as _;

use patra_core::{Ts, Window};

use super::page::Drawing;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 24.0;
/// Grid lines above the axis.
const ROWS: u32 = 4;
/// Most labels below the axis.
const WORDS: i64 = 6;
/// Round numbers of minutes between two labels.
const ROUND_MINUTES: [i64; 10] = [1, 5, 10, 15, 30, 60, 180, 360, 1_440, 10_080];
/// CSS classes of the lines; the style sheet has a colour for each.
const CLASSES: [&str; 4] = ["one", "two", "three", "four"];

/// One line of a chart. Points are in order of time.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) word: &'static str,
    pub(super) points: Vec<(Ts, f64)>,
}

/// Draws at most four series on one scale.
pub(super) fn chart(title: &str, unit: &str, window: Window, series: &[Series]) -> Drawing {
    let most = series.iter().flat_map(|one| &one.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let frame = Frame { window, top: round_up(most) };
    let summary = series.iter().map(|one| summary(one, unit)).collect::<Vec<_>>().join("; ");
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#, escaped(&summary));
    frame.grid(&mut svg);
    for (one, class) in series.iter().zip(CLASSES) {
        frame.line(&mut svg, one, class, series.len() == 1);
    }
    svg.push_str("</svg>");
    let legend = series.iter().zip(CLASSES).map(|(one, class)| (one.word.to_owned(), class)).collect();
    Drawing { title: title.to_owned(), summary, svg, legend }
}

struct Frame {
    window: Window,
    /// Value of the topmost grid line.
    top: f64,
}

impl Frame {
    fn x(&self, at: Ts) -> f64 {
        let whole = self.window.to.since(self.window.from).as_secs_f64().max(1.0);
        LEFT + (WIDTH - LEFT - RIGHT) * (at.since(self.window.from).as_secs_f64() / whole).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / self.top).clamp(0.0, 1.0)
    }

    fn grid(&self, svg: &mut String) {
        let right = WIDTH - RIGHT;
        for row in 0..=ROWS {
            let value = self.top * f64::from(row) / f64::from(ROWS);
            let (y, class) = (self.y(value), if row == 0 { "axis" } else { "grid" });
            let _ = write!(svg, r#"<line class="{class}" x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/>"#);
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 6.0,
                y + 4.0,
                figure(value)
            );
        }
        let minutes = i64::try_from(self.window.to.since(self.window.from).as_secs() / 60).unwrap_or(i64::MAX);
        let step = ROUND_MINUTES.into_iter().find(|step| minutes / step < WORDS).unwrap_or(ROUND_MINUTES[9]);
        let span = std::time::Duration::from_secs(u64::try_from(step * 60).unwrap_or(60));
        let mut at = self.window.from.floor_to(span) + span;
        while at <= self.window.to {
            let x = self.x(at);
            // A label at the very edge would be cut off.
            if (LEFT + 8.0..right - 8.0).contains(&x) {
                let (low, word) = (HEIGHT - BOTTOM, moment(at, step));
                let _ = write!(svg, r#"<line class="axis" x1="{x:.1}" y1="{low}" x2="{x:.1}" y2="{:.1}"/>"#, low + 4.0);
                let _ = write!(svg, r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{word}</text>"#, HEIGHT - 6.0);
            }
            at = at + span;
        }
    }

    fn line(&self, svg: &mut String, series: &Series, class: &str, filled: bool) {
        let at = |(at, value): &(Ts, f64)| format!("{:.1},{:.1}", self.x(*at), self.y(*value));
        let points: Vec<_> = series.points.iter().map(at).collect();
        let (Some((first, _)), Some((last, _))) = (series.points.first(), series.points.last()) else { return };
        let line = points.join(" ");
        if filled {
            let (low, x1, x2) = (HEIGHT - BOTTOM, self.x(*first), self.x(*last));
            let _ = write!(svg, r#"<polygon class="area {class}" points="{x1:.1},{low} {line} {x2:.1},{low}"/>"#);
        }
        let _ = write!(svg, r#"<polyline class="line {class}" points="{line}"/>"#);
    }
}

fn summary(series: &Series, unit: &str) -> String {
    let most = series.points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let last = series.points.last().map_or(0.0, |(_, value)| *value);
    format!("{}: now {} {unit}, at most {}", series.word, figure(last), figure(most))
}

/// Rounds up to 1, 2, 4, 6, 8 or 10 times a power of ten, so that a quarter is a short number.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|top| *top >= value * 0.999).unwrap_or(10.0 * power)
}

/// A number in few characters: 950, 1.5k, 2M.
pub(super) fn figure(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = if scaled >= 100.0 || scaled.fract().abs() < 0.005 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{scaled:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Label of a moment: the time of day, or the date if a step is a day or longer.
fn moment(at: Ts, step: i64) -> String {
    let text = at.to_micros_text();
    let part = if step >= 1_440 { 5..10 } else { 11..16 };
    text.get(part).unwrap_or_default().to_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, expected) in
            [(0.0, "0"), (0.25, "0.25"), (7.0, "7"), (12.5, "12.5"), (950.0, "950"), (1_500.0, "1.5k"), (2e6, "2M")]
        {
            assert_eq!(figure(value), expected);
        }
    }

    #[test]
    fn scale_ends_above_the_largest_value() {
        for (value, expected) in [(0.0, 1.0), (0.7, 0.8), (1.0, 1.0), (3.1, 4.0), (99.0, 100.0), (401.0, 600.0)] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn chart_has_axes_labels_and_a_line_in_its_frame() {
        let from = Ts::from_secs(1_700_000_000);
        let hour = std::time::Duration::from_secs(3_600);
        let points = (0..60u32)
            .map(|minute| (from + std::time::Duration::from_secs(60 * u64::from(minute)), f64::from(minute)))
            .collect();
        let drawing =
            chart("Batches", "a minute", Window { from, to: from + hour }, &[Series { word: "batches", points }]);
        assert_eq!(drawing.summary, "batches: now 59 a minute, at most 59");
        assert_eq!(drawing.svg.matches("<text").count(), 5 + 4, "{}", drawing.svg);
        assert!(drawing.svg.contains(r#"<polyline class="line one" points="46.0,156.0"#), "{}", drawing.svg);
        assert!(!drawing.svg.contains("NaN") && !drawing.svg.contains("style"));
    }
}
