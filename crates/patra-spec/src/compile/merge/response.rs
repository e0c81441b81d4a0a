//! How an answer is read and what becomes of its items. No layer but the endpoint speaks of these.

use patra_core::{Code, Level};

use super::inputs::request_params;
use crate::manifest::{self, Endpoint};
use crate::snapshot::{Condition, ErrorRule, Mapping, OutputField, Response};
use crate::words::{Format, OnError};

pub(super) fn response(endpoint: &Endpoint) -> Response {
    let response = endpoint.response.clone();
    let paging_has_more = endpoint.pagination.as_ref().and_then(|paging| paging.has_more_path.clone());
    let format = response.format.unwrap_or_default();
    // The rows of a table are all there is, and tweets are found without being told where.
    let whole = || if matches!(format, Format::Csv | Format::Tweets) { "$".to_owned() } else { String::new() };
    Response {
        format,
        lenient: response.lenient.unwrap_or(false),
        csv: response.csv,
        xml: response.xml,
        html: response.html,
        errors: response.errors.iter().map(error_rule).collect(),
        items_path: response.items_path.unwrap_or_else(whole),
        id_path: response.id_path.unwrap_or_default(),
        id_separator: response.id_separator,
        updated_at_path: response.updated_at_path,
        updated_at_format: response.updated_at_format,
        total_path: response.total_path,
        total_header: lower(response.total_header),
        total_is_estimate: response.total_is_estimate.unwrap_or(false),
        has_more_path: response.has_more_path.or(paging_has_more),
        has_more_header: lower(response.has_more_header),
        version_path: response.version_path,
    }
}

/// Names of headers are compared without case.
pub(super) fn lower(header: Option<String>) -> Option<String> {
    header.map(|name| name.to_lowercase())
}

fn error_rule(rule: &manifest::ErrorRule) -> ErrorRule {
    let throttle = rule.throttle.unwrap_or(false);
    let (level, code) = if throttle { (Level::L1, Code::RateLimited) } else { (Level::L2, Code::PlatformError) };
    ErrorRule {
        when: condition(&rule.when),
        status: rule.status.clone(),
        level: rule.level.unwrap_or(level),
        code: rule.code.unwrap_or(code),
        message_path: rule.message_path.clone(),
        throttle,
    }
}

fn condition(declared: &manifest::Condition) -> Condition {
    let declared = declared.clone();
    Condition {
        path: declared.path.unwrap_or_default(),
        exists: declared.exists,
        equals: declared.equals,
        not_equals: declared.not_equals,
        r#in: declared.r#in,
        matches: declared.matches,
    }
}

pub(super) fn mapping(endpoint: &Endpoint) -> Mapping {
    let record = endpoint.record.clone();
    Mapping {
        request_params: request_params(endpoint),
        filter: record.filter.iter().map(condition).collect(),
        output_fields: endpoint.fields.iter().map(output_field).collect(),
        add: record.add.into_iter().collect(),
        remove: record.remove,
    }
}

fn output_field((name, field): (&String, &manifest::Field)) -> OutputField {
    let manifest::Field { path, r#type, format, required, on_error } = field.clone();
    // What is required cannot be left out.
    let on_error = if required { OnError::Reject } else { on_error.unwrap_or_default() };
    OutputField { name: name.clone(), expr: path, r#type, format, required, on_error }
}
