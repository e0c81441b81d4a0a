//! Maps paths to routes. Unknown paths go to [`super::control`], which returns 404.

use crate::api_styles::{notes, tweets};
use crate::paging::ListEndpoint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestTarget<'a> {
    Data(DataRoute<'a>),
    Auth(AuthRoute),
    Control,
}

/// Data routes: counted, authenticated, and subject to faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataRoute<'a> {
    Listing(ListEndpoint),
    /// `/ids`, and `/ids/page` etc. for every paging style.
    Ids(ListEndpoint),
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
    Notes(notes::NotesRoute),
    Tweets(tweets::TweetsRoute),
}

/// Routes that issue credentials for data requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthRoute {
    Token,
    Login,
    Sign,
}

impl<'a> RequestTarget<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        if let Some(endpoint) = ListEndpoint::of(path) {
            return Self::Data(DataRoute::Listing(endpoint));
        }
        match path {
            "/details" => Self::Data(DataRoute::Details),
            "/rest/issues" => Self::Data(DataRoute::Issues),
            "/graphql" => Self::Data(DataRoute::GraphQl),
            "/export" => Self::Data(DataRoute::Export),
            "/api/sns/web/v1/search/notes" => Self::Data(DataRoute::Notes(notes::NotesRoute::Search)),
            "/api/sns/web/v1/feed" => Self::Data(DataRoute::Notes(notes::NotesRoute::Feed)),
            "/api/sns/web/v1/user/selfinfo" => Self::Data(DataRoute::Notes(notes::NotesRoute::SelfInfo)),
            "/twitter/user/last_tweets" => Self::Data(DataRoute::Tweets(tweets::TweetsRoute::LastTweets)),
            "/twitter/list/tweets" => Self::Data(DataRoute::Tweets(tweets::TweetsRoute::ListTweets)),
            "/twitter/bookmarks_v2" => Self::Data(DataRoute::Tweets(tweets::TweetsRoute::Bookmarks)),
            "/twitter/user/info" => Self::Data(DataRoute::Tweets(tweets::TweetsRoute::UserInfo)),
            "/oauth/token" => Self::Auth(AuthRoute::Token),
            "/login" => Self::Auth(AuthRoute::Login),
            "/sign" => Self::Auth(AuthRoute::Sign),
            _ => DataRoute::nested(path).map_or(Self::Control, Self::Data),
        }
    }

    /// The supported methods, as in the `Allow` header.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Data(DataRoute::Details) => "GET, POST",
            Self::Data(DataRoute::Notes(notes::NotesRoute::Search | notes::NotesRoute::Feed)) => "POST",
            Self::Data(DataRoute::Tweets(tweets::TweetsRoute::Bookmarks)) => "POST",
            Self::Data(DataRoute::GraphQl) | Self::Auth(_) => "POST",
            Self::Data(_) | Self::Control => "GET",
        }
    }

    pub(super) fn serves(&self, method: &str) -> bool {
        self.methods().split(", ").any(|served| served == method)
    }
}

impl<'a> DataRoute<'a> {
    fn nested(path: &'a str) -> Option<Self> {
        if let Some(style) = path.strip_prefix("/ids") {
            return if style.is_empty() {
                Some(Self::Ids(ListEndpoint::Offset))
            } else {
                ListEndpoint::of(style).map(Self::Ids)
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
    fn paths_map_to_routes() {
        for (path, expected) in [
            ("/offset", RequestTarget::Data(DataRoute::Listing(ListEndpoint::Offset))),
            ("/ids", RequestTarget::Data(DataRoute::Ids(ListEndpoint::Offset))),
            ("/ids/cursor", RequestTarget::Data(DataRoute::Ids(ListEndpoint::Cursor))),
            ("/detail/W1", RequestTarget::Data(DataRoute::Detail("W1"))),
            ("/users", RequestTarget::Data(DataRoute::Users)),
            ("/users/U1/posts", RequestTarget::Data(DataRoute::Posts { user: "U1" })),
            ("/users/U1/posts/W1/comments", RequestTarget::Data(DataRoute::Comments { user: "U1", post: "W1" })),
            ("/login", RequestTarget::Auth(AuthRoute::Login)),
        ] {
            assert_eq!(RequestTarget::of(path), expected, "{path}");
        }
        let nowhere =
            ["/", "", "/idsx", "/ids/", "/ids/none", "/detail", "/users/U1", "/users/U1/posts/W1", "/offset/"];
        for path in nowhere.into_iter().chain(["/users/U1/posts/W1/comments/1", "/detail/W1/x", "/stats"]) {
            assert_eq!(RequestTarget::of(path), RequestTarget::Control, "{path}");
        }
    }

    #[test]
    fn methods_match_the_route() {
        assert!(RequestTarget::of("/details").serves("GET") && RequestTarget::of("/details").serves("POST"));
        assert!(RequestTarget::of("/graphql").serves("POST") && !RequestTarget::of("/graphql").serves("GET"));
        assert!(RequestTarget::of("/page").serves("GET") && !RequestTarget::of("/page").serves("POST"));
        assert!(!RequestTarget::of("/page").serves(""));
    }
}
