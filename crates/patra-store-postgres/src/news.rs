//! What other processes have to say at once: a connection of its own that listens.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};

use crate::Options;
use crate::pool::quoted;

/// Before a lost connection is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Opened when somebody listens for the first time: most processes never do.
#[derive(Clone, Debug)]
pub(crate) struct News {
    config: Config,
    schema: Option<String>,
    heard: Arc<Mutex<Option<mpsc::UnboundedReceiver<String>>>>,
}

impl News {
    pub(crate) fn new(config: &Config, options: &Options) -> News {
        News { config: config.clone(), schema: options.schema.clone(), heard: Arc::default() }
    }

    /// The next key. Whoever stops waiting misses nothing: what was heard meanwhile comes next.
    pub(crate) async fn next(&self) -> String {
        let mut heard = self.heard.lock().await;
        let receiver = heard.get_or_insert_with(|| {
            let (tell, receiver) = mpsc::unbounded_channel();
            tokio::spawn(listen(self.config.clone(), self.schema.clone(), tell));
            receiver
        });
        // It ends only with the runtime.
        receiver.recv().await.unwrap_or_default()
    }
}

async fn listen(config: Config, schema: Option<String>, tell: mpsc::UnboundedSender<String>) {
    while !tell.is_closed() {
        if let Err(error) = hear(&config, schema.as_deref(), &tell).await {
            tracing::debug!(%error, "not listening for news of the rate gate");
        }
        tokio::time::sleep(PAUSE).await;
        // Nobody knows what was said meanwhile: everything may have changed.
        let _gone = tell.send(String::new());
    }
}

/// Listens until the connection ends.
async fn hear(config: &Config, schema: Option<&str>, tell: &mpsc::UnboundedSender<String>) -> Result<(), Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let (passed, mut messages) = mpsc::unbounded_channel();
    let driver = async move {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message? {
                let _gone = passed.send(note.payload().to_owned());
            }
        }
        Ok(())
    };
    let reader = async {
        let own = subscribe(&client, schema).await?;
        while let Some(payload) = messages.recv().await {
            if let Some((_, key)) = payload.split_once(' ').filter(|(schema, _)| *schema == own) {
                let _gone = tell.send(key.to_owned());
            }
        }
        Ok(())
    };
    tokio::try_join!(driver, reader).map(|_: ((), ())| ())
}

/// The schema whose news are ours.
async fn subscribe(client: &Client, schema: Option<&str>) -> Result<String, Error> {
    if let Some(schema) = schema {
        client.batch_execute(&format!("SET search_path = {}", quoted(schema))).await?;
    }
    client.batch_execute("LISTEN patra_gate").await?;
    client.query_one("SELECT current_schema()", &[]).await?.try_get(0)
}
