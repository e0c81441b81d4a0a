//! Private networks that only the source which names them may reach.

use super::*;

/// The outcome of one `collect` without networks that are allowed for all.
fn collect(place: &Workspace) {
    let mut command = place.patra();
    command.env_remove("PATRA_ALLOW_NET").arg("collect");
    let output = command.output().unwrap();
    assert!(output.status.code().is_some(), "{output:?}");
}

// covers: COLL-94
on_both!(fn private_network_is_open_to_the_source_that_names_it);
fn private_network_is_open_to_the_source_that_names_it(on: On) {
    everywhere(on, |place, feeds| {
        let config = json!({ "allow_net": ["127.0.0.0/8"] }).to_string();
        ok(&place.run(&["source", "add", "rss", &feeds.url(1, "/feed/open"), "--config", &config]));
        add(place, "rss", &feeds.url(2, "/feed/closed"));
        let refused = place.run(&[
            "source",
            "add",
            "rss",
            &feeds.url(3, "/feed/wide"),
            "--config",
            &json!({ "allow_net": ["127.0.0.1/8"] }).to_string(),
        ]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains("127.0.0.0/8") && text.contains("127.0.0.1/32"), "{text}");
        collect(place);
        assert_eq!(feeds.paths(), ["/feed/open"]);
        let states = list(place);
        assert!(states[0]["last_error"].is_null(), "{}", states[0]);
        assert!(states[1]["last_error"].as_str().unwrap().contains("public"), "{}", states[1]);
    });
}

// covers: COLL-94
on_both!(fn only_an_administrator_lets_a_source_into_a_private_network);
fn only_an_administrator_lets_a_source_into_a_private_network(on: On) {
    everywhere(on, |place, feeds| {
        let write = ok(&place.run(&["key", "create", "writer", "--scope", "write"]));
        let admin = ok(&place.run(&["key", "create", "boss", "--scope", "admin"]));
        ok(&place.run(&["project", "create", "bound"]));
        let bound = ok(&place.run(&["key", "create", "tenant", "--scope", "admin", "--for", "bound"]));
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &[]);
        let log = running.wait_for("the API listens");
        assert!(log.contains("use --allow-net only if all sources are trusted"), "{log}");
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let sources = format!("http://{address}/api/sources");
        let key = |text: &str| text.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let (write, admin, bound) = (key(&write), key(&admin), key(&bound));
        let config = json!({ "url": feeds.url(1, "/feed/a"), "allow_net": ["127.0.0.0/8"] });
        let body = json!({ "type": "rss", "config": config }).to_string();
        let (status, refused) = http(&sources, Some(&write), Some(&body));
        assert_eq!((status, &refused["error"]["code"]), (403, &json!("FORBIDDEN")), "{refused}");
        let (status, added) = http(&sources, Some(&admin), Some(&body));
        assert_eq!(status, 201, "{added}");
        // The same for manifests: a key of one project cannot open a network, whatever its scope.
        let manifest = json!({ "provenance": "inner", "allow_http": true, "endpoints": { "feed": {
            "polled": true, "params": { "url": { "required": true } },
            "http": { "url_param": "url", "allow_net": ["127.0.0.0/8"] },
            "response": { "format": "feed", "items_path": "$.entries", "id_path": "$.key" },
        } } });
        let manifests = format!("http://{address}/api/v1/manifests");
        let (status, refused) = http(&manifests, Some(&bound), Some(&manifest.to_string()));
        assert_eq!((status, &refused["error"]["code"]), (403, &json!("FORBIDDEN")), "{refused}");
        let (status, applied) = http(&manifests, Some(&admin), Some(&manifest.to_string()));
        assert_eq!(status, 201, "{applied}");
        running.terminate();
        running.end();
    });
}
