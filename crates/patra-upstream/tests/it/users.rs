//! Users, their posts, the comments on them.

use patra_upstream::{FailingItem, Script};

use crate::client::TestClient;
use crate::start;

/// All pages of a listing by page number.
async fn walk(client: &mut TestClient, path: &str) -> Vec<String> {
    let mut all = Vec::new();
    for page in 1.. {
        let response =
            client.get(&format!("{path}{}page={page}&size=3", if path.contains('?') { '&' } else { '?' })).await;
        assert_eq!(response.status, 200, "{path}");
        all.extend(response.ids());
        if response.json()["has_more"] == false {
            assert_eq!(response.json()["total"], all.len());
            return all;
        }
    }
    all
}

#[tokio::test]
async fn users_posts_and_comments_match_the_dataset() {
    let (server, mut client) = start(Script { users: 4, ..Script::default() }).await;
    let (dataset, people) = (server.dataset(), server.dataset().people(4));
    let users = walk(&mut client, "/users").await;
    assert_eq!(users, (0..4).map(|user| people.user_id(user)).collect::<Vec<_>>());
    let mut count = 0;
    for (number, user) in users.iter().enumerate() {
        let posts = walk(&mut client, &format!("/users/{user}/posts")).await;
        let known: Vec<&str> = people.posts(number).map(|post| dataset.get(post).unwrap().0).collect();
        assert_eq!(posts, known);
        count += posts.len();
        for post in &posts[..3] {
            let comments = walk(&mut client, &format!("/users/{user}/posts/{post}/comments")).await;
            assert_eq!(comments, people.comment_ids(dataset.find(post).unwrap()));
        }
    }
    assert_eq!(count, dataset.len());
}

#[tokio::test]
async fn posts_have_a_window() {
    let (server, mut client) = start(Script { users: 4, visible: Some(30), ..Script::default() }).await;
    let (dataset, people) = (server.dataset(), server.dataset().people(4));
    let posts = walk(&mut client, "/users/U000001/posts?from=2024-01-01T00:10:00Z&to=2024-01-01T00:40:00Z").await;
    let within = |post: &usize| (10..30).contains(post);
    let known: Vec<&str> = people.posts(1).filter(within).map(|post| dataset.get(post).unwrap().0).collect();
    assert_eq!(posts, known);
    let first = client.get("/users/U000001/posts?size=1").await;
    assert_eq!(first.json()["items"][0], serde_json::from_str::<serde_json::Value>(dataset.get(1).unwrap().2).unwrap());
}

#[tokio::test]
async fn unknown_and_closed_users_are_errors() {
    let users_closed = vec![FailingItem { index: 2, status: 403 }];
    let (server, mut client) = start(Script { users: 4, users_closed, ..Script::default() }).await;
    let post = server.dataset().get(1).unwrap().0;
    for (target, status) in [
        ("/users/U000004/posts".to_owned(), 404),
        ("/users/x/posts".to_owned(), 404),
        ("/users/U000002/posts".to_owned(), 403),
        (format!("/users/U000001/posts/{post}/comments"), 200),
        // A post of another user.
        (format!("/users/U000003/posts/{post}/comments"), 404),
        (format!("/users/U000002/posts/{post}/comments"), 403),
        ("/users/U000001/posts/x/comments".to_owned(), 404),
        ("/users?page=0".to_owned(), 400),
        ("/users/U000001/posts?from=x".to_owned(), 400),
    ] {
        assert_eq!(client.get(&target).await.status, status, "{target}");
    }
}
