//! The lowest layer: what holds when nobody says anything, written as an endpoint would write it. The values are taken
//! from the snapshot, where the platform's have been filled in, so that they are stated once.

use std::time::Duration;

use crate::iso::Iso;
use crate::manifest::{
    Auth, Batching, Endpoint, Expr, Health, Http, Limits, OAuth2, Pagination, RateLimit, Response, Retry, Session,
    TwoPhase, Update, Window,
};
use crate::snapshot::{self, Snapshot};
use crate::words::PagingType;

/// The value of every key that has one without being said. Where somebody said one, it is that: a layer above covers it.
pub(super) fn platform(snapshot: &Snapshot, declared: &Endpoint) -> Endpoint {
    Endpoint {
        role: Some(snapshot.role),
        kind: Some(snapshot.kind),
        http: http(&snapshot.http),
        auth: Some(auth(&snapshot.auth)),
        expr: Expr {
            null_policy: Some(snapshot.expr.null_policy),
            time_format: Some(snapshot.expr.time_format.clone()),
            timezone: Some(snapshot.expr.timezone.clone()),
            ..Expr::default()
        },
        pagination: snapshot.pagination.as_ref().map(pagination),
        window: Some(window(&snapshot.window)),
        // An UPDATE may have one without a search that reads in two phases.
        two_phase: snapshot
            .two_phase
            .as_ref()
            .filter(|_| declared.two_phase.is_some())
            .map(|two_phase| TwoPhase { missing: Some(two_phase.missing), ..TwoPhase::default() }),
        update: snapshot.update.as_ref().map(|update| Update {
            detail: snapshot.two_phase.as_ref().map(|two_phase| two_phase.linked_endpoint.clone()),
            stale_after: Some(update.stale_after),
            segment_size: Some(update.segment_size),
        }),
        batching: Batching { id_batch_size: Some(snapshot.batching.id_batch_size), ..Batching::default() },
        response: Response {
            format: Some(snapshot.response.format),
            lenient: Some(snapshot.response.lenient),
            total_is_estimate: Some(snapshot.response.total_is_estimate),
            items_path: Some(snapshot.response.items_path.clone()),
            ..Response::default()
        },
        retry: Retry {
            max_attempts: Some(snapshot.retry.max_attempts),
            min_delay: Some(millis(snapshot.retry.min_delay_ms)),
            max_delay: Some(millis(snapshot.retry.max_delay_ms)),
            ..Retry::default()
        },
        rate_limit: RateLimit {
            refill_rate_per_sec: Some(snapshot.rate_limit.qps),
            burst: Some(snapshot.rate_limit.burst),
            scope: Some(snapshot.rate_limit.scope),
            weight: Some(snapshot.rate_limit.weight),
            cost: Some(snapshot.rate_limit.cost),
            demote_rate: Some(snapshot.rate_limit.demote_rate),
            ..RateLimit::default()
        },
        limits: limits(&snapshot.limits),
        health: health(&snapshot.health),
        ..Endpoint::default()
    }
}

fn http(http: &snapshot::Http) -> Http {
    Http {
        method: Some(http.method),
        path: Some(http.path_template.clone()),
        connect_timeout: Some(millis(http.connect_timeout_ms)),
        read_timeout: Some(millis(http.read_timeout_ms)),
        max_body_bytes: Some(http.max_body_bytes),
        max_redirects: Some(http.max_redirects),
        compression: Some(http.compression),
        ..Http::default()
    }
}

fn auth(auth: &snapshot::Auth) -> Auth {
    if auth.is_none() {
        return Auth { r#type: Some(auth.r#type), ..Auth::default() };
    }
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Auth {
        r#type: Some(auth.r#type),
        location: Some(auth.location),
        name: said(&auth.name),
        prefix: said(&auth.prefix),
        credential: said(&auth.credential_ref),
        required: Some(auth.required),
        oauth2: auth.oauth2.as_ref().map(|oauth2| OAuth2 {
            grant: Some(oauth2.grant),
            client_auth: Some(oauth2.client_auth),
            token_path: Some(oauth2.token_path.clone()),
            expires_path: Some(oauth2.expires_path.clone()),
            refresh_path: Some(oauth2.refresh_path.clone()),
            refresh_ahead: Some(oauth2.refresh_ahead),
            ..OAuth2::default()
        }),
        session: auth.session.as_ref().map(|session| Session {
            method: Some(session.method),
            expires_in: Some(session.expires_in),
            ..Session::default()
        }),
        ..Auth::default()
    }
}

fn pagination(paging: &snapshot::Pagination) -> Pagination {
    // Only what means something with this type.
    let (kind, unless) = (paging.r#type, |flag: bool, absent: bool| Some(flag).filter(|_| !absent));
    Pagination {
        on_max_page: paging.max_page.map(|_| paging.on_max_page),
        order_by: Some(paging.order_by.clone()),
        always_token: unless(paging.always_token, kind != PagingType::Token),
        unique_tokens: unless(paging.unique_tokens, !matches!(kind, PagingType::Token | PagingType::Url)),
        repeat_ends: unless(paging.repeat_ends, kind == PagingType::Time),
        tail_probe: unless(paging.tail_probe, kind == PagingType::Time),
        ..Pagination::default()
    }
}

fn window(window: &snapshot::Window) -> Window {
    Window {
        supports_updated_since: Some(window.supports_updated_since),
        safety_lag: Some(window.safety_lag),
        max_window: Some(window.max_window),
        monotonic: Some(window.monotonic),
        out_of_range: window.out_of_range,
        as_of: Some(window.as_of),
        ..Window::default()
    }
}

fn limits(limits: &snapshot::Limits) -> Limits {
    Limits {
        concurrency: Some(limits.concurrency),
        inventory: Some(limits.inventory),
        page_depth: Some(limits.page_depth),
        max_requests: Some(limits.max_requests),
        max_duration: Some(limits.max_duration),
        error_ratio: Some(limits.error_ratio),
    }
}

fn health(health: &snapshot::Health) -> Health {
    Health {
        throttle_ratio: Some(health.throttle_ratio),
        throttle_window: Some(health.throttle_window),
        failure_ratio: Some(health.failure_ratio),
        slow_batch: Some(health.slow_batch),
        circuit_after: Some(health.circuit_after),
        circuit_open: Some(health.circuit_open),
        rate_floor: Some(health.rate_floor),
        min_page_size: Some(health.min_page_size),
        large_response_bytes: Some(health.large_response_bytes),
    }
}

fn millis(millis: u64) -> Iso {
    Iso(Duration::from_millis(millis))
}
