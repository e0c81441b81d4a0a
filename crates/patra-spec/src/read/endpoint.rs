//! The sections of an endpoint, one reader each.

use std::collections::BTreeMap;

use super::body::body;
use super::reader::Reader;
use super::record::{fields, record};
use super::response::response;
use crate::manifest::{Endpoint, Http, Pagination, RateLimit, Retry, Schedule, Window};
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

fn endpoint(reader: &mut Reader, path: &str, node: &Node) -> Option<Endpoint> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let endpoint = Endpoint {
        role: reader.get(s, "role", Reader::word),
        http: reader.get(s, "http", http).unwrap_or_default(),
        query: reader.get(s, "query", Reader::texts).unwrap_or_default(),
        body: reader.get(s, "body", body),
        pagination: reader.get(s, "pagination", pagination),
        window: reader.get(s, "window", window),
        response: reader.get(s, "response", response).unwrap_or_default(),
        kind: reader.get(s, "kind", Reader::word),
        record: reader.get(s, "record", record).unwrap_or_default(),
        fields: reader.get(s, "fields", fields).unwrap_or_default(),
        schedule: reader.get(s, "schedule", schedule),
        retry: reader.get(s, "retry", retry).unwrap_or_default(),
        rate_limit: reader.get(s, "rate_limit", rate_limit).unwrap_or_default(),
    };
    reader.close(&section);
    Some(endpoint)
}

pub(super) fn http(reader: &mut Reader, path: &str, node: &Node) -> Option<Http> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let http = Http {
        base_url: reader.get(s, "base_url", Reader::text),
        path: reader.get(s, "path", Reader::text),
        method: reader.get(s, "method", Reader::word),
        headers: reader.get(s, "headers", Reader::texts).unwrap_or_default(),
        connect_timeout: reader.get(s, "connect_timeout", Reader::duration),
        read_timeout: reader.get(s, "read_timeout", Reader::duration),
        timeout: reader.get(s, "timeout", Reader::duration),
        max_body_bytes: reader.get(s, "max_body_bytes", Reader::whole),
        max_redirects: reader.get(s, "max_redirects", Reader::whole),
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
        max_page: reader.get(s, "max_page", Reader::whole),
        initial: reader.get(s, "initial", Reader::scalar),
        next_token_path: reader.get(s, "next_token_path", Reader::text),
        next_token_header: reader.get(s, "next_token_header", Reader::text),
        next_url_path: reader.get(s, "next_url_path", Reader::text),
        next_url_header: reader.get(s, "next_url_header", Reader::text),
        allow_hosts: reader.get(s, "allow_hosts", Reader::scalars).unwrap_or_default(),
        result_ceiling: reader.get(s, "result_ceiling", Reader::whole),
        has_more_path: reader.get(s, "has_more_path", Reader::text),
        base: reader.get(s, "base", Reader::whole),
        always_token: reader.get(s, "always_token", Reader::flag),
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
        align: reader.get(s, "align", Reader::align),
        initial: reader.get(s, "initial", Reader::instant),
        lookback: reader.get(s, "lookback", Reader::duration),
    };
    reader.close(&section);
    Some(window)
}

fn schedule(reader: &mut Reader, path: &str, node: &Node) -> Option<Schedule> {
    let mut section = reader.section(path, node)?;
    let schedule = Schedule { every: reader.get(&mut section, "every", Reader::duration) };
    reader.close(&section);
    Some(schedule)
}

pub(super) fn retry(reader: &mut Reader, path: &str, node: &Node) -> Option<Retry> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let retry = Retry {
        max_attempts: reader.get(s, "max_attempts", Reader::whole),
        min_delay: reader.get(s, "min_delay", Reader::duration),
        max_delay: reader.get(s, "max_delay", Reader::duration),
    };
    reader.close(&section);
    Some(retry)
}

pub(super) fn rate_limit(reader: &mut Reader, path: &str, node: &Node) -> Option<RateLimit> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let rate_limit = RateLimit {
        refill_rate_per_sec: reader.get(s, "refill_rate_per_sec", Reader::decimal),
        burst: reader.get(s, "burst", Reader::whole),
    };
    reader.close(&section);
    Some(rate_limit)
}
