//! CSV responses, and almost-JSON.

use patra_core::Level;

use super::{fields, fixture, keys, page, payload, read};

const ROWS: &str =
    "response: { format: csv, id_path: $.id, updated_at_path: $.at }\nfields: { n: { path: $.n, type: integer } }";

#[test]
fn rows_are_objects_of_texts() {
    let page = page(ROWS, "\u{feff}id,at, n ,text\r\n1,5,7,\"a \"\"b\"\", c\nd\"\r\n\r\n2,6,,é\r\n");
    assert_eq!((page.facts.items, keys(&page)), (2, vec!["1", "2"]));
    assert_eq!(&*page.records[0].payload, r#"{"id":"1","at":"5","n":"7","text":"a \"b\", c\nd"}"#);
    assert_eq!(fields(&page, 0)["n"], 7);
    assert_eq!(page.records[1].fields, "", "an empty text is no number");
}

#[test]
fn delimiters_quotes_and_columns_are_declared() {
    let with = |csv: &str| ROWS.replace("csv,", &format!("csv, csv: {csv},"));
    let semicolons = page(&with("{ delimiter: \";\", quote: \"'\" }"), "id;at;n\n'1;2';5;7");
    assert_eq!(keys(&semicolons), ["1;2"]);
    let tabs = page(&with("{ delimiter: tab, quote: none, columns: [id, at, n] }"), "\"1\t5\t7\n2\t6\t8");
    assert_eq!(keys(&tabs), ["\"1", "2"]);
    let renamed = page(&with("{ columns: [id, at, n], header: true }"), "A,B,C\n1,5,7");
    assert_eq!(keys(&renamed), ["1"]);
    let empty = page(&with("{ columns: [id, at, n] }"), "");
    assert_eq!(empty.facts.items, 0);
    assert_eq!(page(ROWS, "id,at,n\n").facts.items, 0);
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let check = |body: &str, expected: &str| {
        let fault = read(ROWS, body).unwrap_err().fault;
        assert_eq!((fault.level, fault.message.as_str()), (Level::L1, expected));
    };
    check("", "the response is no CSV: it has no header");
    check("id,at,n\n1,5,7\n2,6", "the response is no CSV: row 2 has 2 fields, not 3");
    check("id,at,id\n1,5,7", "the response is no CSV: its header names \"id\" twice");
    let lenient = ROWS.replace("csv,", "csv, lenient: true,");
    let ragged = page(&lenient, "id,at,n\n1,5\n2,6,7,more");
    assert_eq!(keys(&ragged), ["1", "2"]);
    assert_eq!(payload(&ragged, 1)["#4"], "more");
}

const ESEARCH: &str = "response: { items_path: $.esearchresult.idlist, id_path: $, updated_at_path: $, lenient: true }";

// covers: ING-15-03
#[test]
fn raw_control_characters_are_read_where_the_manifest_allows_it() {
    let body = fixture("pubmed/error_200_retstart_invalid_json.json");
    let strict = read(&ESEARCH.replace(", lenient: true", ""), &body).unwrap_err().fault;
    assert_eq!(strict.level, Level::L1);
    assert!(strict.message.contains("control character"), "{strict}");
    let lenient = read(ESEARCH, &body).unwrap_err().fault;
    assert!(lenient.message.contains("items_path"), "read, and found to be no page: {lenient}");
    let rule = format!("{}, errors: [{{ path: $.esearchresult.ERROR }}] }}", ESEARCH.trim_end_matches(" }"));
    let fault = read(&rule, &body).unwrap_err().fault;
    assert_eq!(fault.level, Level::L2);
    assert!(fault.message.contains("Exception: 'retstart' cannot be larger than 9998"), "{fault}");
    // A valid text is not changed, and a cut one stays unreadable.
    assert_eq!(page(ESEARCH, &fixture("pubmed/esearch_darwin_au.json")).facts.items, 20);
    assert_eq!(read(ESEARCH, &body[..80]).unwrap_err().fault.level, Level::L1);
}
