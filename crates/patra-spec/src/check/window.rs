//! Checks `window`: widths, alignment, and whether the upstream filters by time (ING-4.3-10, ING-4.4-14, ING-4.4-15).

use super::ManifestChecker;
use crate::expr::Template;
use crate::keywords::PagingType;
use crate::manifest::EndpointConfig;
use crate::snapshot::DEFAULT_MAX_WINDOW;

impl ManifestChecker<'_> {
    pub(super) fn window(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let window = endpoint.window.clone().unwrap_or_default();
        let path = &format!("{endpoint_path}.window");
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
            (false, true) => {
                self.report(path, "a template sends the window, but `supports_updated_since` is not true");
            }
            (true, true) | (false, false) => {}
        }
    }
}

pub(super) fn filters_by_time(endpoint: &EndpointConfig) -> bool {
    endpoint.window.as_ref().and_then(|window| window.supports_updated_since).unwrap_or(false)
}
