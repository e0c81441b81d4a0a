//! How a response is decoded and mapped. Only the endpoint sets these, no other layer.

use patra_core::{Code, Level};

use super::inputs::request_params;
use crate::keywords::{OnFieldError, ResponseFormat};
use crate::manifest::{self, EndpointConfig};
use crate::snapshot::{ConditionSpec, ErrorRuleSpec, MappingSpec, OutputFieldSpec, ResponseSpec};

pub(super) fn response(endpoint: &EndpointConfig) -> ResponseSpec {
    let response = endpoint.response.clone();
    let paging_has_more = endpoint.pagination.as_ref().and_then(|paging| paging.has_more_path.clone());
    let format = response.format.unwrap_or_default();
    // For CSV and tweets the whole document holds the items.
    let whole =
        || if matches!(format, ResponseFormat::Csv | ResponseFormat::Tweets) { "$".to_owned() } else { String::new() };
    ResponseSpec {
        format,
        lenient: response.lenient.unwrap_or(false),
        csv: response.csv,
        xml: response.xml,
        html: response.html,
        errors: response.errors.iter().map(error_rule).collect(),
        items_path: response.items_path.unwrap_or_else(whole),
        absent: response.absent.unwrap_or_default(),
        id_path: response.id_path.unwrap_or_default(),
        id_separator: response.id_separator,
        updated_at_path: response.updated_at_path,
        updated_at_format: response.updated_at_format,
        total_path: response.total_path,
        total_header: lower(response.total_header),
        total: response.total.unwrap_or_default(),
        has_more_path: response.has_more_path.or(paging_has_more),
        has_more_header: lower(response.has_more_header),
        version_path: response.version_path,
    }
}

/// Header names are compared without case.
pub(super) fn lower(header: Option<String>) -> Option<String> {
    header.map(|name| name.to_lowercase())
}

fn error_rule(rule: &manifest::ErrorRuleConfig) -> ErrorRuleSpec {
    let throttle = rule.throttle.unwrap_or(false);
    let (level, code) = if throttle { (Level::L1, Code::RateLimited) } else { (Level::L2, Code::PlatformError) };
    ErrorRuleSpec {
        when: condition(&rule.when),
        status: rule.status.clone(),
        level: rule.level.unwrap_or(level),
        code: rule.code.unwrap_or(code),
        message_path: rule.message_path.clone(),
        throttle,
    }
}

fn condition(declared: &manifest::ConditionConfig) -> ConditionSpec {
    let declared = declared.clone();
    ConditionSpec {
        path: declared.path.unwrap_or_default(),
        exists: declared.exists,
        equals: declared.equals,
        not_equals: declared.not_equals,
        r#in: declared.r#in,
        matches: declared.matches,
    }
}

pub(super) fn mapping(endpoint: &EndpointConfig) -> MappingSpec {
    let record = endpoint.record.clone();
    MappingSpec {
        request_params: request_params(endpoint),
        filter: record.filter.iter().map(condition).collect(),
        output_fields: endpoint.fields.iter().map(output_field).collect(),
        add: record.add.into_iter().collect(),
        remove: record.remove,
    }
}

fn output_field((name, field): (&String, &manifest::FieldConfig)) -> OutputFieldSpec {
    let manifest::FieldConfig { path, r#type, format, required, on_error } = field.clone();
    // A required field that cannot be cast rejects the record.
    let on_error = if required { OnFieldError::Reject } else { on_error.unwrap_or_default() };
    OutputFieldSpec { name: name.clone(), expr: path, r#type, format, required, on_error }
}
