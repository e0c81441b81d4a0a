//! Checks `partitions`: bound parameters are declared and sent, and parent endpoints exist.

use std::collections::BTreeSet;

use super::ManifestChecker;
use super::detail::sends_any;
use crate::keywords::EndpointRole;
use crate::manifest::{EndpointConfig, PartitionConfig};
use crate::pattern::Pattern;
use crate::suggest::suggest;

const MAX_DIMENSIONS: usize = 4;
const MAX_VALUES: usize = 10_000;
/// Most combinations of all dimensions.
const MAX_COMBINATIONS: usize = 1_000_000;

impl ManifestChecker<'_> {
    pub(super) fn partitions(&mut self, name: &str, endpoint: &EndpointConfig) {
        let path = &format!("endpoints.{name}.partitions");
        if endpoint.polled == Some(true) && !endpoint.partitions.is_empty() {
            let hint = "remove `partitions`, and give each source its own params: see `patra source add`";
            self.report_with(path, "a polled endpoint is read once per source and has no partitions", hint);
        }
        if endpoint.partitions.len() > MAX_DIMENSIONS {
            self.report(path, format!("at most {MAX_DIMENSIONS} dimensions are allowed"));
        }
        let product = endpoint.partitions.iter().map(|partition| partition.values.len().max(1));
        if product.fold(1usize, usize::saturating_mul) > MAX_COMBINATIONS {
            self.report(path, format!("together they make more than {MAX_COMBINATIONS} combinations"));
        }
        let mut bound = BTreeSet::new();
        for (at, partition) in endpoint.partitions.iter().enumerate() {
            let path = &format!("{path}[{at}]");
            if let Some(param) = &partition.param
                && !bound.insert(param)
            {
                self.report(&format!("{path}.param"), format!("`{param}` is bound twice"));
            }
            self.partition(path, endpoint, partition);
            self.parent(path, name, partition);
        }
    }

    /// A scheduled run has no params, so every required parameter must be bound by a partition, also one that the path
    /// needs. A parent record may supply more parameters than the bound one, so endpoints with a parent are not checked
    /// here.
    pub(super) fn schedule_can_run(&mut self, name: &str, endpoint: &EndpointConfig) {
        if endpoint.schedule.is_none() || endpoint.partitions.iter().any(|partition| partition.parent.is_some()) {
            return;
        }
        for param in endpoint.params.keys() {
            let bound = endpoint.partitions.iter().any(|partition| partition.param.as_ref() == Some(param));
            if endpoint.requires_param(param) && !bound {
                let message = format!("a scheduled run has no params, but `{param}` is required");
                let hint =
                    format!("give it a default, or a partition that binds it: [{{ param: {param}, values: [..] }}]");
                self.report_with(&format!("endpoints.{name}.schedule"), message, hint);
            }
        }
    }

    fn partition(&mut self, path: &str, endpoint: &EndpointConfig, partition: &PartitionConfig) {
        let PartitionConfig { param, values, parent } = partition;
        if values.is_empty() == parent.is_none() {
            let message = "exactly one of `values` and `parent` is required";
            self.report_with(path, message, "for example values: [a, b], or parent: { endpoint: authors }");
        }
        if values.len() > MAX_VALUES {
            self.report(&format!("{path}.values"), format!("at most {MAX_VALUES} values are allowed"));
        }
        let Some(name) = param else {
            let hint = "the parameter that takes the values, for example param: year";
            return self.report_with(&format!("{path}.param"), "`param` is missing", hint);
        };
        let Some(declared) = endpoint.params.get(name) else {
            let known: Vec<_> = endpoint.params.keys().map(String::as_str).collect();
            let hint = suggest(name, &known).or_else(|| Some(format!("declare it: params: {{ {name}: {{}} }}")));
            let message = format!("there is no parameter `{name}`");
            let problem = self.manifest.origin.problem(&format!("{path}.param"), message, hint);
            return self.problems.push(problem);
        };
        // A bare `params` stands for `params['name']`, whose name is not analysed.
        let dotted = format!("params.{name}");
        if !sends_any(endpoint, |read| read == dotted || read == "params") {
            let message = format!("no template sends `params.{name}`, so every partition would read the same records");
            self.report(&format!("{path}.param"), message);
        }
        let pattern = declared.pattern.as_deref().and_then(|pattern| Pattern::whole(pattern).ok());
        let mut seen = BTreeSet::new();
        for (at, value) in values.iter().enumerate() {
            if !seen.insert(value) {
                self.report(&format!("{path}.values[{at}]"), "this value is a duplicate");
            } else if pattern.as_ref().is_some_and(|pattern| !pattern.matches(value)) {
                self.report(
                    &format!("{path}.values[{at}]"),
                    format!("the value does not match the pattern of `{name}`"),
                );
            }
        }
    }

    fn parent(&mut self, path: &str, child: &str, partition: &PartitionConfig) {
        let Some(parent) = &partition.parent else { return };
        self.selector(&format!("{path}.parent.path"), parent.path.as_deref());
        let path = &format!("{path}.parent.endpoint");
        let Some(name) = &parent.endpoint else {
            return self.report_with(path, "`endpoint` is missing", "the endpoint whose records give the values");
        };
        let Some(declared) = self.manifest.endpoints.get(name) else {
            let names: Vec<_> = self.manifest.endpoints.keys().map(String::as_str).collect();
            let message = format!("there is no endpoint `{name}`");
            let problem = self.manifest.origin.problem(path, message, suggest(name, &names));
            return self.problems.push(problem);
        };
        if declared.role == Some(EndpointRole::Detail) {
            let message = format!("`{name}` is a detail endpoint: it cannot be read by itself");
            self.report_with(path, message, "name the search endpoint that uses it");
        }
        if let Some(way) = self.parent_cycle(name, child) {
            let message = format!("the parents form a cycle: {child} -> {}", way.join(" -> "));
            self.report_with(path, message, "a parent must be read before its children");
        }
    }

    /// The path from an endpoint over its parents back to `child`, if there is one.
    fn parent_cycle(&self, from: &str, child: &str) -> Option<Vec<String>> {
        let mut ways = vec![vec![from.to_owned()]];
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop() {
            let last = way.last()?;
            if last == child {
                return Some(way);
            }
            if !seen.insert(last.clone()) {
                continue;
            }
            let partitions = self.manifest.endpoints.get(last).map_or(&[][..], |endpoint| &endpoint.partitions);
            let parents = partitions.iter().filter_map(|partition| partition.parent.as_ref()?.endpoint.clone());
            let further = parents.map(|parent| way.iter().cloned().chain([parent]).collect());
            ways.extend(further.collect::<Vec<_>>());
        }
        None
    }
}
