//! Routes and their descriptions in one list: every described route is served, and the other way round.

mod document;
mod field;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use patra_core::tx::KeyScope;

use crate::{Api, auth};

pub(crate) use document::{document, page};
pub(crate) use field::{Field, any, flag, int, map, text, texts, time};

/// The key that a route requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    Nothing,
    Key(KeyScope),
    /// A key that is bound to no project.
    Operator(KeyScope),
}

impl Needs {
    pub(crate) fn scope(self) -> Option<KeyScope> {
        match self {
            Needs::Nothing => None,
            Needs::Key(scope) | Needs::Operator(scope) => Some(scope),
        }
    }
}

/// Format of a request body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    None,
    /// A JSON object, optional if no field is required.
    Json(&'static [Field]),
    /// Any content of this media type.
    Of(&'static str),
}

/// One operation: a method of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) says: &'static str,
    pub(crate) needs: Needs,
    pub(crate) query: &'static [Field],
    pub(crate) body: Body,
    /// Statuses of successful responses.
    pub(crate) statuses: &'static [u16],
    /// Statuses of failures, in addition to those of every route.
    pub(crate) failures: &'static [u16],
    pub(crate) media: &'static str,
    /// Whether a GET needs no key if public reading is on; then it shows only what is public.
    pub(crate) public: bool,
}

pub(crate) const fn get(path: &'static str, says: &'static str) -> Operation {
    let needs = Needs::Key(KeyScope::Read);
    let (query, body, statuses, failures) = (&[], Body::None, &[200], &[]);
    let media = "application/json";
    Operation { method: "GET", path, says, needs, query, body, statuses, failures, media, public: false }
}

pub(crate) const fn post(path: &'static str, says: &'static str) -> Operation {
    let needs = Needs::Key(KeyScope::Write);
    Operation { method: "POST", needs, body: Body::Json(&[]), ..get(path, says) }
}

pub(crate) const fn put(path: &'static str, says: &'static str) -> Operation {
    Operation { method: "PUT", ..post(path, says) }
}

pub(crate) const fn delete(path: &'static str, says: &'static str) -> Operation {
    Operation { method: "DELETE", body: Body::None, ..post(path, says) }
}

impl Operation {
    pub(crate) const fn query(self, query: &'static [Field]) -> Operation {
        Operation { query, ..self }
    }

    pub(crate) const fn body(self, fields: &'static [Field]) -> Operation {
        Operation { body: Body::Json(fields), ..self }
    }

    pub(crate) const fn body_of(self, media: &'static str) -> Operation {
        Operation { body: Body::Of(media), ..self }
    }

    pub(crate) const fn statuses(self, statuses: &'static [u16]) -> Operation {
        Operation { statuses, ..self }
    }

    pub(crate) const fn failures(self, failures: &'static [u16]) -> Operation {
        Operation { failures, ..self }
    }

    pub(crate) const fn media(self, media: &'static str) -> Operation {
        Operation { media, ..self }
    }

    pub(crate) const fn admin(self) -> Operation {
        Operation { needs: Needs::Key(KeyScope::Admin), ..self }
    }

    /// Marks a GET that shows public rows to callers without a key, if public reading is on.
    pub(crate) const fn public(self) -> Operation {
        Operation { public: true, ..self }
    }

    pub(crate) const fn open(self) -> Operation {
        Operation { needs: Needs::Nothing, ..self }
    }
}

/// Routes and their descriptions.
#[derive(Default)]
pub(crate) struct Served {
    pub(crate) router: Router<Api>,
    pub(crate) operations: Vec<Operation>,
}

impl Served {
    pub(crate) fn route<H, T>(mut self, operation: Operation, handler: H) -> Served
    where
        H: Handler<T, Api>,
        T: 'static,
    {
        let filter = match operation.method {
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        self.router = self.router.route(operation.path, on(filter, handler));
        self.operations.push(operation);
        self
    }

    /// Serves a path of an older release with POST, without describing it. The next release removes it.
    pub(crate) fn old_path<H, T>(mut self, path: &'static str, handler: H) -> Served
    where
        H: Handler<T, Api>,
        T: 'static,
    {
        self.router = self.router.route(path, on(MethodFilter::POST, handler));
        self
    }

    /// Restricts the routes to keys that are bound to no project.
    pub(crate) fn for_operators(mut self) -> Served {
        self.router = self.router.layer(axum::middleware::from_fn(auth::operators));
        for operation in &mut self.operations {
            operation.needs = operation.needs.scope().map_or(Needs::Nothing, Needs::Operator);
        }
        self
    }

    pub(crate) fn merge(mut self, other: Served) -> Served {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        self
    }

    pub(crate) fn layered(self, layer: impl FnOnce(Router<Api>) -> Router<Api>) -> Served {
        Served { router: layer(self.router), operations: self.operations }
    }
}
