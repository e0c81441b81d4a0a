//! Inputs of a run, and template rules.

use std::collections::BTreeMap;

use crate::keywords::ParamLocation;
use crate::manifest::{self, EndpointConfig};
use crate::snapshot::{ExprSpec, ParamSpec, ParentSpec, PartitionSpec, RequestParamSpec};

pub(super) fn params(endpoint: &EndpointConfig) -> BTreeMap<String, ParamSpec> {
    let param = |(name, declared): (&String, &manifest::ParamConfig)| {
        let required = endpoint.requires_param(name);
        let manifest::ParamConfig { default, pattern, secret, description, .. } = declared.clone();
        (name.clone(), ParamSpec { default, required, pattern, secret: secret.unwrap_or(false), description })
    };
    endpoint.params.iter().map(param).collect()
}

pub(super) fn partitions(endpoint: &EndpointConfig) -> Vec<PartitionSpec> {
    let partition = |declared: &manifest::PartitionConfig| {
        let manifest::PartitionConfig { param, values, parent } = declared.clone();
        let parent =
            parent.map(|parent| ParentSpec { endpoint: parent.endpoint.unwrap_or_default(), path: parent.path });
        PartitionSpec { param: param.unwrap_or_default(), values, parent }
    };
    endpoint.partitions.iter().map(partition).collect()
}

pub(super) fn expr(endpoint: &EndpointConfig) -> ExprSpec {
    let (declared, platform) = (endpoint.expr.clone(), ExprSpec::default());
    ExprSpec {
        allowed_functions: declared.allowed_functions,
        timezone: platform.timezone,
        null_policy: declared.null_policy.unwrap_or(platform.null_policy),
        time_format: declared.time_format.unwrap_or(platform.time_format),
    }
}

/// The templates without their conditions, which are in [`request_params`].
pub(super) fn templates(params: BTreeMap<String, manifest::RequestParamConfig>) -> BTreeMap<String, String> {
    params.into_iter().map(|(name, param)| (name, param.expr)).collect()
}

/// Every named value of a request: query, then headers, then form.
pub(super) fn request_params(endpoint: &EndpointConfig) -> Vec<RequestParamSpec> {
    let form = endpoint.body.as_ref().and_then(|body| body.form.as_ref());
    let query = endpoint.query.iter().map(|(name, param)| (ParamLocation::Query, name, param));
    let headers = endpoint.http.headers.iter().map(|(name, param)| (ParamLocation::Header, name, param));
    let form = form.into_iter().flatten().map(|(name, param)| (ParamLocation::Body, name, param));
    query
        .chain(headers)
        .chain(form)
        .map(|(location, name, param)| {
            let manifest::RequestParamConfig { expr, default, required, pattern } = param.clone();
            RequestParamSpec { name: name.clone(), location, expr, default, required, pattern }
        })
        .collect()
}
