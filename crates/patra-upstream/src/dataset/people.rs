//! Users with posts, and posts with comments, derived from the same records. Everything follows from the dataset and
//! the number of users, so that a test can compute the expected content.

use std::fmt::Write;

use super::Dataset;
use super::vocabulary::{FAMILY, GIVEN, WORDS};
use crate::rng::{SplitMix64, mix};
use crate::time::rfc3339;

/// A post has fewer than this many comments.
const COMMENTS: u64 = 5;
const MINUTE_MICROS: i64 = 60_000_000;

/// Record `n` is a post of user `n % users`. A post is the unchanged record and does not name its user.
#[derive(Debug, Clone, Copy)]
pub struct People<'a> {
    dataset: &'a Dataset,
    users: usize,
}

impl<'a> People<'a> {
    pub(super) fn new(dataset: &'a Dataset, users: usize) -> Self {
        Self { dataset, users }
    }

    pub fn len(&self) -> usize {
        self.users
    }

    pub fn is_empty(&self) -> bool {
        self.users == 0
    }

    /// `U000042`
    pub fn user_id(&self, user: usize) -> String {
        format!("U{user:06}")
    }

    /// The user with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        let user = id.strip_prefix('U')?.parse().ok()?;
        (user < self.users && self.user_id(user) == id).then_some(user)
    }

    /// `{"id","name","posts","updated_at"}`, where `updated_at` is that of the newest post.
    pub fn user(&self, user: usize) -> String {
        let r = &mut SplitMix64::new(user as u64);
        let (id, name) = (self.user_id(user), format!("{} {}", r.pick(GIVEN), r.pick(FAMILY)));
        let posts = self.posts(user).count();
        let newest = self.posts(user).last().and_then(|index| self.dataset.get(index));
        let updated = newest.map_or_else(|| "null".to_owned(), |(_, micros, _)| format!("\"{}\"", rfc3339(micros)));
        format!(r#"{{"id":"{id}","name":"{name}","posts":{posts},"updated_at":{updated}}}"#)
    }

    /// The indexes of the user's posts in the dataset, ascending.
    pub fn posts(&self, user: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let end = if user < self.users { self.dataset.len() } else { 0 };
        (user..end).step_by(self.users.max(1))
    }

    /// The user who wrote the post.
    pub fn author(&self, post: usize) -> Option<usize> {
        (post < self.dataset.len()).then(|| post.checked_rem(self.users))?
    }

    /// The ids of the post's comments, `{post id}-1` etc.; some posts have none.
    pub fn comment_ids(&self, post: usize) -> Vec<String> {
        let count = self.dataset.get(post).map_or(0, |_| mix(post as u64) % COMMENTS);
        self.dataset.get(post).map_or_else(Vec::new, |(id, ..)| (1..=count).map(|n| format!("{id}-{n}")).collect())
    }

    /// The comments as `{"id","text","created_at"}`, one per minute after the post.
    pub fn comments(&self, post: usize) -> Vec<String> {
        let Some((_, posted, _)) = self.dataset.get(post) else { return Vec::new() };
        let r = &mut SplitMix64::new(mix(post as u64));
        let mut created = posted;
        let comment = |id: String| {
            created += MINUTE_MICROS;
            let mut text = format!(r#"{{"id":"{id}","text":""#);
            for _ in 0..3 + r.below(9) {
                // Writing to a String cannot fail.
                let _ = write!(text, "{} ", r.pick(WORDS));
            }
            let _ = write!(text, r#"","created_at":"{}"}}"#, rfc3339(created));
            text
        };
        self.comment_ids(post).into_iter().map(comment).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_record_is_the_post_of_one_user() {
        let dataset = Dataset::new(3, 100);
        let people = dataset.people(7);
        let mut posts: Vec<usize> = (0..7).flat_map(|user| people.posts(user)).collect();
        posts.sort_unstable();
        assert_eq!(posts, (0..100).collect::<Vec<_>>());
        for user in 0..7 {
            assert!(people.posts(user).all(|post| people.author(post) == Some(user)));
            assert_eq!(people.find(&people.user_id(user)), Some(user));
            let parsed: Value = serde_json::from_str(&people.user(user)).unwrap();
            assert_eq!(
                (&parsed["id"], &parsed["posts"]),
                (&people.user_id(user).into(), &people.posts(user).count().into())
            );
        }
        for bad in ["U000007", "U7", "W000001", "", "U0000001"] {
            assert_eq!(people.find(bad), None, "{bad}");
        }
        assert_eq!((people.posts(7).count(), people.author(100), dataset.people(0).author(1)), (0, None, None));
    }

    #[test]
    fn comments_follow_from_the_post() {
        let dataset = Dataset::new(3, 60);
        let people = dataset.people(7);
        let mut counts = Vec::new();
        for post in 0..60 {
            let (ids, comments) = (people.comment_ids(post), people.comments(post));
            let parsed: Vec<Value> = comments.iter().map(|comment| serde_json::from_str(comment).unwrap()).collect();
            assert_eq!(ids, parsed.iter().map(|comment| comment["id"].as_str().unwrap()).collect::<Vec<_>>());
            counts.push(ids.len());
        }
        assert_eq!((counts.iter().min(), counts.iter().max()), (Some(&0), Some(&4)));
        assert!(people.comments(60).is_empty());
    }
}
