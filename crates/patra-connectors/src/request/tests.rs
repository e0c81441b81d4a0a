use patra_core::params::Params;
use patra_core::{Ts, Window};

use super::*;

fn renderer(extra: &str) -> RequestRenderer {
    let body = format!(
        r#"{{"provenanceCode":"p","endpointCode":"e","operation":"HARVEST",
        "http":{{"method":"GET","baseUrl":"https://api.example.org/v1/","pathTemplate":"/works","connectTimeoutMs":1000,"readTimeoutMs":1000,"maxBodyBytes":1000,
            "headersTemplate":{{"Accept":"application/json"}},
            "queryTemplate":{{"filter":"from:${{ window.from | date }}","rows":"${{ page.size }}","cursor":"${{ page.token }}","offset":"${{ page.offset }}"}}}},
        "response":{{"itemsPath":"$","idPath":"$"}}{extra}}}"#
    );
    RequestRenderer::new(&Snapshot::from_body(&body).unwrap()).unwrap()
}

fn render(position: &Position) -> Result<RenderedRequest, Fault> {
    let window = Window { from: Ts::from_secs(0), to: Ts::from_secs(86_400) };
    let ask = PageRequest { position, window, page_size: 20, params: &Params::new(), now: Ts::from_secs(0) };
    renderer("").render(&ask)
}

fn url(position: &Position) -> String {
    render(position).unwrap().request.url
}

// covers: ING-5.4-06, ING-4.8-02, ING-4.8-06
#[test]
fn values_are_encoded_and_nulls_left_out() {
    assert_eq!(
        url(&Position::Token(Some("a+b/c=&x=1".into()))),
        "https://api.example.org/v1/works?cursor=a%2Bb%2Fc%3D%26x%3D1&filter=from%3A1970-01-01&offset=0&rows=20"
    );
    assert!(!url(&Position::Token(None)).contains("cursor"));
    assert!(url(&Position::Offset(40)).contains("offset=40"));
}

#[test]
fn a_given_url_is_followed_on_its_own_host_only() {
    assert_eq!(url(&Position::Url(Some("/v1/works?page=2".into()))), "https://api.example.org/v1/works?page=2");
    let away = Position::Url(Some("https://evil.example/x".into()));
    let fault = render(&away).unwrap_err();
    assert_eq!((fault.code, fault.level), (Code::Forbidden, Level::L2));
}

// covers: ING-9.3-04, ING-14.3-05
#[test]
fn the_digest_names_headers_and_keeps_no_value() {
    let rendered = render(&Position::Token(None)).unwrap();
    let digest: serde_json::Value = serde_json::from_str(&rendered.digest).unwrap();
    assert_eq!(digest["urlTemplate"], "https://api.example.org/v1/works");
    assert_eq!(digest["url"], "https://api.example.org/v1/works");
    assert_eq!(digest["headers"], json!(["Accept"]));
    assert_eq!(digest["query"]["rows"], "20");
    assert!(!rendered.digest.contains("application/json"));
    let followed = render(&Position::Url(Some("/v1/works?page=2".into()))).unwrap().digest;
    assert!(followed.contains(r#""urlTemplate":null"#), "made from no template: {followed}");
}
