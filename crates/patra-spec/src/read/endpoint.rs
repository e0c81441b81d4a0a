//! The sections of an endpoint, one reader each.

use std::collections::BTreeMap;

use super::auth::auth;
use super::body::body;
use super::detail::{batching, two_phase, update};
use super::inputs::{expr, params, partitions, request_params};
use super::limits::{health, limits, rate_limit, raw, retry};
use super::reader::{Reader, Section};
use super::record::{fields, record};
use super::response::response;
use super::schedule::schedule;
use crate::manifest::{Endpoint, Http, Pagination, Window};
use crate::yaml::Node;

pub(super) fn endpoints(reader: &mut Reader, path: &str, node: &Node) -> Option<BTreeMap<String, Endpoint>> {
    let section = reader.section(path, node)?;
    let mut endpoints = BTreeMap::new();
    for entry in section.entries {
        let name = entry.key.trim().to_lowercase();
        let path = reader.enter(path, &name, entry);
        let read = endpoint(reader, &path, &entry.value);
        if endpoints.contains_key(&name) {
            let message = format!("the endpoint `{name}` is there twice; names are compared without case");
            reader.problems.push(reader.origin.at(entry.key_at, &path, message, None));
        }
        endpoints.insert(name, read.unwrap_or_default());
    }
    Some(endpoints)
}

/// The keys that say what this one endpoint is, and the settings that it may share with others.
fn endpoint(reader: &mut Reader, path: &str, node: &Node) -> Option<Endpoint> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let endpoint = Endpoint {
        role: reader.get(s, "role", Reader::word),
        kind: reader.get(s, "kind", Reader::word),
        description: reader.get(s, "description", Reader::text),
        polled: reader.get(s, "polled", Reader::flag),
        method: reader.get(s, "method", Reader::word),
        path: reader.get(s, "path", Reader::text),
        items_path: reader.get(s, "items_path", Reader::text),
        partitions: reader.get(s, "partitions", partitions).unwrap_or_default(),
        two_phase: reader.get(s, "two_phase", two_phase),
        update: reader.get(s, "update", update),
        schedule: reader.get(s, "schedule", schedule),
        ..shared(reader, s)
    };
    reader.close(&section);
    Some(endpoint)
}

/// The same settings for all endpoints of the provenance.
pub(super) fn defaults(reader: &mut Reader, path: &str, node: &Node) -> Option<Endpoint> {
    let mut section = reader.section(path, node)?;
    let defaults = shared(reader, &mut section);
    reader.close(&section);
    Some(defaults)
}

fn shared(reader: &mut Reader, s: &mut Section<'_>) -> Endpoint {
    Endpoint {
        http: reader.get(s, "http", http).unwrap_or_default(),
        auth: reader.get(s, "auth", auth),
        params: reader.get(s, "params", params).unwrap_or_default(),
        expr: reader.get(s, "expr", expr).unwrap_or_default(),
        query: reader.get(s, "query", request_params).unwrap_or_default(),
        body: reader.get(s, "body", body),
        pagination: reader.get(s, "pagination", pagination),
        window: reader.get(s, "window", window),
        batching: reader.get(s, "batching", batching).unwrap_or_default(),
        response: reader.get(s, "response", response).unwrap_or_default(),
        record: reader.get(s, "record", record).unwrap_or_default(),
        fields: reader.get(s, "fields", fields).unwrap_or_default(),
        retry: reader.get(s, "retry", retry).unwrap_or_default(),
        rate_limit: reader.get(s, "rate_limit", rate_limit).unwrap_or_default(),
        limits: reader.get(s, "limits", limits).unwrap_or_default(),
        health: reader.get(s, "health", health).unwrap_or_default(),
        raw: reader.get(s, "raw", raw).unwrap_or_default(),
        ..Endpoint::default()
    }
}

fn http(reader: &mut Reader, path: &str, node: &Node) -> Option<Http> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let http = Http {
        base_url: reader.get(s, "base_url", Reader::text),
        url_param: reader.get(s, "url_param", Reader::text),
        path: reader.get(s, "path", Reader::text),
        method: reader.get(s, "method", Reader::word),
        headers: reader.get(s, "headers", request_params).unwrap_or_default(),
        connect_timeout: reader.get(s, "connect_timeout", Reader::duration),
        read_timeout: reader.get(s, "read_timeout", Reader::duration),
        timeout: reader.get(s, "timeout", Reader::duration),
        max_body_bytes: reader.get(s, "max_body_bytes", Reader::whole),
        max_redirects: reader.get(s, "max_redirects", Reader::whole),
        compression: reader.get(s, "compression", Reader::flag),
        proxy: reader.get(s, "proxy", Reader::text),
    };
    reader.close(&section);
    Some(http)
}

fn pagination(reader: &mut Reader, path: &str, node: &Node) -> Option<Pagination> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let pagination = Pagination {
        r#type: reader.get(s, "type", Reader::word),
        page_size: reader.get(s, "page_size", Reader::whole),
        max_page_size: reader.get(s, "max_page_size", Reader::whole),
        max_page: reader.get(s, "max_page", Reader::whole),
        on_max_page: reader.get(s, "on_max_page", Reader::word),
        order_by: reader.get(s, "order_by", Reader::text),
        initial: reader.get(s, "initial", Reader::scalar),
        next_token_path: reader.get(s, "next_token_path", Reader::text),
        next_token_header: reader.get(s, "next_token_header", Reader::text),
        next_url_path: reader.get(s, "next_url_path", Reader::text),
        next_url_header: reader.get(s, "next_url_header", Reader::text),
        allow_hosts: reader.get(s, "allow_hosts", Reader::scalars).unwrap_or_default(),
        result_ceiling: reader.get(s, "result_ceiling", Reader::whole),
        page_range: reader.get(s, "page_range", Reader::whole),
        has_more_path: reader.get(s, "has_more_path", Reader::text),
        base: reader.get(s, "base", Reader::whole),
        always_token: reader.get(s, "always_token", Reader::flag),
        unique_tokens: reader.get(s, "unique_tokens", Reader::flag),
        repeat_ends: reader.get(s, "repeat_ends", Reader::flag),
        limit_param: reader.get(s, "limit_param", Reader::text),
        limit_max_param: reader.get(s, "limit_max_param", Reader::text),
        until_param: reader.get(s, "until_param", Reader::text),
        tail_probe: reader.get(s, "tail_probe", Reader::flag),
    };
    reader.close(&section);
    Some(pagination)
}

fn window(reader: &mut Reader, path: &str, node: &Node) -> Option<Window> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let window = Window {
        supports_updated_since: reader.get(s, "supports_updated_since", Reader::flag),
        watermark_key: reader.get(s, "watermark_key", Reader::text),
        safety_lag: reader.get(s, "safety_lag", Reader::duration),
        max_window: reader.get(s, "max_window", Reader::duration),
        min_window: reader.get(s, "min_window", Reader::duration),
        align: reader.get(s, "align", Reader::word),
        initial: reader.get(s, "initial", Reader::instant),
        lookback: reader.get(s, "lookback", Reader::duration),
        monotonic: reader.get(s, "monotonic", Reader::flag),
        out_of_range: reader.get(s, "out_of_range", Reader::word),
        as_of: reader.get(s, "as_of", Reader::flag),
    };
    reader.close(&section);
    Some(window)
}
