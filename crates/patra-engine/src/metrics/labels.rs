//! The labels: each set is closed, or named by the registry.

use prometheus_client::encoding::EncodeLabelSet;

use patra_core::state::Operation;
use patra_core::tx::PartitionKey;

/// Label of the partitions that are not shown by name.
pub(super) const OTHER: &str = "other";

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct PartitionLabels {
    source: String,
    endpoint: String,
    op: &'static str,
}

impl PartitionLabels {
    pub(super) fn of(who: &PartitionKey) -> PartitionLabels {
        PartitionLabels {
            source: who.provenance_code.clone(),
            endpoint: who.endpoint_name.clone(),
            op: who.operation.as_str(),
        }
    }

    pub(super) fn other(operation: Operation) -> PartitionLabels {
        PartitionLabels { source: OTHER.to_owned(), endpoint: OTHER.to_owned(), op: operation.as_str() }
    }

    pub(super) fn is_other(&self) -> bool {
        self.source == OTHER && self.endpoint == OTHER
    }
}

/// A partition and one more label.
macro_rules! partitioned {
    ($($name:ident($label:ident)),* $(,)?) => {
        $(
            #[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
            pub(super) struct $name {
                #[prometheus(flatten)]
                pub(super) partition: PartitionLabels,
                pub(super) $label: &'static str,
            }
        )*
    };
}

partitioned! { Acted(action), Coded(code), Ended(status), Graded(level), Spent(kind), Namespace(ns) }

macro_rules! alone {
    ($($name:ident { $($label:ident),* }),* $(,)?) => {
        $(
            #[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
            pub(super) struct $name {
                $(pub(super) $label: &'static str,)*
            }
        )*
    };
}

alone! { Closed { reason }, Directed { direction }, Healed { r#type }, Hit { kind, result }, Outcome { outcome }, Refused { kind } }

impl Healed {
    pub(super) const ALL: [Healed; 3] =
        [Healed { r#type: "qpsDownshift" }, Healed { r#type: "reslice" }, Healed { r#type: "circuitOpen" }];
}

/// An alert in the store.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct AlertLabels {
    pub(super) alert: String,
    pub(super) subject: String,
    pub(super) level: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct CookieLabels {
    pub(super) platform: String,
    pub(super) status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(super) struct CrawlLabels {
    pub(super) platform: String,
    pub(super) outcome: &'static str,
}
