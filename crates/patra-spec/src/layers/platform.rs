//! The lowest layer: platform defaults in the form of an endpoint. The values are taken from the snapshot, where the
//! defaults have been filled in, so that they are defined once.

use std::time::Duration;

use crate::iso_duration::IsoDuration;
use crate::keywords::{PagingType, WindowMode};
use crate::manifest::{
    AuthConfig, BatchingConfig, EndpointConfig, ExprConfig, HealthConfig, HttpConfig, LimitsConfig, OAuth2Config,
    PaginationConfig, RateLimitConfig, ResponseConfig, RetryConfig, SessionConfig, TwoPhaseConfig, UpdateConfig,
    WindowConfig,
};
use crate::snapshot::{self, Snapshot};

/// The default of every key that has one. A key that was set has the set value; the layer above hides it.
pub(super) fn platform(snapshot: &Snapshot, declared: &EndpointConfig) -> EndpointConfig {
    EndpointConfig {
        role: Some(snapshot.role),
        kind: Some(snapshot.kind),
        http: http(&snapshot.http),
        auth: Some(auth(&snapshot.auth)),
        expr: ExprConfig {
            null_policy: Some(snapshot.expr.null_policy),
            time_format: Some(snapshot.expr.time_format.clone()),
            timezone: Some(snapshot.expr.timezone.clone()),
            ..ExprConfig::default()
        },
        pagination: snapshot.pagination.as_ref().map(pagination),
        window: Some(window(&snapshot.window)),
        // UPDATE may have a detail endpoint without a two-phase search.
        two_phase: snapshot
            .two_phase
            .as_ref()
            .filter(|_| declared.two_phase.is_some())
            .map(|two_phase| TwoPhaseConfig { missing: Some(two_phase.missing), ..TwoPhaseConfig::default() }),
        update: snapshot.update.as_ref().map(|update| UpdateConfig {
            detail: snapshot.two_phase.as_ref().map(|two_phase| two_phase.linked_endpoint.clone()),
            stale_after: Some(update.stale_after),
            segment_size: Some(update.segment_size),
        }),
        batching: BatchingConfig { id_batch_size: Some(snapshot.batching.id_batch_size), ..BatchingConfig::default() },
        response: ResponseConfig {
            format: Some(snapshot.response.format),
            lenient: Some(snapshot.response.lenient),
            total: Some(snapshot.response.total),
            items_path: Some(snapshot.response.items_path.clone()),
            absent: Some(snapshot.response.absent).filter(|_| snapshot.response.format.may_lack_list()),
            ..ResponseConfig::default()
        },
        retry: RetryConfig {
            max_attempts: Some(snapshot.retry.max_attempts),
            min_delay: Some(millis(snapshot.retry.min_delay_ms)),
            max_delay: Some(millis(snapshot.retry.max_delay_ms)),
            ..RetryConfig::default()
        },
        rate_limit: RateLimitConfig {
            refill_rate_per_sec: Some(snapshot.rate_limit.qps),
            burst: Some(snapshot.rate_limit.burst),
            scope: Some(snapshot.rate_limit.scope),
            weight: Some(snapshot.rate_limit.weight),
            cost: Some(snapshot.rate_limit.cost),
            demote_rate: Some(snapshot.rate_limit.demote_rate),
            ..RateLimitConfig::default()
        },
        limits: limits(&snapshot.limits),
        health: health(&snapshot.health),
        ..EndpointConfig::default()
    }
}

fn http(http: &snapshot::HttpSpec) -> HttpConfig {
    HttpConfig {
        method: Some(http.method),
        path: Some(http.path_template.clone()),
        connect_timeout: Some(millis(http.connect_timeout_ms)),
        read_timeout: Some(millis(http.read_timeout_ms)),
        max_body_bytes: Some(http.max_body_bytes),
        max_redirects: Some(http.max_redirects),
        compression: Some(http.compression),
        robots: Some(http.robots),
        ..HttpConfig::default()
    }
}

fn auth(auth: &snapshot::AuthSpec) -> AuthConfig {
    if auth.is_none() {
        return AuthConfig { r#type: Some(auth.r#type), ..AuthConfig::default() };
    }
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    AuthConfig {
        r#type: Some(auth.r#type),
        location: Some(auth.location),
        name: non_empty(&auth.name),
        prefix: non_empty(&auth.prefix),
        credential: non_empty(&auth.credential_ref),
        required: Some(auth.required),
        oauth2: auth.oauth2.as_ref().map(|oauth2| OAuth2Config {
            grant: Some(oauth2.grant),
            client_auth: Some(oauth2.client_auth),
            token_path: Some(oauth2.token_path.clone()),
            expires_path: Some(oauth2.expires_path.clone()),
            refresh_path: Some(oauth2.refresh_path.clone()),
            refresh_ahead: Some(oauth2.refresh_ahead),
            ..OAuth2Config::default()
        }),
        session: auth.session.as_ref().map(|session| SessionConfig {
            method: Some(session.method),
            expires_in: Some(session.expires_in),
            ..SessionConfig::default()
        }),
        ..AuthConfig::default()
    }
}

fn pagination(paging: &snapshot::PaginationSpec) -> PaginationConfig {
    // Only the keys that apply to this type.
    let (kind, unless) = (paging.r#type, |flag: bool, absent: bool| Some(flag).filter(|_| !absent));
    PaginationConfig {
        on_max_page: paging.max_page.map(|_| paging.on_max_page),
        order_by: Some(paging.order_by.clone()),
        always_token: unless(paging.always_token, kind != PagingType::Token),
        unique_tokens: unless(paging.unique_tokens, !matches!(kind, PagingType::Token | PagingType::Url)),
        repeat_ends: unless(paging.repeat_ends, kind == PagingType::Time),
        tail_probe: unless(paging.tail_probe, kind == PagingType::Time),
        verify: Some(paging.verify).filter(|_| kind != PagingType::Time),
        ..PaginationConfig::default()
    }
}

fn window(window: &snapshot::WindowSpec) -> WindowConfig {
    if window.mode == WindowMode::Snapshot {
        return WindowConfig { mode: Some(window.mode), missing: Some(window.missing), ..WindowConfig::default() };
    }
    WindowConfig {
        mode: Some(window.mode),
        supports_updated_since: Some(window.supports_updated_since),
        safety_lag: Some(window.safety_lag),
        max_window: Some(window.max_window),
        monotonic: Some(window.monotonic),
        out_of_range: window.out_of_range,
        as_of: Some(window.as_of),
        ..WindowConfig::default()
    }
}

fn limits(limits: &snapshot::LimitsSpec) -> LimitsConfig {
    LimitsConfig {
        concurrency: Some(limits.concurrency),
        inventory: Some(limits.inventory),
        page_depth: Some(limits.page_depth),
        max_requests: Some(limits.max_requests),
        max_duration: Some(limits.max_duration),
        error_ratio: Some(limits.error_ratio),
        missing_ratio: Some(limits.missing_ratio),
    }
}

fn health(health: &snapshot::HealthSpec) -> HealthConfig {
    HealthConfig {
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

fn millis(millis: u64) -> IsoDuration {
    IsoDuration(Duration::from_millis(millis))
}
