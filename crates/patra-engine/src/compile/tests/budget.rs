//! The budget of a slice limits its size.

use super::*;

// covers: ING-8.1-07, ING-2.4-03
#[tokio::test]
async fn a_slice_is_made_for_what_its_budget_can_read() {
    let ids = r#"  few:
    http: { base_url: "https://far.example", path: /few }
    query: { offset: "${ page.offset }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 10 }
    window: { supports_updated_since: true, watermark_key: updated_at, max_window: PT1M, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
    limits: { max_requests: 7 }
  ids:
    limits: { max_requests: 30 }
    http: { base_url: "https://far.example", path: /ids }
    two_phase: { detail: fetch }
    batching: { id_batch_size: 5 }
    query: { offset: "${ page.offset }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 10 }
    window: { supports_updated_since: true, watermark_key: updated_at, max_window: PT1M, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$" }
  fetch:
    role: detail
    http: { base_url: "https://far.example", path: /details }
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;
    let store = store(ids).await;
    let depth = async |endpoint: &str, overrides: &str| {
        let trigger = ClaimedJob { overrides: overrides.into(), ..trigger(endpoint) };
        match plan(&store, &trigger).await.span {
            PlanSpan::Time { depth, .. } => depth,
            other @ (PlanSpan::Ids { .. } | PlanSpan::Whole) => panic!("{other:?}"),
        }
    };
    assert_eq!(depth("works", "{}").await, 2_000, "as many pages as a slice may have");
    assert_eq!(
        depth("works", r#"{"rate_limit.refill_rate_per_sec":0.1}"#).await,
        950,
        "what the rate allows in its time"
    );
    assert_eq!(depth("few", "{}").await, 70);
    assert_eq!(depth("ids", "{}").await, 100, "a page of ids costs two requests for details");
}
