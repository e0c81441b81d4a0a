//! What a scraper reads, in Prometheus' text form: the alerts and what they are judged by. Read from the store when asked, so that
//! every process says the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};

use patra_core::state::CookieStatus;
use patra_core::tx::TxError;

use crate::Api;
use crate::envelope::Failure;
use crate::request_id::RequestId;

const FORM: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(State(api): State<Api>, Extension(id): Extension<RequestId>) -> Response {
    match text(&api).await {
        Ok(text) => ([("content-type", FORM)], text).into_response(),
        Err(error) => Failure::from(error).answer(&id),
    }
}

async fn text(api: &Api) -> Result<String, TxError> {
    let mut page = Page::default();
    page.family("patra_alert_firing", "Whether an alert is firing.");
    for view in api.store.alerts().await? {
        let labels = [("alert", view.alert.as_str()), ("subject", &view.subject), ("level", view.level.as_str())];
        page.sample("patra_alert_firing", &labels, f64::from(u8::from(view.state.firing)));
    }
    page.family("patra_cookies", "Cookies by platform and status.");
    let (cookies, now) = api.store.cookies(None).await?;
    let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for cookie in &cookies {
        for status in CookieStatus::ALL {
            counts.entry((&cookie.platform, status.as_str())).or_default();
        }
        *counts.entry((&cookie.platform, cookie.wear.rested(now).status.as_str())).or_default() += 1;
    }
    for ((platform, status), count) in counts {
        page.sample("patra_cookies", &[("platform", platform), ("status", status)], f64::from(count));
    }
    page.family("patra_crawl_requests_recent", "Crawl requests of the last ten minutes.");
    for crawled in api.store.crawled().await? {
        for (outcome, count) in [("succeeded", crawled.succeeded), ("failed", crawled.failed)] {
            let labels = [("platform", crawled.platform.as_str()), ("outcome", outcome)];
            page.sample("patra_crawl_requests_recent", &labels, count as f64);
        }
    }
    page.family("patra_crawl_candidates_pending", "Notes that wait to be fetched.");
    page.sample("patra_crawl_candidates_pending", &[], api.store.backlog().await? as f64);
    Ok(page.text)
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.family("a", "What it is.");
        page.sample("a", &[("x", "q\"b\\n\n")], 1.0);
        page.sample("a", &[], 0.5);
        assert_eq!(page.text, "# HELP a What it is.\n# TYPE a gauge\na{x=\"q\\\"b\\\\n\\n\"} 1\na 0.5\n");
    }
}
