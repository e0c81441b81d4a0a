//! Paging: each type has what it needs and nothing of another type (ING-4.3-07 to -15).

use super::Check;
use crate::expr::Template;
use crate::manifest::{Endpoint, Pagination};
use crate::words::PagingType::{self, Offset, Page, Time, Token, Url};

const MAX_PAGE_SIZE: u32 = 10_000;

impl Check<'_> {
    pub(super) fn paging(&mut self, endpoint_path: &str, endpoint: &Endpoint) {
        let Some(paging) = &endpoint.pagination else { return };
        let path = &format!("{endpoint_path}.pagination");
        self.selector(&format!("{path}.next_token_path"), paging.next_token_path.as_deref());
        self.selector(&format!("{path}.next_url_path"), paging.next_url_path.as_deref());
        self.selector(&format!("{path}.has_more_path"), paging.has_more_path.as_deref());
        if let (Some(here), Some(there)) = (&paging.has_more_path, &endpoint.response.has_more_path)
            && here != there
        {
            let message = format!("{here:?} here, but {there:?} in response.has_more_path: say it once");
            self.report(&format!("{path}.has_more_path"), message);
        }
        if paging.page_size.is_some_and(|size| size == 0 || size > MAX_PAGE_SIZE) {
            self.report(&format!("{path}.page_size"), format!("expected 1 to {MAX_PAGE_SIZE} items"));
        }
        if paging.max_page == Some(0) {
            self.report_with(&format!("{path}.max_page"), "expected at least 1", "remove it for no limit");
        }
        let Some(kind) = paging.r#type else {
            let hint = "one of token, offset, page, url, time";
            return self.report_with(&format!("{path}.type"), "`type` is missing", hint);
        };
        self.needs(path, kind, paging);
        self.excludes(path, kind, paging);
    }

    fn needs(&mut self, path: &str, kind: PagingType, paging: &Pagination) {
        let needed = match kind {
            Token => vec![("next_token_path", paging.next_token_path.is_some(), "next_token_path: $.next")],
            Url => vec![("next_url_path", paging.next_url_path.is_some(), "next_url_path: $.links.next")],
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

    /// Declaring two ways at once is a contradiction, not a choice (ING-4.3-15).
    fn excludes(&mut self, path: &str, kind: PagingType, paging: &Pagination) {
        for (key, there, fits) in [
            ("next_token_path", paging.next_token_path.is_some(), kind == Token),
            ("initial", paging.initial.is_some(), kind == Token),
            ("always_token", paging.always_token.is_some(), kind == Token),
            ("next_url_path", paging.next_url_path.is_some(), kind == Url),
            ("base", paging.base.is_some(), kind == Page),
        ] {
            if there && !fits {
                let message = format!("`{key}` has no meaning with {} paging", kind.as_str().to_lowercase());
                self.report_with(&format!("{path}.{key}"), message, "remove it, or change `type`");
            }
        }
    }

    /// Without its position in the request, every page would be the first.
    pub(super) fn sends_position(&mut self, path: &str, endpoint: &Endpoint, templates: &[Template]) {
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
