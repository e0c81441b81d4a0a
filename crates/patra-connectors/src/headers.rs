//! Paging facts in the headers of a response: the next URL or token, a total, whether there is more.

use patra_core::paging::PageFacts;
use patra_core::port::transport::HttpResponse;
use patra_spec::Snapshot;

use crate::decode::said;

#[derive(Debug)]
pub(crate) struct PagingHeaders {
    next_token: Option<String>,
    next_url: Option<String>,
    total: Option<String>,
    has_more: Option<String>,
}

impl PagingHeaders {
    pub(crate) fn new(spec: &Snapshot) -> PagingHeaders {
        let paging = spec.pagination.clone().unwrap_or_default();
        PagingHeaders {
            next_token: paging.next_token_header,
            next_url: paging.next_url_header,
            total: spec.response.total_header.clone(),
            has_more: spec.response.has_more_header.clone(),
        }
    }

    /// Names of the declared headers.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &str> + Clone {
        [&self.next_token, &self.next_url, &self.total, &self.has_more].into_iter().filter_map(|name| name.as_deref())
    }

    /// Adds the declared headers to the facts. A fact is declared for the body or for a header, so none is overwritten.
    pub(crate) fn read_into(&self, response: &HttpResponse, facts: &mut PageFacts) {
        let value = |name: &Option<String>| {
            let value = response.header(name.as_deref()?)?.trim();
            (!value.is_empty()).then_some(value)
        };
        if let Some(token) = value(&self.next_token) {
            facts.next_token = Some(token.to_owned());
        }
        if let Some(total) = value(&self.total).and_then(crate::decode::whole_number) {
            facts.total = Some(total);
        }
        if let Some(more) = value(&self.has_more).and_then(said) {
            facts.has_more = Some(more);
        }
        match self.next_url.as_deref() {
            None => {}
            Some("link") => {
                let links = response.headers.iter().filter(|(name, _)| name == "link");
                facts.next_url = links.filter_map(|(_, value)| next_link(value)).next().map(str::to_owned);
            }
            Some(_) => facts.next_url = value(&self.next_url).map(str::to_owned),
        }
    }
}

/// The target of the link with rel="next" (RFC 8288).
fn next_link(mut header: &str) -> Option<&str> {
    loop {
        let (_, rest) = header.split_once('<')?;
        let (target, rest) = rest.split_once('>')?;
        let end = parameters_end(rest);
        if parameters(&rest[..end]).any(|(name, value)| name.eq_ignore_ascii_case("rel") && names_next(value)) {
            return Some(target.trim()).filter(|target| !target.is_empty());
        }
        header = &rest[end..];
    }
}

fn names_next(rel: &str) -> bool {
    rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next"))
}

/// Start of the next link: a comma outside quotes.
fn parameters_end(rest: &str) -> usize {
    split_at(rest, ',')
}

fn parameters(mut rest: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = split_at(rest, ';');
        let (one, after) = rest.split_at(end);
        rest = after.strip_prefix(';').unwrap_or_default();
        let (name, value) = one.split_once('=').unwrap_or((one, ""));
        Some((name.trim(), value.trim().trim_matches('"')))
    })
}

/// The first of `wanted` outside quotes, or the end.
fn split_at(text: &str, wanted: char) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == wanted && !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<&str>) {
        assert_eq!(next_link(header), expected, "{header}");
    }

    // covers: ING-4.3-04
    #[test]
    fn the_next_link_is_found_as_rfc_8288_writes_it() {
        check(
            "<https://x.org/?page=2>; rel=\"next\", <https://x.org/?page=9>; rel=\"last\"",
            Some("https://x.org/?page=2"),
        );
        check("<https://x.org/?a=1,2;3>; rel=prev, </p?c=4>;rel=next", Some("/p?c=4"));
        check("</2>; title=\"a, <b>; rel=\\\"next\\\"\"; rel=\"start NEXT\"", Some("/2"));
        check("</2>; title=\"rel=next\"", None);
        check("</2>; rel=\"nextish\"", None);
        check("<https://x.org/?page=9>; rel=\"last\"", None);
        check("</2; rel=next", None);
        check("<>; rel=next", None);
        check("", None);
        check("\"<</2>>;;;rel=,,;\"", None);
    }
}
