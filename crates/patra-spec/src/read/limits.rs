//! The sections `schedule`, `retry` and `rate_limit`.

use super::reader::Reader;
use crate::manifest::{HeaderAdaptive, RateLimit, Retry, Schedule};
use crate::yaml::{Data, Node};

pub(super) fn schedule(reader: &mut Reader, path: &str, node: &Node) -> Option<Schedule> {
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
        retryable_status: reader.get(s, "retryable_status", Reader::wholes),
        retryable_codes: reader.get(s, "retryable_codes", Reader::scalars),
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
        quota_daily: reader.get(s, "quota_daily", Reader::whole),
        quota_hourly: reader.get(s, "quota_hourly", Reader::whole),
        header_adaptive: reader.get(s, "header_adaptive", header_adaptive),
        warmup_sec: reader.get(s, "warmup_sec", Reader::whole),
        retry_after_respect: reader.get(s, "retry_after_respect", Reader::flag),
    };
    reader.close(&section);
    Some(rate_limit)
}

fn header_adaptive(reader: &mut Reader, path: &str, node: &Node) -> Option<HeaderAdaptive> {
    match &node.data {
        Data::Bool(yes) => Some(HeaderAdaptive::All(*yes)),
        Data::List(_) => reader.scalars(path, node).map(HeaderAdaptive::Named),
        _ => reader.wrong(path, node, "true, false or a list of header names"),
    }
}
