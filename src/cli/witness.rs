//! `sluice witness`: signs the checkpoints of journals that only grew, on another machine than theirs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::audit::read_checkpoint_key;
use super::{ExitReason, print, read_named_file};
use crate::adapters::audit::SigningKey;
use crate::adapters::clock::SystemClock;
use crate::audit::NoteKeyKind;
use crate::config::{LogConfig, LogFormat, LogLevel};
use crate::telemetry;
use crate::witness::{Witness, WitnessError, serve};

/// Run a witness of journals
///
/// Run it on a machine of somebody else than those who can change the journals: of the auditors, or of another company. It
/// signs a checkpoint of a journal only if the journal has all lines of the checkpoint that it signed before, so nobody can be
/// shown another journal. It learns nothing of payments. Its folder must never be set back.
///
/// Gates ask it for signatures (`[witness.NAME]`), by the protocol `tlog-witness` of C2SP. Auditors get the last checkpoint of
/// each journal at `/checkpoints`. It ends with Ctrl-C or SIGTERM.
#[derive(Debug, Args)]
pub(super) struct WitnessArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:9470", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The name of the witness: best a domain of its operator
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The private key of the witness; `sluice audit key` makes one
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The public key of journals whose checkpoints it signs: the `.pub` file of their `audit.checkpoint_key`; may be given
    /// several times
    #[arg(long = "log-key", value_name = "FILE", required_unless_present = "show_key")]
    logs: Vec<PathBuf>,
    /// The folder where it remembers what it signed; it is made if it is not there
    #[arg(long, default_value = "sluice-witness", value_name = "FOLDER")]
    folder: PathBuf,
    /// Print the witness's key for gates and auditors, and end
    #[arg(long)]
    show_key: bool,
}

pub(super) fn run(arguments: &WitnessArgs) -> anyhow::Result<ExitReason> {
    let pem = read_named_file(&arguments.key)?;
    let signing = SigningKey::of_pem(&pem).ok_or_else(|| {
        anyhow!("`{}` is not a private key; `sluice audit key FILE` makes one", arguments.key.display())
    })?;
    if arguments.show_key {
        let key = signing.named(&arguments.name, NoteKeyKind::Witness);
        let key = key.ok_or_else(|| WitnessError::Name(arguments.name.clone()))?;
        print(&format!("{key}\n"))?;
        return Ok(ExitReason::Done);
    }
    let logs = arguments.logs.iter().map(|path| read_checkpoint_key(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let witness = Witness::open(&arguments.name, signing, logs, &arguments.folder, Arc::new(SystemClock))?;
    let _log = telemetry::init(&LogConfig { format: LogFormat::Auto, level: LogLevel::Info });
    let runtime = tokio::runtime::Runtime::new().context("the async runtime cannot start")?;
    runtime.block_on(listen(arguments, witness))
}

async fn listen(arguments: &WitnessArgs, witness: Witness) -> anyhow::Result<ExitReason> {
    let (address, folder) = (arguments.listen, arguments.folder.display());
    let bound = TcpListener::bind(address).await;
    let listener =
        bound.with_context(|| format!("cannot listen on `{address}`; choose another address with `--listen`"))?;
    let address = listener.local_addr().context("the address of the listener is unknown")?;
    let mut term = signal(SignalKind::terminate()).context("the witness cannot wait for signals")?;
    let count = witness.signed().len();
    print(&format!(
        "The witness listens on http://{address}; Ctrl-C ends it. It remembers {count} journals in `{folder}`.\nIts key, for gates \
         and auditors:\n{}\n",
        witness.key()
    ))?;
    tokio::select! {
        () = serve(Arc::new(witness), listener) => {}
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
    }
    Ok(ExitReason::Done)
}
