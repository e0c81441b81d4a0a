//! Checks `window`: widths, alignment, and whether the upstream filters by time (ING-4.3-10, ING-4.4-14, ING-4.4-15).

use super::ManifestChecker;
use crate::expr::Template;
use crate::keywords::{MissingRecords, PagingType, VerifyMode, WindowMode};
use crate::manifest::{EndpointConfig, WindowConfig};
use crate::snapshot::DEFAULT_MAX_WINDOW;

impl ManifestChecker<'_> {
    pub(super) fn window(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let window = endpoint.window.clone().unwrap_or_default();
        let path = &format!("{endpoint_path}.window");
        if reads_whole_list(endpoint) {
            return self.whole_list(endpoint_path, endpoint, &window);
        }
        if window.missing.is_some() {
            let message = "`missing` needs `mode: snapshot`: only a pass over the whole list shows what is missing";
            self.report(&format!("{path}.missing"), message);
        }
        let pages_by_time = endpoint.pagination.as_ref().and_then(|paging| paging.r#type) == Some(PagingType::Time);
        if pages_by_time && !filters_by_time(endpoint) {
            let message = "time paging needs `supports_updated_since: true`: only the window selects records";
            self.report(&format!("{path}.supports_updated_since"), message);
        }
        if window.watermark_key.as_deref().is_some_and(|key| key.trim().is_empty()) {
            self.report(&format!("{path}.watermark_key"), "the name is empty");
        }
        let max = window.max_window.unwrap_or(DEFAULT_MAX_WINDOW);
        if max.0.is_zero() {
            return self.report(&format!("{path}.max_window"), "a window needs a width");
        }
        if let Some(min) = window.min_window
            && min > max
        {
            self.report(&format!("{path}.min_window"), format!("min_window {min} is wider than max_window {max}"));
        }
        if let Some(align) = window.align
            && max.0 < align.unit()
        {
            let message = format!("windows of {max} cannot be aligned to a wider unit");
            self.report_with(&format!("{path}.align"), message, "choose a smaller unit, or a wider max_window");
        } else if let Some(align) = window.align
            && !max.0.as_micros().is_multiple_of(align.unit().as_micros())
        {
            let message = format!("windows of {max} are not a multiple of the unit");
            self.report_with(&format!("{path}.align"), message, "choose a max_window of whole units");
        }
    }

    /// A list that is read as a whole has no windows of time, and is never divided.
    fn whole_list(&mut self, endpoint_path: &str, endpoint: &EndpointConfig, window: &WindowConfig) {
        let path = &format!("{endpoint_path}.window");
        for (key, there) in [
            ("supports_updated_since", window.supports_updated_since.is_some()),
            ("watermark_key", window.watermark_key.is_some()),
            ("safety_lag", window.safety_lag.is_some()),
            ("max_window", window.max_window.is_some()),
            ("min_window", window.min_window.is_some()),
            ("align", window.align.is_some()),
            ("initial", window.initial.is_some()),
            ("lookback", window.lookback.is_some()),
            ("monotonic", window.monotonic.is_some()),
            ("out_of_range", window.out_of_range.is_some()),
            ("as_of", window.as_of.is_some()),
        ] {
            if there {
                let message = format!("`{key}` has no meaning with `mode: snapshot`: every pass reads the whole list");
                self.report_with(&format!("{path}.{key}"), message, "remove it, or use mode: time");
            }
        }
        if endpoint.polled == Some(true) {
            self.report(
                &format!("{path}.mode"),
                "a polled endpoint reads its whole list already and needs no `window`",
            );
        }
        let paging = endpoint.pagination.clone().unwrap_or_default();
        if paging.r#type == Some(PagingType::Time) {
            let message = "`time` paging has no meaning with `mode: snapshot`: there is no window to select records";
            let hint = "without `pagination` one response holds the whole list";
            self.report_with(&format!("{endpoint_path}.pagination.type"), message, hint);
        }
        if paging.page_range.is_some() {
            let message = "`page_range` has no meaning with `mode: snapshot`: one slice reads the whole list";
            self.report_with(&format!("{endpoint_path}.pagination.page_range"), message, "remove it");
        }
        if window.missing == Some(MissingRecords::Mark) {
            self.can_mark(endpoint_path, endpoint);
        }
    }

    /// Records are only marked after a pass that shows that it is complete.
    fn can_mark(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let path = &format!("{endpoint_path}.window.missing");
        if endpoint.two_phase.is_some() {
            let message = "`mark` cannot be used with `two_phase`: the list has ids, and records arrive later";
            self.report_with(path, message, "use missing: keep");
        }
        let Some(paging) = &endpoint.pagination else { return };
        let verify = paging.verify.unwrap_or_default();
        let placeless = matches!(paging.r#type, Some(PagingType::Page | PagingType::Url));
        if verify == VerifyMode::None || placeless && verify != VerifyMode::Twice {
            let message = "`mark` needs passes that can show that they are complete: with these pages a record that \
                           moved past the reader would be marked";
            self.report_with(path, message, "set pagination.verify: twice");
        }
        if paging.repeat_ends == Some(true) {
            let message = "`mark` cannot be used with `repeat_ends`: the list may go on after a repeated page";
            self.report_with(path, message, "use missing: keep");
        }
    }

    /// `supports_updated_since` and the request templates must agree: without a window parameter every slice would read
    /// everything.
    pub(super) fn sends_window(&mut self, path: &str, endpoint: &EndpointConfig, templates: &[Template]) {
        let path = &format!("{path}.window.supports_updated_since");
        match (filters_by_time(endpoint), templates.iter().any(|template| template.uses("window"))) {
            (true, false) => {
                let hint = "add a parameter such as from: \"${ window.from | iso }\"";
                let message = "`supports_updated_since` is true, but no template sends `window.from` or `window.to`";
                self.report_with(path, message, hint);
            }
            (false, true) if reads_whole_list(endpoint) => {
                let path = path.replace("supports_updated_since", "mode");
                self.report(
                    &path,
                    "a template sends the window, but with `mode: snapshot` every pass reads the whole list",
                );
            }
            (false, true) => {
                self.report(path, "a template sends the window, but `supports_updated_since` is not true");
            }
            (true, true) | (false, false) => {}
        }
    }
}

pub(super) fn reads_whole_list(endpoint: &EndpointConfig) -> bool {
    endpoint.window.as_ref().and_then(|window| window.mode) == Some(WindowMode::Snapshot)
}

pub(super) fn filters_by_time(endpoint: &EndpointConfig) -> bool {
    endpoint.window.as_ref().and_then(|window| window.supports_updated_since).unwrap_or(false)
}
