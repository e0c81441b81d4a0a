//! `credential`: adds, lists, rotates, revokes and checks credentials for upstream APIs.

mod values;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::Ts;
use patra_core::credential::{Credential as Row, CredentialRuntime};
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::port::{Clock as _, Store};
use patra_core::registry::WHOLE;
use patra_core::seal::fernet;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::{AuthType, CredentialStatus, Operation};
use patra_engine::admin::{self, CredentialName, SavedCredential};
use patra_engine::cookies::{self, CookieSettings};
use patra_engine::{Credentials, Ports};
use patra_spec::Snapshot;

use crate::cli::{Credential, CredentialArg, Global, Output, SecretValues};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{host, output, store, vault};

pub(crate) async fn run(global: &Global, command: &Credential) -> Result<Exit, Error> {
    match command {
        Credential::List => list(global).await?,
        Credential::Add { name, auth_type, priority, daily_limit, expires_at, max_parallel, fernet_key, values } => {
            let is_limited = daily_limit.is_some() || expires_at.is_some() || max_parallel.is_some();
            if is_limited && *auth_type != AuthType::Cookie {
                let hint = "leave out --daily-limit, --expires-at and --max-parallel";
                return Err(Error::usage("only cookies have limits and an expiry").hint(hint));
            }
            let mut secrets = values::read(values, *auth_type)?;
            if let Some(variable) = fernet_key {
                decrypt_fernet(&mut secrets, variable)?;
            }
            let opened = store::open(global).await?;
            let vault = vault::load_or_create(global, vault::salt(&*opened.store).await?.as_deref())?;
            // A cookie of a former store is kept as it was.
            let until = match fernet_key {
                None => import(&*opened.store, *auth_type, name, values, &mut secrets).await?,
                Some(_) => None,
            };
            let saved = admin::add(&*opened.store, &vault, &named(name), *auth_type, *priority, secrets).await;
            let saved = saved.map_err(|error| refused(error, name))?;
            let (daily_limit, expires_at, max_parallel) = (*daily_limit, expires_at.or(until), *max_parallel);
            if is_limited || expires_at.is_some() {
                let settings = CookieSettings { priority: None, daily_limit, expires_at, max_parallel };
                let configured = cookies::configure(&*opened.store, &name.alias, settings).await;
                configured.map_err(|error| refused(error, name))?;
            }
            report_saved(global, name, "added", saved)?;
        }
        Credential::Rotate { name, revoke_old, values } => {
            let opened = store::open(global).await?;
            let vault = vault::load_or_create(global, vault::salt(&*opened.store).await?.as_deref())?;
            let known = admin::find(&*opened.store, &named(name)).await.map_err(|error| refused(error, name))?;
            let kind = known.last().map_or(AuthType::Custom, |one| one.auth_type);
            let mut secrets = values::read(values, kind)?;
            let until = import(&*opened.store, kind, name, values, &mut secrets).await?;
            let saved = admin::rotate(&*opened.store, &vault, &named(name), secrets, *revoke_old).await;
            let saved = saved.map_err(|error| refused(error, name))?;
            if until.is_some() {
                let settings = CookieSettings { expires_at: until, ..CookieSettings::default() };
                let configured = cookies::configure(&*opened.store, &name.alias, settings).await;
                configured.map_err(|error| refused(error, name))?;
            }
            report_saved(global, name, "rotated", saved)?;
        }
        Credential::Revoke { name, only_version } => {
            let opened = store::open(global).await?;
            let revoked = admin::revoke(&*opened.store, &named(name), *only_version).await;
            let revoked = revoked.map_err(|error| refused(error, name))?;
            let text = format!("{} revoked: {revoked} version{}", name.alias, if revoked == 1 { "" } else { "s" });
            output::result(global.output, &text, &json!({ "alias": name.alias, "revoked": revoked }))?;
        }
        Credential::Reactivate { alias } => {
            let opened = store::open(global).await?;
            let name = CredentialArg { alias: alias.clone(), provenance: None, endpoint: None };
            cookies::reactivate(&*opened.store, alias).await.map_err(|error| refused(error, &name))?;
            tracing::info!(cookie = alias, "audit: a cookie was reactivated");
            output::result(
                global.output,
                &format!("{alias} is active"),
                &json!({ "alias": alias, "status": "active" }),
            )?;
        }
        Credential::Pause { alias } => pause(global, alias, true).await?,
        Credential::Resume { alias } => pause(global, alias, false).await?,
        Credential::Reseal => return reseal(global).await,
        Credential::Check { name } => return check(global, name).await,
    }
    Ok(Exit::Ok)
}

/// Turns a cookie file that a browser has exported into the value that is sent. Returns when it expires.
async fn import(
    store: &dyn Store,
    auth_type: AuthType,
    name: &CredentialArg,
    values: &SecretValues,
    secrets: &mut Secrets,
) -> Result<Option<Ts>, Error> {
    let domain = values.domain.as_deref();
    if auth_type != AuthType::Cookie {
        let hint = "leave out --domain";
        return if domain.is_none() { Ok(None) } else { Err(Error::usage("only cookies have a domain").hint(hint)) };
    }
    let platform = name.provenance.as_deref().unwrap_or(&name.alias);
    let mut until = None;
    for value in secrets.values_mut() {
        let read = cookies::import(store, platform, domain, value, SystemClock.now()).await;
        (*value, until) = read.map_err(|error| refused(error, name))?;
    }
    Ok(until)
}

async fn pause(global: &Global, alias: &str, paused: bool) -> Result<(), Error> {
    let opened = store::open(global).await?;
    let name = CredentialArg { alias: alias.to_owned(), provenance: None, endpoint: None };
    cookies::pause(&*opened.store, alias, paused).await.map_err(|error| refused(error, &name))?;
    tracing::info!(cookie = alias, paused, "audit: a cookie was paused or resumed");
    let word = if paused { "paused" } else { "resumed" };
    output::result(global.output, &format!("{alias} is {word}"), &json!({ "alias": alias, "paused": paused }))
}

/// Decrypts every value, which is a Fernet token.
fn decrypt_fernet(secrets: &mut Secrets, variable: &str) -> Result<(), Error> {
    let key = std::env::var(variable)
        .map_err(|_| Error::configuration(format!("{variable} is not set: it holds the key of the Fernet token")))?;
    let key = Secret::new(key);
    for value in secrets.values_mut() {
        *value = fernet::open(&key, value.expose())
            .map_err(|error| Error::usage(format!("cannot decrypt the Fernet token: {error}")))?;
    }
    Ok(())
}

/// Can be killed at any moment and run again.
async fn reseal(global: &Global) -> Result<Exit, Error> {
    let opened = store::open(global).await?;
    let salt = vault::salt(&*opened.store).await?;
    let vault = vault::load(global, salt.as_deref())?.ok_or_else(|| {
        Error::configuration("no master key is given").hint(
            "put the new one before the old in PATRA_MASTER_KEY, or set COOKIE_MASTER_KEY and COOKIE_KEY_<OLD_ID>",
        )
    })?;
    let mut printed = std::time::Duration::ZERO;
    let began = tokio::time::Instant::now();
    let resealed = cookies::reseal(&*opened.store, &vault, |done| {
        if began.elapsed() > printed + std::time::Duration::from_secs(1) {
            printed = began.elapsed();
            say(&format!("{done} encrypted again"));
        }
    });
    let (done, stuck) = resealed.await.map_err(|error| Error::failed(error.to_string()))?;
    let text = format!("{done} encrypted again with the key {}", vault.key_id());
    output::result(global.output, &text, &json!({ "resealed": done, "key_id": vault.key_id(), "stuck": stuck }))?;
    if stuck.is_empty() {
        return Ok(Exit::Ok);
    }
    say(&format!("cannot be decrypted with the given keys, and stay as they are: {}", stuck.join(", ")));
    Ok(Exit::Failures)
}

fn named(name: &CredentialArg) -> CredentialName {
    let CredentialArg { alias, provenance, endpoint } = name.clone();
    CredentialName { alias, provenance, endpoint }
}

fn report_saved(global: &Global, name: &CredentialArg, done: &str, saved: SavedCredential) -> Result<(), Error> {
    tracing::info!(
        credential.id = saved.id.0,
        credential.alias = name.alias,
        version = saved.version,
        "credential {done}"
    );
    let text = format!("{} {done}: version {}", name.alias, saved.version);
    let value = json!({
        "id": saved.id, "alias": name.alias, "version": saved.version, "type": saved.auth_type.as_str(),
    });
    output::result(global.output, &text, &value)
}

fn refused(error: admin::Error, name: &CredentialArg) -> Error {
    let alias = &name.alias;
    match error {
        admin::Error::Invalid(message) => Error::usage(message),
        admin::Error::Exists(_) => {
            Error::usage(error.to_string()).hint(format!("`patra credential rotate {alias}` adds a new version"))
        }
        admin::Error::NotFound(_) => Error::not_found(error.to_string()).hint("`patra credential list` lists them"),
        admin::Error::Ambiguous { .. } => {
            Error::usage(error.to_string()).hint("name one with --provenance and --endpoint")
        }
        admin::Error::Seal(error) => Error::configuration(error.to_string()),
        admin::Error::Store(error) => error.into(),
    }
}

/// Lists credentials, each with the state of its token in one row.
async fn list(global: &Global) -> Result<(), Error> {
    let queries = store::open_to_read(global).await?;
    let all = |limit| ViewFilter { limit, ..ViewFilter::default() };
    let rows = queries.list(View::Credentials, all(ViewFilter::MAX_LIMIT)).await?;
    let states = queries.list(View::CredentialStates, all(ViewFilter::MAX_LIMIT)).await?;
    let (rows_view, states_view) = (View::Credentials, View::CredentialStates);
    let states: HashMap<_, _> =
        states.iter().filter_map(|row| Some((states_view.cell(row, "credential_id")?.as_int()?, row))).collect();
    let mut lines = Vec::new();
    for row in &rows {
        let own = |column| rows_view.cell(row, column).unwrap_or(Cell::Null);
        let state = own("id").as_int().and_then(|id| states.get(&id));
        let of_state = |column| state.and_then(|state| states_view.cell(state, column)).unwrap_or(Cell::Null);
        let is = |cell: Cell, word: &str| cell == Cell::Text(word.to_owned());
        let rejected = is(own("status_code"), "ACTIVE") && is(of_state("status_code"), "REJECTED");
        let status = if rejected { of_state("status_code") } else { own("status_code") };
        lines.push(vec![
            ("id", own("id")),
            ("alias", own("alias")),
            ("version", own("version")),
            ("provenance", own("provenance_code")),
            ("endpoint", own("endpoint_name")),
            ("type", own("type_code")),
            ("priority", own("priority")),
            ("status", status),
            ("key_id", own("key_id")),
            ("token_until", of_state("expires_at")),
            ("last_error", of_state("last_error")),
            ("created_at", own("created_at")),
        ]);
    }
    show(global.output, &lines)
}

fn show(format: Output, lines: &[Vec<(&str, Cell)>]) -> Result<(), Error> {
    let value = |cell: &Cell| serde_json::from_str::<Value>(&cell.to_json_text()).unwrap_or_default();
    let objects = lines.iter().map(|line| {
        line.iter().map(|(name, cell)| ((*name).to_owned(), value(cell))).collect::<serde_json::Map<_, _>>()
    });
    match format {
        Output::Json => output::result(format, "", &Value::from_iter(objects.map(Value::Object))),
        Output::Ndjson => objects.map(Value::Object).try_for_each(|object| output::line(&object.to_string())),
        Output::Table if lines.is_empty() => output::line("no credentials"),
        Output::Table => {
            let headings: Vec<_> = lines.first().into_iter().flatten().map(|(name, _)| *name).collect();
            let text = |cell: &Cell| match cell {
                Cell::Null => String::new(),
                Cell::Int(number) => number.to_string(),
                Cell::Time(at) => at.to_short_text(),
                Cell::Text(text) | Cell::Json(text) => text.clone(),
            };
            output::grid(&headings, lines.iter().map(|line| line.iter().map(|(_, cell)| text(cell)).collect()))
        }
    }
}

/// Decrypts the newest active version, and gets a token if one is needed.
async fn check(global: &Global, name: &CredentialArg) -> Result<Exit, Error> {
    let opened = store::open(global).await?;
    // The options may name the endpoint only to say where a token comes from: the credential may be bound to less.
    let mut selected = named(name);
    if admin::find(&*opened.store, &selected).await.is_err() {
        (selected.provenance, selected.endpoint) = (None, None);
    }
    let known = admin::find(&*opened.store, &selected).await.map_err(|error| refused(error, name))?;
    let active = known.into_iter().filter(|one| one.status == CredentialStatus::Active);
    let credential = active.max_by_key(|one| one.version).ok_or_else(|| {
        Error::not_found(format!("every version of `{}` is revoked", name.alias))
            .hint(format!("`patra credential rotate {}` adds a new one", name.alias))
    })?;
    let spec = spec(&*opened.store, name, &credential).await?;
    let transport = host::transport(global)?;
    let ports = Ports { store: Arc::clone(&opened.store), transport, clock: Arc::new(SystemClock) };
    let options = host::credentials(global, &*opened.store).await?;
    let credentials = Credentials::new(ports, options, host::owner()?);
    let checked = credentials.check(&spec, &credential).await;
    credentials.settled().await;
    let state = checked.map_err(|refused| Error::configuration(refused.fault.message))?;
    report(global, name, &credential, &state)?;
    Ok(Exit::Ok)
}

fn report(global: &Global, name: &CredentialArg, credential: &Row, state: &CredentialRuntime) -> Result<(), Error> {
    let token = matches!(credential.auth_type, AuthType::OAuth2 | AuthType::Session);
    let until = state.expires_at.map(Ts::to_short_text);
    let text = match (token, &until) {
        (false, _) => format!("{} can be decrypted: version {}", name.alias, credential.version),
        (true, Some(until)) => format!("{} works: got a token that expires at {until}", name.alias),
        (true, None) => format!("{} works: got a token without an expiry time", name.alias),
    };
    let value = json!({
        "alias": name.alias, "version": credential.version, "type": credential.auth_type.as_str(),
        "token": token, "token_until": state.expires_at,
    });
    output::result(global.output, &text, &value)
}

/// The spec of an endpoint that uses the credential: the named one, the one it is bound to, or the first of its
/// provenance that names the alias.
async fn spec(store: &dyn Store, name: &CredentialArg, credential: &Row) -> Result<Snapshot, Error> {
    let bound = |text: &String| (text != WHOLE).then(|| text.clone());
    let provenance = name.provenance.clone().or_else(|| bound(&credential.binding.provenance_code));
    let provenance = provenance.ok_or_else(|| {
        Error::usage(format!("`{}` is bound to no provenance", name.alias)).hint("name one with --provenance")
    })?;
    let stored = store.registry(&provenance).await?;
    let stored = stored.ok_or_else(|| {
        Error::not_found(format!("no manifest is applied for `{provenance}`"))
            .hint("apply it with `patra apply -f FILE`")
    })?;
    let manifest = patra_spec::registry::manifest(&provenance, &stored.rows)
        .map_err(|problems| Error::configuration(problems.to_string()))?;
    let endpoint = name.endpoint.clone().or_else(|| bound(&credential.binding.endpoint_name));
    let names = manifest.endpoints.keys().filter(|known| endpoint.as_ref().is_none_or(|endpoint| endpoint == *known));
    for endpoint in names {
        let Ok(compiled) = patra_spec::compile(&manifest, endpoint, Operation::Harvest) else { continue };
        let auth = &compiled.snapshot.auth;
        if auth.r#type.as_str() == credential.auth_type.as_str() && auth.credential_ref == name.alias {
            return Ok(compiled.snapshot);
        }
    }
    let kind = credential.auth_type.as_str().to_lowercase();
    Err(Error::not_found(format!("no endpoint of `{provenance}` uses `{}` as {kind}", name.alias))
        .hint("`auth.credential` of the manifest names the alias; the code of the provenance is the default"))
}
