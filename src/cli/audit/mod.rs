//! `sluice audit`: reads, follows, exports, verifies and archives the audit log, from its files alone.
//!
//! The commands work while a gate writes the files, and on another machine.

mod archive;
pub(super) mod entries;
mod export;
pub(super) mod files;
mod forms;
mod key;
mod people;
mod proofs;
mod receipt;
mod show;
mod tail;
mod verify;

pub(super) use people::MEANING;
pub(super) use proofs::read_checkpoint_key;
pub(super) use verify::verified;

use clap::{Args, Subcommand};

use super::ExitReason;

/// Read, follow, export, verify and archive the audit log
///
/// These commands need only the audit files, of one gate or of many, while they are written or years later.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    what: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(verify::AuditVerifyArgs),
    Show(show::AuditShowArgs),
    Tail(tail::AuditTailArgs),
    Export(export::AuditExportArgs),
    CheckExport(export::CheckExportArgs),
    Key(key::AuditKeyArgs),
    Archive(archive::AuditArchiveArgs),
    Receipt(receipt::ReceiptArgs),
    CheckReceipt(receipt::CheckReceiptArgs),
}

pub(super) fn run(arguments: AuditArgs) -> anyhow::Result<ExitReason> {
    match arguments.what {
        AuditCommand::Verify(arguments) => verify::run(&arguments),
        AuditCommand::Show(arguments) => show::run(&arguments),
        AuditCommand::Tail(arguments) => tail::run(&arguments),
        AuditCommand::Export(arguments) => export::run(&arguments),
        AuditCommand::CheckExport(arguments) => export::check(&arguments),
        AuditCommand::Key(arguments) => key::run(&arguments),
        AuditCommand::Archive(arguments) => archive::run(&arguments),
        AuditCommand::Receipt(arguments) => receipt::run(&arguments),
        AuditCommand::CheckReceipt(arguments) => receipt::check(&arguments),
    }
}
