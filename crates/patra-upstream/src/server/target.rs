//! What a path leads to. Paths that lead nowhere are left to [`super::control`], which says so.

use crate::paging::Endpoint;
use crate::shapes::{notes, tweets};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Data(Route<'a>),
    Door(Door),
    Control,
}

/// Where data is: counted, guarded, and what faults fall on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Listing(Endpoint),
    /// `/ids`, and `/ids/page` and so on for every style of paging.
    Ids(Endpoint),
    Details,
    Detail(&'a str),
    Users,
    Posts {
        user: &'a str,
    },
    Comments {
        user: &'a str,
        post: &'a str,
    },
    Issues,
    GraphQl,
    Export,
    Notes(notes::Door),
    Tweets(tweets::Door),
}

/// Where one gets what data requests must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Token,
    Login,
    Sign,
}

impl<'a> Target<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        if let Some(endpoint) = Endpoint::of(path) {
            return Self::Data(Route::Listing(endpoint));
        }
        match path {
            "/details" => Self::Data(Route::Details),
            "/rest/issues" => Self::Data(Route::Issues),
            "/graphql" => Self::Data(Route::GraphQl),
            "/export" => Self::Data(Route::Export),
            "/api/sns/web/v1/search/notes" => Self::Data(Route::Notes(notes::Door::Search)),
            "/api/sns/web/v1/feed" => Self::Data(Route::Notes(notes::Door::Feed)),
            "/api/sns/web/v1/user/selfinfo" => Self::Data(Route::Notes(notes::Door::SelfInfo)),
            "/twitter/user/last_tweets" => Self::Data(Route::Tweets(tweets::Door::LastTweets)),
            "/twitter/list/tweets" => Self::Data(Route::Tweets(tweets::Door::ListTweets)),
            "/twitter/bookmarks_v2" => Self::Data(Route::Tweets(tweets::Door::Bookmarks)),
            "/twitter/user/info" => Self::Data(Route::Tweets(tweets::Door::UserInfo)),
            "/oauth/token" => Self::Door(Door::Token),
            "/login" => Self::Door(Door::Login),
            "/sign" => Self::Door(Door::Sign),
            _ => Route::nested(path).map_or(Self::Control, Self::Data),
        }
    }

    /// The methods served, as `Allow` names them.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Data(Route::Details) => "GET, POST",
            Self::Data(Route::Notes(notes::Door::Search | notes::Door::Feed)) => "POST",
            Self::Data(Route::Tweets(tweets::Door::Bookmarks)) => "POST",
            Self::Data(Route::GraphQl) | Self::Door(_) => "POST",
            Self::Data(_) | Self::Control => "GET",
        }
    }

    pub(super) fn serves(&self, method: &str) -> bool {
        self.methods().split(", ").any(|served| served == method)
    }
}

impl<'a> Route<'a> {
    fn nested(path: &'a str) -> Option<Self> {
        if let Some(style) = path.strip_prefix("/ids") {
            return if style.is_empty() {
                Some(Self::Ids(Endpoint::Offset))
            } else {
                Endpoint::of(style).map(Self::Ids)
            };
        }
        let mut parts = path.strip_prefix('/')?.split('/');
        match (parts.next()?, parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            ("detail", Some(id), None, ..) => Some(Self::Detail(id)),
            ("users", None, ..) => Some(Self::Users),
            ("users", Some(user), Some("posts"), None, ..) => Some(Self::Posts { user }),
            ("users", Some(user), Some("posts"), Some(post), Some("comments"), None) => {
                Some(Self::Comments { user, post })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_should() {
        for (path, expected) in [
            ("/offset", Target::Data(Route::Listing(Endpoint::Offset))),
            ("/ids", Target::Data(Route::Ids(Endpoint::Offset))),
            ("/ids/cursor", Target::Data(Route::Ids(Endpoint::Cursor))),
            ("/detail/W1", Target::Data(Route::Detail("W1"))),
            ("/users", Target::Data(Route::Users)),
            ("/users/U1/posts", Target::Data(Route::Posts { user: "U1" })),
            ("/users/U1/posts/W1/comments", Target::Data(Route::Comments { user: "U1", post: "W1" })),
            ("/login", Target::Door(Door::Login)),
        ] {
            assert_eq!(Target::of(path), expected, "{path}");
        }
        let nowhere =
            ["/", "", "/idsx", "/ids/", "/ids/none", "/detail", "/users/U1", "/users/U1/posts/W1", "/offset/"];
        for path in nowhere.into_iter().chain(["/users/U1/posts/W1/comments/1", "/detail/W1/x", "/stats"]) {
            assert_eq!(Target::of(path), Target::Control, "{path}");
        }
    }

    #[test]
    fn methods_are_those_served() {
        assert!(Target::of("/details").serves("GET") && Target::of("/details").serves("POST"));
        assert!(Target::of("/graphql").serves("POST") && !Target::of("/graphql").serves("GET"));
        assert!(Target::of("/page").serves("GET") && !Target::of("/page").serves("POST"));
        assert!(!Target::of("/page").serves(""));
    }
}
