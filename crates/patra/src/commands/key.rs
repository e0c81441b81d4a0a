//! `key`: create, list and revoke API keys.

use serde_json::json;

use patra_core::port::CommandsExt;
use patra_core::port::query::{View, ViewFilter};
use patra_core::tx::RevokeKey;

use crate::cli::{Global, Key};
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn run(global: &Global, command: &Key) -> Result<Exit, Error> {
    match command {
        Key::List => {
            let rows = store::open_to_read(global).await?.list(View::Keys, ViewFilter::default()).await?;
            output::rows(global.output, View::Keys, &rows)?;
        }
        Key::Create { name, scope, projects, shared } => {
            let name = patra_api::key::checked_name(name).map_err(|message| {
                Error::usage(message).hint("choose a name that says what the key is for: `patra key list` shows it")
            })?;
            let opened = store::open(global).await?;
            for key in projects {
                store::known_project(&*opened.store, key).await?;
            }
            let (text, create) = patra_api::key::generate(name, *scope, projects.clone(), *shared, false)
                .map_err(|error| Error::unexpected(format!("the system gives no random bytes: {error}")))?;
            opened.store.run(create).await?;
            output::result(
                global.output,
                &text,
                &json!({ "key": text, "name": name, "scope": scope, "projects": projects, "shared": shared }),
            )?;
        }
        Key::Revoke { prefix } => {
            // You may paste the whole key: only its public part is used and printed.
            let prefix = prefix.strip_prefix("patra_").unwrap_or(prefix);
            let prefix: String = prefix.chars().take_while(|c| *c != '_').take(8).collect();
            let opened = store::open(global).await?;
            if !opened.store.run(RevokeKey { prefix: prefix.clone() }).await?.revoked {
                let message = format!("there is no key `{prefix}` to revoke");
                return Err(Error::not_found(message).hint("`patra key list` shows the public parts"));
            }
            output::result(global.output, &format!("{prefix} revoked"), &json!({ "revoked": prefix }))?;
        }
    }
    Ok(Exit::Ok)
}
