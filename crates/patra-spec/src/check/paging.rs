//! Checks `pagination`: each type has the keys it needs and none of another type (ING-4.3-07 to -15).

use super::ManifestChecker;
use super::window::filters_by_time;
use crate::expr::Template;
use crate::keywords::PagingType::{self, Offset, Page, Time, Token, Url};
use crate::keywords::{OnMaxPage, VerifyMode};
use crate::manifest::{EndpointConfig, PaginationConfig};

pub(super) const MAX_PAGE_SIZE: u32 = 10_000;
const MAX_ORDER: usize = 64;

impl ManifestChecker<'_> {
    pub(super) fn paging(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let Some(paging) = &endpoint.pagination else { return };
        let path = &format!("{endpoint_path}.pagination");
        self.selector(&format!("{path}.next_token_path"), paging.next_token_path.as_deref());
        self.selector(&format!("{path}.next_url_path"), paging.next_url_path.as_deref());
        self.selector(&format!("{path}.has_more_path"), paging.has_more_path.as_deref());
        self.header_name(&format!("{path}.next_token_header"), paging.next_token_header.as_deref());
        self.header_name(&format!("{path}.next_url_header"), paging.next_url_header.as_deref());
        self.check_exclusive(
            path,
            "next_token_path",
            &paging.next_token_path,
            "next_token_header",
            &paging.next_token_header,
        );
        self.check_exclusive(path, "next_url_path", &paging.next_url_path, "next_url_header", &paging.next_url_header);
        if let (Some(here), Some(there)) = (&paging.has_more_path, &endpoint.response.has_more_path)
            && here != there
        {
            let message = format!("{here:?} here, but {there:?} in response.has_more_path: set it once");
            self.report(&format!("{path}.has_more_path"), message);
        }
        self.sizes(path, endpoint, paging);
        self.ceiling(path, endpoint, paging);
        self.page_range(path, endpoint, paging);
        self.run_limit_params(path, endpoint, paging);
        self.hosts(path, paging);
        let Some(kind) = paging.r#type else {
            let hint = "one of token, offset, page, url, time";
            return self.report_with(&format!("{path}.type"), "`type` is missing", hint);
        };
        self.verification(path, kind, endpoint, paging);
        self.required_keys(path, kind, paging);
        self.keys_fit_paging_type(path, kind, paging);
    }

    fn sizes(&mut self, path: &str, endpoint: &EndpointConfig, paging: &PaginationConfig) {
        for (key, size) in [("page_size", paging.page_size), ("max_page_size", paging.max_page_size)] {
            if size.is_some_and(|size| size == 0 || size > MAX_PAGE_SIZE) {
                self.report(&format!("{path}.{key}"), format!("expected 1 to {MAX_PAGE_SIZE} items"));
            }
        }
        if let (Some(size), Some(most)) = (paging.page_size, paging.max_page_size)
            && size > most
        {
            let message = format!("page_size {size} is more than the {most} that the upstream returns");
            self.report_with(&format!("{path}.page_size"), message, "lower it: a short page would look like the end");
        }
        if paging.max_page == Some(0) {
            self.report_with(&format!("{path}.max_page"), "expected at least 1", "remove it for no limit");
        }
        if paging.on_max_page.is_some() && paging.max_page.is_none() {
            self.report(&format!("{path}.on_max_page"), "`on_max_page` has no meaning without `max_page`");
        }
        if paging.on_max_page == Some(OnMaxPage::Split) && !filters_by_time(endpoint) {
            let message = "a window can only be split if `supports_updated_since` is true";
            self.report_with(&format!("{path}.on_max_page"), message, "use on_max_page: partial");
        }
        let order = paging.order_by.as_deref();
        if order
            .is_some_and(|text| text.trim().is_empty() || text.len() > MAX_ORDER || text.chars().any(char::is_control))
        {
            let hint = "updated desc, updated asc, or another order of the upstream";
            self.report_with(&format!("{path}.order_by"), format!("expected a text of up to {MAX_ORDER} bytes"), hint);
        }
    }

    /// Checks of completeness need what they compare (G-23).
    fn verification(&mut self, path: &str, kind: PagingType, endpoint: &EndpointConfig, paging: &PaginationConfig) {
        let key = format!("{path}.verify");
        match paging.verify {
            Some(VerifyMode::Seams) if kind != Offset => {
                let message = "`seams` needs offset paging: only an offset can overlap the page before by one record";
                self.report_with(&key, message, "use verify: auto, total or twice");
            }
            Some(VerifyMode::Seams) if paging.page_size == Some(1) => {
                self.report(&key, "`seams` needs pages of at least two records");
            }
            Some(VerifyMode::Total) => self.needs_total(&key, endpoint, "`total` needs a total to compare with"),
            _ => {}
        }
        for (key, limit) in [
            ("max_empty_pages", paging.max_empty_pages),
            ("max_requests_without_new_records", paging.max_requests_without_new_records),
        ] {
            if limit == Some(0) {
                self.report(&format!("{path}.{key}"), "expected at least 1");
            }
        }
    }

    /// `result_ceiling` needs a total to compare with, otherwise results would be cut silently (ING-15-02).
    fn ceiling(&mut self, path: &str, endpoint: &EndpointConfig, paging: &PaginationConfig) {
        let Some(ceiling) = paging.result_ceiling else { return };
        let path = format!("{path}.result_ceiling");
        if ceiling == 0 {
            self.report(&path, "expected at least 1");
        }
        self.needs_total(&path, endpoint, "`result_ceiling` needs a total to compare with");
    }

    /// Pages can be split into ranges only if they are numbered and the first one reports a total (ING-8.2-02).
    fn page_range(&mut self, path: &str, endpoint: &EndpointConfig, paging: &PaginationConfig) {
        let Some(pages) = paging.page_range else { return };
        let path = format!("{path}.page_range");
        if pages < 2 {
            self.report_with(&path, "expected at least 2 pages", "remove it to read a window as one slice");
        }
        self.needs_total(&path, endpoint, "`page_range` needs a total to compute the number of pages");
    }

    /// Run limits are for polled endpoints only: a slice that ends before its window does would leave a gap.
    fn run_limit_params(&mut self, path: &str, endpoint: &EndpointConfig, paging: &PaginationConfig) {
        for (key, param) in [
            ("limit_param", &paging.limit_param),
            ("limit_max_param", &paging.limit_max_param),
            ("until_param", &paging.until_param),
        ] {
            let Some(param) = param else { continue };
            let path = format!("{path}.{key}");
            if !endpoint.params.contains_key(param) {
                let message = format!("there is no param {}", crate::problem::quote(param));
                self.report_with(&path, message, format!("declare it: params: {{ {param}: {{}} }}"));
            }
            if endpoint.polled != Some(true) || endpoint.two_phase.is_some() {
                let message = format!("`{key}` is for polled endpoints that return whole records");
                self.report_with(&path, message, "set `polled: true`, or remove it");
            }
        }
        if paging.limit_max_param.is_some() && paging.limit_param.is_none() {
            self.report(&format!("{path}.limit_max_param"), "`limit_max_param` has no meaning without `limit_param`");
        }
    }

    fn needs_total(&mut self, path: &str, endpoint: &EndpointConfig, message: &str) {
        if endpoint.response.total_path.is_none() && endpoint.response.total_header.is_none() {
            self.report_with(path, message, "add response.total_path or response.total_header");
        }
    }

    fn hosts(&mut self, path: &str, paging: &PaginationConfig) {
        for (at, host) in paging.allow_hosts.iter().enumerate() {
            if host == "*" {
                continue;
            }
            let read = url::Url::parse(&format!("https://{host}/"));
            let bare = read.is_ok_and(|url| url.path() == "/" && url.username().is_empty() && url.query().is_none());
            if host.is_empty() || !bare || host.contains(['/', '@', '?', '#', '\\']) {
                let message = format!("{} is not a valid host", crate::problem::quote(host));
                self.report_with(&format!("{path}.allow_hosts[{at}]"), message, "for example cdn.example.org");
            }
        }
    }

    fn required_keys(&mut self, path: &str, kind: PagingType, paging: &PaginationConfig) {
        let needed = match kind {
            Token => {
                let there = paging.next_token_path.is_some() || paging.next_token_header.is_some();
                vec![("next_token_path", there, "next_token_path: $.next")]
            }
            Url => {
                let there = paging.next_url_path.is_some() || paging.next_url_header.is_some();
                vec![("next_url_path", there, "next_url_path: $.links.next")]
            }
            Offset => vec![("page_size", paging.page_size.is_some(), "page_size: 100")],
            Page => vec![
                ("page_size", paging.page_size.is_some(), "page_size: 100"),
                ("base", paging.base.is_some(), "base: 1 when the first page is number 1, base: 0 when it is 0"),
            ],
            Time => vec![],
        };
        for (key, there, example) in needed {
            if !there {
                let message = format!("{} paging needs `{key}`", kind.as_str().to_lowercase());
                self.report_with(&format!("{path}.{key}"), message, format!("for example {example}"));
            }
        }
        if paging.base.is_some_and(|base| base > 1) {
            self.report(&format!("{path}.base"), "expected 0 or 1");
        }
    }

    /// Keys of another paging type are a contradiction (ING-4.3-15).
    fn keys_fit_paging_type(&mut self, path: &str, kind: PagingType, paging: &PaginationConfig) {
        for (key, there, fits) in [
            ("next_token_path", paging.next_token_path.is_some(), kind == Token),
            ("next_token_header", paging.next_token_header.is_some(), kind == Token),
            ("initial", paging.initial.is_some(), kind == Token),
            ("always_token", paging.always_token.is_some(), kind == Token),
            ("unique_tokens", paging.unique_tokens.is_some(), matches!(kind, Token | Url)),
            ("repeat_ends", paging.repeat_ends.is_some(), kind != Time),
            ("tail_probe", paging.tail_probe.is_some(), kind != Time),
            ("verify", paging.verify.is_some(), kind != Time),
            ("max_empty_pages", paging.max_empty_pages.is_some(), matches!(kind, Token | Url)),
            ("max_requests_without_new_records", paging.max_requests_without_new_records.is_some(), kind != Time),
            ("next_url_path", paging.next_url_path.is_some(), kind == Url),
            ("next_url_header", paging.next_url_header.is_some(), kind == Url),
            ("allow_hosts", !paging.allow_hosts.is_empty(), kind == Url),
            ("base", paging.base.is_some(), kind == Page),
            ("page_range", paging.page_range.is_some(), matches!(kind, Page | Offset)),
        ] {
            if there && !fits {
                let message = format!("`{key}` has no meaning with {} paging", kind.as_str().to_lowercase());
                self.report_with(&format!("{path}.{key}"), message, "remove it, or change `type`");
            }
        }
    }

    /// A request must send its position, otherwise every page would be the first.
    pub(super) fn sends_position(&mut self, path: &str, endpoint: &EndpointConfig, templates: &[Template]) {
        let (variable, example) = match endpoint.pagination.as_ref().and_then(|paging| paging.r#type) {
            Some(Token) => ("page.token", "cursor: \"${ page.token }\""),
            Some(Offset) => ("page.offset", "offset: \"${ page.offset }\""),
            Some(Page) => ("page.no", "page: \"${ page.no }\""),
            Some(Url | Time) | None => return,
        };
        if !templates.iter().any(|template| template.uses(variable)) {
            let message = format!("no template sends `{variable}`, so every request would read the same page");
            self.report_with(&format!("{path}.query"), message, format!("add a parameter such as {example}"));
        }
    }
}
