//! `audit security`: looks for plaintext secrets and for unprotected access (CRAWL-154, 155). It changes nothing, and a
//! finding names the place, never the value.

mod database;
mod files;
mod needles;
mod patterns;
mod report;
mod settings;
mod workflows;

use crate::cli::{Audit, AuditSecurity, Global};
use crate::error::{Error, Exit};
use crate::settings::Environment;
use crate::{output, store, vault};

use self::needles::Needles;
use self::report::{Level, Report};

/// Default folder of workflow files, checked if it exists.
const WORKFLOWS: &str = "deploy/n8n";

pub(crate) async fn run(global: &Global, command: &Audit) -> Result<Exit, Error> {
    let Audit::Security(args) = command;
    let report = security(global, args).await?;
    let value = report.to_value();
    output::result(global.output, &serde_json::to_string_pretty(&value).unwrap_or_default(), &value)?;
    Ok(if report.passed() { Exit::Ok } else { Exit::Failures })
}

async fn security(global: &Global, args: &AuditSecurity) -> Result<Report, Error> {
    let (mut report, mut needles) = (Report::default(), Needles::default());
    let environment = Environment::read();
    settings::environment(&environment, &mut report);
    settings::modes(global, &mut report);
    settings::keys(global, &environment, &mut needles);
    match store::open_to_scan(global).await? {
        Some(scan) => {
            let salt = database::salt(&*scan).await?;
            let keys = vault::load(global, salt.as_deref()).unwrap_or_else(|error| {
                let hint = "give the key that the credentials were encrypted with; `openssl rand -base64 32` creates a new one";
                report.add(Level::Critical, "master_key", "settings", error.message(), hint);
                None
            });
            database::sealed(&*scan, keys.as_deref(), &mut report, &mut needles).await?;
            database::everything(&*scan, &needles, &mut report).await?;
        }
        None => {
            let place = store::database_file(global).display().to_string();
            report.add(Level::Medium, "database", place, "there is no database here", "name its folder with --data");
        }
    }
    for path in &args.logs {
        files::logs(path, &needles, &mut report)?;
    }
    match &args.workflows {
        Some(folder) => workflows::check(folder, &needles, &mut report)?,
        None if std::path::Path::new(WORKFLOWS).is_dir() => {
            workflows::check(WORKFLOWS.as_ref(), &needles, &mut report)?;
        }
        None => {}
    }
    settings::files(&args.config, &needles, &mut report)?;
    Ok(report)
}
