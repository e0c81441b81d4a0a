//! Converts a merged endpoint into a snapshot and fills in the platform defaults. `layers::platform` lists the same
//! defaults for `explain`; a test keeps the two in step. The endpoint has been checked: required values are present.

mod auth;
mod detail;
mod inputs;
mod limits;
mod response;

use patra_core::state::Operation;

use crate::iso_duration::IsoDuration;
use crate::keywords::{OnMaxPage, OutOfRange, ResponseFormat, RobotsRule, WindowMode};
use crate::manifest::{EndpointConfig, Manifest};
use crate::network;
use crate::snapshot::{
    ASCENDING, DEFAULT_CONNECT_TIMEOUT_MS, DEFAULT_MAX_BODY_BYTES, DEFAULT_ORDER_BY, DEFAULT_READ_TIMEOUT_MS, HttpSpec,
    PaginationSpec, Snapshot, WindowSpec,
};
use auth::auth;
use detail::{batching, two_phase, update};
use inputs::{expr, params, partitions, templates};
use limits::{health, limits, rate_limit, retry};
use response::{lower, mapping, response};

pub(super) fn snapshot(manifest: &Manifest, name: &str, endpoint: &EndpointConfig, operation: Operation) -> Snapshot {
    Snapshot {
        provenance_code: manifest.provenance.clone(),
        endpoint_code: name.to_owned(),
        operation,
        role: endpoint.role.unwrap_or_default(),
        http: http(endpoint),
        auth: auth(manifest, endpoint),
        params: params(endpoint),
        partitions: partitions(endpoint),
        expr: expr(endpoint),
        pagination: pagination(endpoint),
        window: window(endpoint),
        retry: retry(endpoint),
        rate_limit: rate_limit(endpoint),
        limits: limits(endpoint),
        health: health(endpoint),
        raw_keep: endpoint.raw.keep,
        batching: batching(manifest, endpoint, operation),
        two_phase: two_phase(manifest, endpoint, operation),
        update: update(manifest, endpoint, operation),
        response: response(endpoint),
        mapping: mapping(endpoint),
        kind: endpoint.kind.unwrap_or_default(),
        polled: endpoint.polled.unwrap_or(false),
        dedup_scope: endpoint.record.dedup_scope.unwrap_or_default(),
        emit: endpoint.record.emit.unwrap_or_default(),
        spec_fingerprint: String::new(),
    }
}

/// Feeds and APIs are made for programs; robots.txt is about pages.
fn default_robots(endpoint: &EndpointConfig) -> RobotsRule {
    match endpoint.response.format.unwrap_or_default() {
        ResponseFormat::Page | ResponseFormat::Html => RobotsRule::Respect,
        _ => RobotsRule::Ignore,
    }
}

fn http(endpoint: &EndpointConfig) -> HttpSpec {
    let http = endpoint.http.clone();
    let body = endpoint.body.clone().unwrap_or_default();
    HttpSpec {
        method: http.method.unwrap_or_default(),
        base_url: http.base_url.unwrap_or_default(),
        url_param: http.url_param,
        path_template: http.path.unwrap_or_default(),
        headers_template: templates(http.headers),
        query_template: templates(endpoint.query.clone()),
        body_template: body.raw,
        body_json: body.json,
        body_form: body.form.map(templates),
        connect_timeout_ms: http.connect_timeout.map_or(DEFAULT_CONNECT_TIMEOUT_MS, IsoDuration::millis),
        read_timeout_ms: http.read_timeout.map_or(DEFAULT_READ_TIMEOUT_MS, IsoDuration::millis),
        timeout_ms: http.timeout.map(IsoDuration::millis),
        max_body_bytes: http.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
        max_redirects: http.max_redirects.unwrap_or(0),
        compression: http.compression.unwrap_or(true),
        proxy: http.proxy,
        // The checks have refused what is no network.
        allow_net: http.allow_net.iter().flatten().filter_map(|text| network::parse(text).ok()).collect(),
        robots: http.robots.unwrap_or_else(|| default_robots(endpoint)),
    }
}

fn pagination(endpoint: &EndpointConfig) -> Option<PaginationSpec> {
    let (paging, platform) = (endpoint.pagination.clone()?, PaginationSpec::default());
    // The rest of a window can only be split if the upstream filters by time (ING-4.3-16).
    let filters = endpoint.window.as_ref().and_then(|window| window.supports_updated_since) == Some(true);
    let on_max_page = if filters { OnMaxPage::Split } else { OnMaxPage::Partial };
    Some(PaginationSpec {
        r#type: paging.r#type.unwrap_or_default(),
        page_size: paging.page_size,
        max_page_size: paging.max_page_size,
        max_page: paging.max_page,
        on_max_page: paging.on_max_page.unwrap_or(on_max_page),
        order_declared: paging.order_by.is_some(),
        order_by: paging.order_by.map_or(platform.order_by, ordered),
        initial: paging.initial,
        next_token_path: paging.next_token_path,
        next_token_header: lower(paging.next_token_header),
        next_url_path: paging.next_url_path,
        next_url_header: lower(paging.next_url_header),
        allow_hosts: paging.allow_hosts.iter().map(|host| host.to_lowercase()).collect(),
        result_ceiling: paging.result_ceiling,
        page_range: paging.page_range,
        base1: paging.base.map(|base| base == 1),
        always_token: paging.always_token.unwrap_or(false),
        unique_tokens: paging.unique_tokens.unwrap_or(false),
        repeat_ends: paging.repeat_ends.unwrap_or(false),
        limit_param: paging.limit_param,
        limit_max_param: paging.limit_max_param,
        until_param: paging.until_param,
        tail_probe: paging.tail_probe.unwrap_or(false),
        verify: paging.verify.unwrap_or_default(),
        max_empty_pages: paging.max_empty_pages,
        max_requests_without_new_records: paging.max_requests_without_new_records,
    })
}

/// Normalises the spelling of the two known orders.
fn ordered(order: String) -> String {
    let words = order.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    if [DEFAULT_ORDER_BY, ASCENDING].contains(&words.as_str()) { words } else { order }
}

fn window(endpoint: &EndpointConfig) -> WindowSpec {
    let (window, platform) = (endpoint.window.clone().unwrap_or_default(), WindowSpec::default());
    let mode = window.mode.unwrap_or_default();
    // If the upstream does not filter by time, records outside the window are skipped here.
    let filters = window.supports_updated_since == Some(true);
    let whole = mode == WindowMode::Snapshot;
    let out_of_range =
        if filters || whole || endpoint.polled == Some(true) { OutOfRange::Keep } else { OutOfRange::Skip };
    WindowSpec {
        mode,
        missing: window.missing.unwrap_or_default(),
        supports_updated_since: window.supports_updated_since.unwrap_or(false),
        watermark_key: window.watermark_key,
        safety_lag: if whole { IsoDuration::secs(0) } else { window.safety_lag.unwrap_or(platform.safety_lag) },
        max_window: window.max_window.unwrap_or(platform.max_window),
        min_window: window.min_window,
        align: window.align,
        initial: window.initial,
        lookback: window.lookback,
        monotonic: window.monotonic.unwrap_or(false),
        out_of_range: Some(window.out_of_range.unwrap_or(out_of_range)),
        as_of: window.as_of.unwrap_or(false),
        ..platform
    }
}
