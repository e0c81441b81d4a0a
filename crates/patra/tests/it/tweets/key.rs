//! Sources of the provider's key.

use patra_upstream::TweetProvider;

use super::{KEY, MASTER_KEY, provider};
use crate::support::Workspace;

// covers: TWEET-22, TWEET-REQ-5
#[tokio::test(flavor = "multi_thread")]
async fn api_key_comes_from_either_variable_and_the_new_name_wins() {
    let upstream = provider(TweetProvider::default());
    let (old, new) = ("TWITTER_BEARER_TOKEN", "TWITTER_API_KEY");
    for (variables, is_good) in
        [(&[(old, KEY)][..], true), (&[(old, "another"), (new, KEY)], true), (&[(old, KEY), (new, "another")], false)]
    {
        let place = Workspace::sqlite();
        let mut patra = place.patra();
        patra.env("PATRA_MASTER_KEY", MASTER_KEY).env("TWITTER_BASE_URL", upstream.base_url());
        patra.env("TWITTER_RATE_PER_SEC", "1000").env("SCRAPER_USERNAMES", "alice").envs(variables.iter().copied());
        let output = patra.arg("collect").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), is_good, "{variables:?}: {said}");
        assert_eq!(place.list(&["items"]).is_empty(), !is_good, "{variables:?}");
        assert!(!said.contains(KEY), "a key is nobody's business");
    }
}
