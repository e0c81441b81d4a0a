//! Assets of the pages: a style sheet, a script and an icon, built into the program. Their addresses contain a hash, so
//! that browsers cache them until they change.

use std::sync::LazyLock;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;

use patra_core::hash::sha256_hex;

const STYLE: &str = include_str!("../../assets/console.css");
const SCRIPT: &str = include_str!("../../assets/console.js");
const ICON: &str = include_str!("../../assets/icon.svg");

pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/assets/console.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/assets/console.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/assets/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")], text)
}

/// Hash of all assets.
pub(super) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut hash = sha256_hex([STYLE, SCRIPT, ICON].concat().as_bytes());
        hash.truncate(12);
        hash
    });
    &VERSION
}
