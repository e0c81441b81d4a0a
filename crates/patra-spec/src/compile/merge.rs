//! The three layers laid over each other. Everything has been checked: what is required is there.

mod response;

use patra_core::state::Operation;

use crate::manifest::{Endpoint, Manifest};
use crate::snapshot::{
    DEFAULT_CONNECT_TIMEOUT_MS, DEFAULT_MAX_BODY_BYTES, DEFAULT_READ_TIMEOUT_MS, Http, Pagination, RateLimit, Retry,
    Snapshot, Window,
};
use response::{lower, mapping, response};

pub(super) fn snapshot(manifest: &Manifest, name: &str, endpoint: &Endpoint, operation: Operation) -> Snapshot {
    Snapshot {
        provenance_code: manifest.provenance.clone(),
        endpoint_code: name.to_owned(),
        operation,
        role: endpoint.role.unwrap_or_default(),
        http: http(manifest, endpoint),
        pagination: pagination(endpoint),
        window: window(endpoint),
        retry: retry(manifest, endpoint),
        rate_limit: rate_limit(manifest, endpoint),
        response: response(endpoint),
        mapping: mapping(endpoint),
        kind: endpoint.kind.unwrap_or_default(),
        spec_fingerprint: String::new(),
    }
}

fn http(manifest: &Manifest, endpoint: &Endpoint) -> Http {
    let (own, shared) = (&endpoint.http, &manifest.defaults.http);
    // Header names are compared without case: an endpoint's `accept` replaces the provenance's `Accept`.
    let kept = shared.headers.iter().filter(|(name, _)| !own.headers.keys().any(|own| own.eq_ignore_ascii_case(name)));
    let headers_template = kept.chain(&own.headers).map(|(name, text)| (name.clone(), text.clone())).collect();
    let body = endpoint.body.clone().unwrap_or_default();
    let millis = |own: Option<crate::Iso>, shared: Option<crate::Iso>| own.or(shared).map(crate::Iso::millis);
    Http {
        method: own.method.or(shared.method).unwrap_or_default(),
        base_url: own.base_url.clone().or_else(|| shared.base_url.clone()).unwrap_or_default(),
        path_template: own.path.clone().or_else(|| shared.path.clone()).unwrap_or_default(),
        headers_template,
        query_template: endpoint.query.clone(),
        body_template: body.raw,
        body_json: body.json,
        body_form: body.form,
        connect_timeout_ms: millis(own.connect_timeout, shared.connect_timeout).unwrap_or(DEFAULT_CONNECT_TIMEOUT_MS),
        read_timeout_ms: millis(own.read_timeout, shared.read_timeout).unwrap_or(DEFAULT_READ_TIMEOUT_MS),
        timeout_ms: millis(own.timeout, shared.timeout),
        max_body_bytes: own.max_body_bytes.or(shared.max_body_bytes).unwrap_or(DEFAULT_MAX_BODY_BYTES),
        max_redirects: own.max_redirects.or(shared.max_redirects).unwrap_or(0),
    }
}

fn pagination(endpoint: &Endpoint) -> Option<Pagination> {
    let paging = endpoint.pagination.clone()?;
    Some(Pagination {
        r#type: paging.r#type.unwrap_or_default(),
        page_size: paging.page_size,
        max_page: paging.max_page,
        initial: paging.initial,
        next_token_path: paging.next_token_path,
        next_token_header: lower(paging.next_token_header),
        next_url_path: paging.next_url_path,
        next_url_header: lower(paging.next_url_header),
        allow_hosts: paging.allow_hosts.iter().map(|host| host.to_lowercase()).collect(),
        result_ceiling: paging.result_ceiling,
        base1: paging.base.map(|base| base == 1),
        always_token: paging.always_token.unwrap_or(false),
    })
}

fn window(endpoint: &Endpoint) -> Window {
    let (window, platform) = (endpoint.window.clone().unwrap_or_default(), Window::default());
    Window {
        supports_updated_since: window.supports_updated_since.unwrap_or(false),
        watermark_key: window.watermark_key,
        safety_lag: window.safety_lag.unwrap_or(platform.safety_lag),
        max_window: window.max_window.unwrap_or(platform.max_window),
        min_window: window.min_window,
        align: window.align,
        initial: window.initial,
        lookback: window.lookback,
        ..platform
    }
}

fn retry(manifest: &Manifest, endpoint: &Endpoint) -> Retry {
    let (own, shared, platform) = (&endpoint.retry, &manifest.defaults.retry, Retry::default());
    let min = own.min_delay.or(shared.min_delay).map(crate::Iso::millis);
    let max = own.max_delay.or(shared.max_delay).map(crate::Iso::millis);
    // When only one bound is given, the platform's other one gives way.
    let min_delay_ms = min.unwrap_or(platform.min_delay_ms.min(max.unwrap_or(u64::MAX)));
    Retry {
        max_attempts: own.max_attempts.or(shared.max_attempts).unwrap_or(platform.max_attempts),
        min_delay_ms,
        max_delay_ms: max.unwrap_or(platform.max_delay_ms).max(min_delay_ms),
        ..platform
    }
}

fn rate_limit(manifest: &Manifest, endpoint: &Endpoint) -> RateLimit {
    let (own, shared, platform) = (&endpoint.rate_limit, &manifest.defaults.rate_limit, RateLimit::default());
    RateLimit {
        qps: own.refill_rate_per_sec.or(shared.refill_rate_per_sec).unwrap_or(platform.qps),
        burst: own.burst.or(shared.burst).unwrap_or(platform.burst),
    }
}
