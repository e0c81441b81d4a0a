//! Properties of the records: stable, unique, ordered, with ties, and of the expected size.

use std::collections::HashSet;

use serde_json::Value;

use super::*;
use crate::time;

#[test]
fn same_seed_same_bytes() {
    let all = |seed| Dataset::new(seed, 300).bytes;
    assert_eq!(all(5), all(5));
    assert_ne!(all(5), all(6));
}

#[test]
fn longer_dataset_starts_with_the_shorter() {
    assert!(Dataset::new(5, 300).bytes.starts_with(&Dataset::new(5, 100).bytes));
}

/// Pinned, so that a change of the generator is noticed.
#[test]
fn first_record_is_pinned() {
    let dataset = Dataset::new(1, 1);
    let (id, updated_at, json) = dataset.get(0).unwrap();
    assert_eq!((id.len(), updated_at), (11, 1_704_067_200_000_000));
    let sum = json.bytes().fold(0_u64, |sum, byte| crate::rng::mix(sum ^ u64::from(byte)));
    assert_eq!((id, sum), (FIRST_ID, FIRST_SUM));
}

const FIRST_ID: &str = "W85773af137";
const FIRST_SUM: u64 = 11_404_213_435_530_061_481;

#[test]
fn records_are_json_of_about_a_kilobyte() {
    let dataset = Dataset::new(3, 2000);
    for (id, updated_at, json) in dataset.records() {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(value["id"], id);
        assert_eq!(value["updated_at"], time::rfc3339(updated_at));
        assert!(value["doi"].as_str().unwrap().contains('/'));
        assert!(value["authors"][0]["name"].is_string() && value["source"]["publisher"]["country"].is_string());
        assert!((600..1700).contains(&json.len()), "{} bytes", json.len());
    }
    assert!((900..1200).contains(&(dataset.byte_len() / dataset.len())), "{}", dataset.byte_len() / dataset.len());
    assert!(!dataset.text.is_ascii());
}

#[test]
fn ids_are_unique_and_scattered() {
    let dataset = Dataset::new(3, 5000);
    let ids: Vec<&str> = dataset.records().map(|(id, ..)| id).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    let ascending = ids.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((2000..3000).contains(&ascending), "{ascending} of 4999 pairs ascend");
}

#[test]
fn every_seventh_shares_its_time() {
    let dataset = Dataset::new(3, 1000);
    let times: Vec<i64> = dataset.records().map(|(_, updated_at, _)| updated_at).collect();
    assert!(times.is_sorted());
    let tied: Vec<usize> = (1..1000).filter(|n| times[*n] == times[n - 1]).map(|n| n + 1).collect();
    assert_eq!(tied, (1..=142).map(|n| n * 7).collect::<Vec<_>>());
    assert_eq!(times[999] - times[0], 999 * 60_000_000);
}

#[test]
fn windows_are_half_open() {
    let dataset = Dataset::builder().count(20).start_micros(0).step_micros(10).build();
    assert_eq!(dataset.range(0, 10), 0..1);
    // Records 5 and 6 (the seventh) are tied at 50.
    assert_eq!(dataset.range(50, 51), 5..7);
    assert_eq!(dataset.range(51, 70), 7..7);
    assert_eq!(dataset.range(i64::MIN, i64::MAX), 0..20);
    assert_eq!(dataset.range(60, 10), 7..7);
    assert_eq!(dataset.ids_in(50, 80).collect::<Vec<_>>(), [5, 6, 7].map(|n| dataset.get(n).unwrap().0));
}

#[test]
fn every_record_is_found_by_its_id() {
    let dataset = Dataset::new(3, 500);
    for (index, (id, ..)) in dataset.records().enumerate() {
        assert_eq!(dataset.find(id), Some(index));
    }
    assert_eq!((dataset.find("W"), dataset.find(""), Dataset::new(3, 0).find("W0")), (None, None, None));
}
