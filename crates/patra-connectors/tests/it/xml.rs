//! XML responses.

use patra_core::Level;
use serde_json::json;

use super::{fields, fixture, keys, page, payload, read};

const ATOM: &str = r#"response: { format: xml, items_path: $.feed.entry, id_path: $.id, updated_at_path: $.updated, xml: { lists: [category] } }
fields: { title: $.title, author: $.author.name, link: "$.link['@href']" }"#;

const EFETCH: &str = r#"response:
  format: xml
  items_path: $.PubmedArticleSet.PubmedArticle
  id_path: "$.MedlineCitation.PMID['#text']"
  version_path: "$.MedlineCitation.PMID['@Version']"
  updated_at_path: $.MedlineCitation.DateRevised
  updated_at_format: date_parts
  xml: { texts: [ArticleTitle, AbstractText], lists: [Author] }
fields:
  title: $.MedlineCitation.Article.ArticleTitle
  first: $.MedlineCitation.Article.AuthorList.Author[0].LastName
  year: { path: $.MedlineCitation.Article.Journal.JournalIssue.PubDate.Year, type: integer }"#;

/// A list of `n` elements, as JSON.
fn small(items: &str) -> (Vec<String>, u32) {
    let endpoint = "response: { format: xml, items_path: $.r.l.i, id_path: \"$['@id']\", updated_at_path: $.at }";
    let page = page(endpoint, &format!("<?xml version='1.0'?><r><l>{items}</l></r>"));
    (page.records.iter().map(|record| record.payload.to_string()).collect(), page.facts.items)
}

// covers: ING-4.7-01, ING-4.7-03
#[test]
fn recorded_articles_are_records() {
    let one = page(EFETCH, &fixture("pubmed/efetch_doi.xml"));
    assert_eq!(keys(&one), ["21813142"]);
    assert_eq!(one.records[0].version.updated_at.to_short_text(), "2019-12-10T00:00:00Z");
    assert_eq!(one.records[0].version.source_version, 1);
    assert_eq!(fields(&one, 0)["year"], 2012);
    let author = &payload(&one, 0)["MedlineCitation"]["Article"]["AuthorList"]["Author"][1]["LastName"];
    assert_eq!(author, "Gómez Ayerbe", "numeric references are characters");
    let three = page(EFETCH, &fixture("pubmed/efetch_multi_3.xml"));
    assert_eq!(keys(&three), ["19008416", "18927361", "18787170"]);
    assert_eq!(fields(&three, 1)["first"], "Couzin", "a declared list is one with a single element too");
    let markup = page(EFETCH, &fixture("pubmed/efetch_title_with_child_text.xml"));
    let title = "Phoenix dactylifera mediated green synthesis of Cu2O particles for arsenite uptake from water.";
    assert_eq!(fields(&markup, 0)["title"], title);
    let none = page(EFETCH, "<PubmedArticleSet></PubmedArticleSet>");
    assert_eq!((none.facts.items, none.records.len()), (0, 0));
}

#[test]
fn recorded_entries_are_records() {
    let page = page(ATOM, &fixture("reddit/rss_atom_example_reddit.xml"));
    assert_eq!(keys(&page), ["t3_glvkc5"]);
    assert_eq!(fields(&page, 0)["author"], "/u/llogiq");
    assert!(fields(&page, 0)["link"].as_str().unwrap().ends_with("/hey_rustaceans_got_an_easy_question_ask_here/"));
    assert_eq!(payload(&page, 0)["category"], json!([{ "@term": "rust", "@label": "r/rust" }]));
    assert!(payload(&page, 0)["content"]["#text"].as_str().unwrap().starts_with("<!-- SC_OFF --><div class=\"md\">"));
}

// covers: ING-4.7-03
#[test]
fn ids_and_totals_of_a_recorded_search() {
    let ids = "response: { format: xml, items_path: $.eSearchResult.IdList.Id, id_path: $, updated_at_path: $, updated_at_format: epoch, total_path: $.eSearchResult.Count }";
    let page = page(ids, &fixture("pubmed/esearch_page_retstart0.xml"));
    assert_eq!((page.facts.items, page.facts.total), (3, Some(6)));
    // Read as seconds: enough to see that the items are bare texts.
    assert_eq!(keys(&page), ["19008416", "18927361", "18787170"]);
    let refused = read(ids, &fixture("pubmed/esearch_count.xml")).unwrap_err();
    let expected = "items_path $.eSearchResult.IdList.Id finds nothing in the response (";
    assert!(refused.fault.message.starts_with(expected), "{}", refused.fault.message);
    let lenient = ids.replace("items_path:", "absent: empty, items_path:");
    assert_eq!(super::page(&lenient, &fixture("pubmed/esearch_count.xml")).facts.items, 0);
}

#[test]
fn no_one_and_many_items_are_lists() {
    assert_eq!(small(""), (vec![], 0));
    assert_eq!(small("<!-- none --><other/>"), (vec![], 0));
    assert_eq!(small("<i id='1'><at>5</at></i>"), (vec![r#"{"@id":"1","at":"5"}"#.to_owned()], 1));
    let (two, items) =
        small("<i id='1'><at>5</at></i><x/><i id='2' xmlns:a='n'><at>6</at><a:b>y</a:b>z<c/><c> d </c></i>");
    assert_eq!(items, 2);
    assert_eq!(two[1], r##"{"@id":"2","at":"6","a:b":"y","c":["","d"],"#text":"z"}"##);
    let (cdata, _) = small("<i id='&lt;&#x41;'><at><![CDATA[5]]></at><t>a &amp; <![CDATA[<b>]]>&quot;</t></i>");
    assert_eq!(cdata[0], r#"{"@id":"<A","at":"5","t":"a & <b>\""}"#);
}

#[test]
fn broken_and_hostile_documents_are_refused_quickly() {
    let check = |body: &str, level: Level, expected: &str| {
        let fault = read(ATOM, body).unwrap_err().fault;
        assert_eq!(fault.level, level, "{fault}");
        assert!(fault.message.contains(expected), "{fault}");
    };
    check("<feed><entry>", Level::L1, "it ends before its root element does");
    check("<feed><entry></feed>", Level::L1, "the response is no XML");
    check("", Level::L1, "it has no element");
    check("<a/><b/>", Level::L1, "two root elements");
    check("<a/>tail", Level::L1, "text outside the root element");
    check("<feed>&nope;</feed>", Level::L1, "nope");
    check("<html><body/></html>", Level::L4, "items_path $.feed.entry finds nothing");
    let bomb = "<!DOCTYPE f [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><feed>&b;</feed>";
    check(bomb, Level::L1, "b");
    let external = "<!DOCTYPE f [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><feed>&x;</feed>";
    check(external, Level::L1, "x");
    check(&"<a>".repeat(100_000), Level::L1, "more than 60 levels");
    let attributes: String = (0..300).map(|at| format!(" a{at}='1'")).collect();
    check(&format!("<feed{attributes}/>"), Level::L1, "more than 256 attributes");
    let names: String = (0..300).map(|at| format!("<a{at}/>")).collect();
    check(&format!("<feed>{names}</feed>"), Level::L1, "more than 256 names");
}

#[test]
fn the_deepest_document_that_is_read_is_read_whole() {
    let (open, close) = ("<c>".repeat(57), "</c>".repeat(57));
    let page = page(ATOM, &format!("<feed><entry><id>1</id><updated>5</updated>{open}{close}</entry></feed>"));
    assert_eq!(keys(&page), ["1"]);
}

#[test]
fn lenient_reading_keeps_unknown_entities_as_they_are_written() {
    let lenient = ATOM.replace("format: xml,", "format: xml, lenient: true,");
    let body = "<feed><entry><id>1</id><updated>5</updated><title>a&nbsp;b & c</title></entry></feed>";
    assert_eq!(fields(&page(&lenient, body), 0)["title"], "a&nbsp;b & c");
}
