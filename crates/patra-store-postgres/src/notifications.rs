//! Notifications from other processes, received on a connection of their own.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};

use crate::Options;
use crate::pool::quoted;

/// Pause before a lost connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The connection is opened on the first call of `next`: most processes never listen.
#[derive(Clone, Debug)]
pub(crate) struct Notifications {
    config: Config,
    schema: Option<String>,
    receiver: Arc<Mutex<Option<mpsc::UnboundedReceiver<String>>>>,
}

impl Notifications {
    pub(crate) fn new(config: &Config, options: &Options) -> Notifications {
        Notifications { config: config.clone(), schema: options.schema.clone(), receiver: Arc::default() }
    }

    /// Waits for the next key. A dropped wait loses nothing: the next one returns what was received meanwhile.
    pub(crate) async fn next(&self) -> String {
        let mut receiver = self.receiver.lock().await;
        let receiver = receiver.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(listen(self.config.clone(), self.schema.clone(), sender));
            receiver
        });
        // The sender ends only with the runtime.
        receiver.recv().await.unwrap_or_default()
    }
}

async fn listen(config: Config, schema: Option<String>, sender: mpsc::UnboundedSender<String>) {
    while !sender.is_closed() {
        if let Err(error) = receive(&config, schema.as_deref(), &sender).await {
            tracing::debug!(%error, "the connection for notifications of the rate gate ended");
        }
        tokio::time::sleep(PAUSE).await;
        // Notifications may have been missed: an empty key means that everything may have changed.
        let _gone = sender.send(String::new());
    }
}

/// Listens until the connection ends.
async fn receive(config: &Config, schema: Option<&str>, sender: &mpsc::UnboundedSender<String>) -> Result<(), Error> {
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
                let _gone = sender.send(key.to_owned());
            }
        }
        Ok(())
    };
    tokio::try_join!(driver, reader).map(|_: ((), ())| ())
}

/// Subscribes, and returns the schema whose notifications are for this store.
async fn subscribe(client: &Client, schema: Option<&str>) -> Result<String, Error> {
    if let Some(schema) = schema {
        client.batch_execute(&format!("SET search_path = {}", quoted(schema))).await?;
    }
    client.batch_execute("LISTEN patra_gate").await?;
    client.query_one("SELECT current_schema()", &[]).await?.try_get(0)
}
