//! Readers for the sections of an endpoint.

use std::collections::BTreeMap;

use super::auth::auth;
use super::body::body;
use super::detail::{batching, two_phase, update};
use super::inputs::{expr, params, partitions, request_params};
use super::limits::{health, limits, rate_limit, raw, retry};
use super::reader::{ManifestReader, SectionReader};
use super::record::{fields, record};
use super::response::response;
use super::schedule::schedule;
use crate::manifest::{EndpointConfig, HttpConfig, PaginationConfig, WindowConfig};
use crate::yaml::YamlNode;

pub(super) fn endpoints(
    reader: &mut ManifestReader,
    path: &str,
    node: &YamlNode,
) -> Option<BTreeMap<String, EndpointConfig>> {
    let section = reader.section(path, node)?;
    let mut endpoints = BTreeMap::new();
    for entry in section.entries {
        let name = entry.key.trim().to_lowercase();
        let path = reader.enter(path, &name, entry);
        let read = endpoint(reader, &path, &entry.value);
        if endpoints.contains_key(&name) {
            let message = format!("the endpoint `{name}` is defined twice; names are compared without case");
            reader.problems.push(reader.origin.at(entry.key_at, &path, message, None));
        }
        endpoints.insert(name, read.unwrap_or_default());
    }
    Some(endpoints)
}

/// Reads the keys that define the endpoint, and its settings.
fn endpoint(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<EndpointConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let endpoint = EndpointConfig {
        role: reader.get(s, "role", ManifestReader::keyword),
        kind: reader.get(s, "kind", ManifestReader::keyword),
        description: reader.get(s, "description", ManifestReader::text),
        polled: reader.get(s, "polled", ManifestReader::flag),
        method: reader.get(s, "method", ManifestReader::keyword),
        path: reader.get(s, "path", ManifestReader::text),
        items_path: reader.get(s, "items_path", ManifestReader::text),
        partitions: reader.get(s, "partitions", partitions).unwrap_or_default(),
        two_phase: reader.get(s, "two_phase", two_phase),
        update: reader.get(s, "update", update),
        schedule: reader.get(s, "schedule", schedule),
        ..shared(reader, s)
    };
    reader.close(&section);
    Some(endpoint)
}

/// Reads the settings that all endpoints inherit.
pub(super) fn defaults(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<EndpointConfig> {
    let mut section = reader.section(path, node)?;
    let defaults = shared(reader, &mut section);
    reader.close(&section);
    Some(defaults)
}

fn shared(reader: &mut ManifestReader, s: &mut SectionReader<'_>) -> EndpointConfig {
    EndpointConfig {
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
        ..EndpointConfig::default()
    }
}

fn http(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<HttpConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let http = HttpConfig {
        base_url: reader.get(s, "base_url", ManifestReader::text),
        url_param: reader.get(s, "url_param", ManifestReader::text),
        path: reader.get(s, "path", ManifestReader::text),
        method: reader.get(s, "method", ManifestReader::keyword),
        headers: reader.get(s, "headers", request_params).unwrap_or_default(),
        connect_timeout: reader.get(s, "connect_timeout", ManifestReader::duration),
        read_timeout: reader.get(s, "read_timeout", ManifestReader::duration),
        timeout: reader.get(s, "timeout", ManifestReader::duration),
        max_body_bytes: reader.get(s, "max_body_bytes", ManifestReader::integer),
        max_redirects: reader.get(s, "max_redirects", ManifestReader::integer),
        compression: reader.get(s, "compression", ManifestReader::flag),
        proxy: reader.get(s, "proxy", ManifestReader::text),
        allow_net: reader.get(s, "allow_net", ManifestReader::scalars),
        robots: reader.get(s, "robots", ManifestReader::keyword),
    };
    reader.close(&section);
    Some(http)
}

fn pagination(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<PaginationConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let pagination = PaginationConfig {
        r#type: reader.get(s, "type", ManifestReader::keyword),
        page_size: reader.get(s, "page_size", ManifestReader::integer),
        max_page_size: reader.get(s, "max_page_size", ManifestReader::integer),
        max_page: reader.get(s, "max_page", ManifestReader::integer),
        on_max_page: reader.get(s, "on_max_page", ManifestReader::keyword),
        order_by: reader.get(s, "order_by", ManifestReader::text),
        initial: reader.get(s, "initial", ManifestReader::scalar),
        next_token_path: reader.get(s, "next_token_path", ManifestReader::text),
        next_token_header: reader.get(s, "next_token_header", ManifestReader::text),
        next_url_path: reader.get(s, "next_url_path", ManifestReader::text),
        next_url_header: reader.get(s, "next_url_header", ManifestReader::text),
        allow_hosts: reader.get(s, "allow_hosts", ManifestReader::scalars).unwrap_or_default(),
        result_ceiling: reader.get(s, "result_ceiling", ManifestReader::integer),
        page_range: reader.get(s, "page_range", ManifestReader::integer),
        has_more_path: reader.get(s, "has_more_path", ManifestReader::text),
        base: reader.get(s, "base", ManifestReader::integer),
        always_token: reader.get(s, "always_token", ManifestReader::flag),
        unique_tokens: reader.get(s, "unique_tokens", ManifestReader::flag),
        repeat_ends: reader.get(s, "repeat_ends", ManifestReader::flag),
        limit_param: reader.get(s, "limit_param", ManifestReader::text),
        limit_max_param: reader.get(s, "limit_max_param", ManifestReader::text),
        until_param: reader.get(s, "until_param", ManifestReader::text),
        tail_probe: reader.get(s, "tail_probe", ManifestReader::flag),
        verify: reader.get(s, "verify", ManifestReader::keyword),
        max_empty_pages: reader.get(s, "max_empty_pages", ManifestReader::integer),
        max_requests_without_new_records: reader.get(s, "max_requests_without_new_records", ManifestReader::integer),
    };
    reader.close(&section);
    Some(pagination)
}

fn window(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<WindowConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let window = WindowConfig {
        mode: reader.get(s, "mode", ManifestReader::keyword),
        missing: reader.get(s, "missing", ManifestReader::keyword),
        supports_updated_since: reader.get(s, "supports_updated_since", ManifestReader::flag),
        watermark_key: reader.get(s, "watermark_key", ManifestReader::text),
        safety_lag: reader.get(s, "safety_lag", ManifestReader::duration),
        max_window: reader.get(s, "max_window", ManifestReader::duration),
        min_window: reader.get(s, "min_window", ManifestReader::duration),
        align: reader.get(s, "align", ManifestReader::keyword),
        initial: reader.get(s, "initial", ManifestReader::instant),
        lookback: reader.get(s, "lookback", ManifestReader::duration),
        monotonic: reader.get(s, "monotonic", ManifestReader::flag),
        out_of_range: reader.get(s, "out_of_range", ManifestReader::keyword),
        as_of: reader.get(s, "as_of", ManifestReader::flag),
    };
    reader.close(&section);
    Some(window)
}
