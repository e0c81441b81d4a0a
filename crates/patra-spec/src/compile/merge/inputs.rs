//! What a run is given, and what templates may do with it.

use std::collections::BTreeMap;

use crate::manifest::{self, Endpoint};
use crate::snapshot::{Expr, Param, Parent, Partition, RequestParam};
use crate::words::ParamLocation;

pub(super) fn params(endpoint: &Endpoint) -> BTreeMap<String, Param> {
    let param = |declared: &manifest::Param| {
        let manifest::Param { default, required, pattern, secret, description } = declared.clone();
        let (required, secret) = (required.unwrap_or(false), secret.unwrap_or(false));
        Param { default, required, pattern, secret, description }
    };
    endpoint.params.iter().map(|(name, declared)| (name.clone(), param(declared))).collect()
}

pub(super) fn partitions(endpoint: &Endpoint) -> Vec<Partition> {
    let partition = |declared: &manifest::Partition| {
        let manifest::Partition { param, values, parent } = declared.clone();
        let parent = parent.map(|parent| Parent { endpoint: parent.endpoint.unwrap_or_default(), path: parent.path });
        Partition { param: param.unwrap_or_default(), values, parent }
    };
    endpoint.partitions.iter().map(partition).collect()
}

pub(super) fn expr(endpoint: &Endpoint) -> Expr {
    let (declared, platform) = (endpoint.expr.clone(), Expr::default());
    Expr {
        allowed_functions: declared.allowed_functions,
        timezone: platform.timezone,
        null_policy: declared.null_policy.unwrap_or(platform.null_policy),
        time_format: declared.time_format.unwrap_or(platform.time_format),
    }
}

/// The templates alone; their conditions are in [`request_params`].
pub(super) fn templates(params: BTreeMap<String, manifest::RequestParam>) -> BTreeMap<String, String> {
    params.into_iter().map(|(name, param)| (name, param.expr)).collect()
}

/// Every value that a request carries by name: of the query, then of the headers, then of the form.
pub(super) fn request_params(endpoint: &Endpoint) -> Vec<RequestParam> {
    let form = endpoint.body.as_ref().and_then(|body| body.form.as_ref());
    let query = endpoint.query.iter().map(|(name, param)| (ParamLocation::Query, name, param));
    let headers = endpoint.http.headers.iter().map(|(name, param)| (ParamLocation::Header, name, param));
    let form = form.into_iter().flatten().map(|(name, param)| (ParamLocation::Body, name, param));
    query
        .chain(headers)
        .chain(form)
        .map(|(location, name, param)| {
            let manifest::RequestParam { expr, default, required, pattern } = param.clone();
            RequestParam { name: name.clone(), location, expr, default, required, pattern }
        })
        .collect()
}
