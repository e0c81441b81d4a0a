//! One file per command.

mod apply;
mod audit;
mod board;
mod bundle;
mod collect;
mod crawl;
mod credential;
mod db;
mod demo;
mod explain;
mod gates;
mod get;
mod health;
mod key;
mod lineage;
mod operations;
mod pool;
mod registry;
mod replay;
mod run;
mod scrape;
mod serve;
mod source;
mod test;
mod r#try;

use crate::cli::{self, Cli, Command, Cursor};
use crate::error::{Error, Exit};
use crate::{output, store};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Error> {
    let Cli { global, command } = cli;
    match command {
        Command::Serve(args) => serve::run(&global, &args).await,
        Command::Demo(args) => demo::run(&global, &args).await,
        Command::Apply(args) => apply::apply(&global, &args).await,
        Command::Validate(args) => apply::validate(&global, &args),
        Command::Test(args) => test::run(&global, &args),
        Command::Try(args) => r#try::run(&global, &args).await,
        Command::Run(args) => run::run(&global, &args).await,
        Command::Source { command } => source::run(&global, &command).await,
        Command::Collect(args) => collect::run(&global, &args).await,
        Command::Crawl { command } => crawl::run(&global, &command).await,
        Command::Scrape(args) => scrape::run(&global, &args).await,
        Command::Pool { command } => pool::run(&global, &command).await,
        Command::Project { command } => pool::project(&global, &command).await,
        Command::Get(args) => get::run(&global, &args).await,
        Command::Pause(args) => operations::pause(&global, &args).await,
        Command::Cursor { command: Cursor::AcceptGap(args) } => operations::accept_gap(&global, args).await,
        Command::Resume(args) => operations::resume(&global, &args).await,
        Command::Cancel(args) => operations::cancel(&global, &args).await,
        Command::Signal(args) => operations::signal(&global, &args).await,
        Command::Outbox { command } => operations::outbox(&global, &command).await,
        Command::Quarantine { command } => operations::quarantine(&global, &command).await,
        Command::Archive(args) => operations::archive(&global, &args).await,
        Command::Replay(args) => replay::run(&global, &args).await,
        Command::Bundle { command } => bundle::run(&global, &command).await,
        Command::Schema => registry::schema(),
        Command::Migrate => {
            let version = store::open(&global).await?.store.ping().await?;
            let value = serde_json::json!({ "schema_version": version });
            output::result(global.output, &format!("the schema is at version {version}"), &value)?;
            Ok(Exit::Ok)
        }
        Command::Db { command } => db::run(&global, &command).await,
        Command::Audit { command } => audit::run(&global, &command).await,
        Command::Health(args) => health::run(&global, &args).await,
        Command::Key { command } => key::run(&global, &command).await,
        Command::Credential { command } => credential::run(&global, &command).await,
        Command::Explain { code } => explain::run(&global, code.as_deref()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::command(), "patra", &mut script);
            output::line(String::from_utf8_lossy(&script).trim_end())?;
            Ok(Exit::Ok)
        }
        Command::Man { folder } => {
            let written =
                std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(cli::command(), &folder));
            let error = |error| Error::configuration(format!("{} is not writable: {error}", folder.display()));
            written.map_err(error)?;
            Ok(Exit::Ok)
        }
    }
}
