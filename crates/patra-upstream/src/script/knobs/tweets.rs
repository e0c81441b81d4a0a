//! The knobs of [`crate::script::tweets`].

use super::content::error_status;
use super::{list, number};
use crate::script::{Script, TweetEnvelope, TweetFault, TweetFaultKind};

impl Script {
    /// Sets one knob; returns `false` if the name is not known here.
    pub(super) fn set_tweets(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let tweets = &mut self.tweets;
        match name {
            "tweets_key" => tweets.key = value.to_owned(),
            "tweets_key_status" => tweets.key_status = error_status(name, value)?,
            "tweets_per_user" => tweets.per_user = number(name, value)?,
            "tweets_counts" => tweets.counts = list(value, |v| count(name, v))?,
            "tweets_unknown" => tweets.unknown = list(value, |v| Ok(v.to_owned()))?,
            "tweets_lists" => tweets.lists = list(value, |v| members(name, v))?,
            "tweets_page_size" => tweets.page_size = number(name, value)?,
            "tweets_envelope" => tweets.envelope = envelope(value)?,
            "tweets_pinned" => tweets.pinned = number(name, value)?,
            "tweets_always_more" => tweets.always_more = number(name, value)?,
            "tweets_repeat_cursor" => tweets.repeat_cursor = number(name, value)?,
            "tweets_faults" => tweets.faults = list(value, |v| fault(name, v))?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn count(name: &str, text: &str) -> Result<(String, usize), String> {
    let (user, count) = text.split_once(':').ok_or_else(|| format!("{name} must be user:count,user:count"))?;
    Ok((user.to_owned(), number(name, count)?))
}

fn members(name: &str, text: &str) -> Result<(String, Vec<String>), String> {
    let (id, users) = text.split_once(':').ok_or_else(|| format!("{name} must be id:user+user,id:user"))?;
    Ok((id.to_owned(), users.split('+').map(str::to_owned).collect()))
}

fn envelope(text: &str) -> Result<TweetEnvelope, String> {
    match text {
        "wire" => Ok(TweetEnvelope::Wire),
        "documented" => Ok(TweetEnvelope::Documented),
        _ => Err(format!("tweets_envelope is wire or documented, not {text:?}")),
    }
}

/// Parses `user:fault` for all requests, or `user:fault:times` for the first ones.
fn fault(name: &str, text: &str) -> Result<TweetFault, String> {
    let mut parts = text.split(':');
    let (Some(user), Some(what), times, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(format!("{name} must be user:fault or user:fault:times"));
    };
    let kind = match what {
        "error" => TweetFaultKind::Error,
        "no_list" => TweetFaultKind::NoList,
        what => match what.strip_prefix("late_") {
            Some(millis) => TweetFaultKind::Late(number(name, millis)?),
            None => TweetFaultKind::Status(error_status(name, what)?),
        },
    };
    Ok(TweetFault::new(user, kind, times.map_or(Ok(0), |times| number(name, times))?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check_in;
    use super::*;

    #[test]
    fn every_knob_sets_its_field() {
        check_in("tweets", "key", "k", &json!("k"));
        check_in("tweets", "key_status", "401", &json!(401));
        check_in("tweets", "per_user", "9", &json!(9));
        check_in("tweets", "counts", "alice:3,bob:0", &json!([["alice", 3], ["bob", 0]]));
        check_in("tweets", "unknown", "x,y", &json!(["x", "y"]));
        check_in("tweets", "lists", "7:alice+bob,8:carol", &json!([["7", ["alice", "bob"]], ["8", ["carol"]]]));
        check_in("tweets", "page_size", "5", &json!(5));
        check_in("tweets", "envelope", "documented", &json!("documented"));
        for name in ["pinned", "always_more", "repeat_cursor"] {
            check_in("tweets", name, "true", &json!(true));
        }
        let faults = json!([
            { "user": "a", "kind": { "status": 429 }, "times": 2 },
            { "user": "b", "kind": "error", "times": 0 },
            { "user": "c", "kind": { "late": 50 }, "times": 0 },
            { "user": "d", "kind": "no_list", "times": 1 },
        ]);
        check_in("tweets", "faults", "a:429:2,b:error,c:late_50,d:no_list:1", &faults);
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (name, value) in [
            ("tweets_counts", "alice"),
            ("tweets_lists", "7"),
            ("tweets_envelope", "paper"),
            ("tweets_faults", "a"),
            ("tweets_faults", "a:200"),
            ("tweets_faults", "a:429:2:3"),
            ("tweets_key_status", "200"),
        ] {
            assert!(Script::default().set(name, value).is_err(), "{name}={value}");
        }
    }
}
