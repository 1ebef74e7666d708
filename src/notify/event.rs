//! The events that are sent to webhooks, and their audit entries.

use crate::audit::EntryKind;
use crate::base::word_enum::word_enum;

word_enum! {
    /// An event of a call, or of the policies, as webhooks get it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NoticeEvent {
        Held = "hold.held",
        Voted = "hold.voted",
        Withdrawn = "hold.withdrawn",
        Approved = "hold.approved",
        /// The hold needs more approvals.
        Reopened = "hold.reopened",
        /// The hold expires soon.
        Reminder = "hold.reminder",
        Rejected = "hold.rejected",
        Expired = "hold.expired",
        Cancelled = "hold.cancelled",
        Blocked = "hold.blocked",
        Released = "hold.released",
        /// The call was certainly not sent, and is tried again until the hold expires.
        NotSent = "hold.not-sent",
        Executed = "hold.executed",
        NotExecuted = "hold.not-executed",
        /// The outcome is unknown, whether people had approved the call or not.
        InDoubt = "request.in-doubt",
        /// Upstream shows that a payment reached its next state, and is under way.
        PaymentOpen = "payment.open",
        /// Upstream shows that a payment arrived.
        PaymentSettled = "payment.settled",
        /// Upstream shows that a payment did not arrive.
        PaymentFailed = "payment.failed",
        /// Upstream shows that a payment came back.
        PaymentReturned = "payment.returned",
        /// Upstream shows a payment that no gate sent, or that is not as it was sent.
        PaymentForeign = "payment.foreign",
        /// Policies that may allow more wait until two people agree.
        PoliciesWait = "policies.waiting",
    }
}

impl NoticeEvent {
    /// The event in words.
    pub fn in_words(self) -> &'static str {
        match self {
            NoticeEvent::Held => "A call waits for approval",
            NoticeEvent::Voted => "Somebody approved a call that waits",
            NoticeEvent::Withdrawn => "Somebody withdrew an approval",
            NoticeEvent::Approved => "A call is approved, and will be sent",
            NoticeEvent::Reopened => "A held call needs more people than before",
            NoticeEvent::Reminder => "A call that waits expires soon",
            NoticeEvent::Rejected => "A call was rejected; it will not be sent",
            NoticeEvent::Expired => "A call expired; it will not be sent",
            NoticeEvent::Cancelled => "A call was cancelled by its caller; it will not be sent",
            NoticeEvent::Blocked => {
                "A hold is blocked: today's rules deny its call, or its call ended without it; nothing will be sent for it"
            }
            NoticeEvent::Released => "An approved call is being sent",
            NoticeEvent::NotSent => "An approved call could not be sent; it is tried again until it expires",
            NoticeEvent::Executed => "An approved call was executed",
            NoticeEvent::NotExecuted => "An approved call was sent, and not executed",
            NoticeEvent::InDoubt => "A call is in doubt: it was sent, and nobody knows whether it was executed",
            NoticeEvent::PaymentOpen => "A payment is under way",
            NoticeEvent::PaymentSettled => "A payment arrived",
            NoticeEvent::PaymentFailed => "A payment failed; it did not arrive",
            NoticeEvent::PaymentReturned => "A payment came back",
            NoticeEvent::PaymentForeign => {
                "The payments API shows a payment that was not sent through Sluice, or not like that: find out who made it"
            }
            NoticeEvent::PoliciesWait => "New policies may allow more, and wait until two people agree",
        }
    }

    /// The event of an entry kind; filing knows the rest.
    pub(super) fn of(what: &str) -> Option<NoticeEvent> {
        TOLD.iter().find(|(told, _)| told.as_str() == what).map(|(_, event)| *event)
    }
}

/// Returns the events of a payment that upstream's list shows: what its new state means, and what is wrong with it.
pub(super) fn of_followed(meaning: Option<&str>, has_problem: bool) -> impl Iterator<Item = NoticeEvent> {
    let moved = match meaning {
        Some("open") => Some(NoticeEvent::PaymentOpen),
        Some("settled") => Some(NoticeEvent::PaymentSettled),
        Some("failed") => Some(NoticeEvent::PaymentFailed),
        Some("returned") => Some(NoticeEvent::PaymentReturned),
        _ => None,
    };
    moved.into_iter().chain(has_problem.then_some(NoticeEvent::PaymentForeign))
}

const TOLD: [(EntryKind, NoticeEvent); 15] = [
    (EntryKind::Held, NoticeEvent::Held),
    (EntryKind::Voted, NoticeEvent::Voted),
    (EntryKind::Withdrawn, NoticeEvent::Withdrawn),
    (EntryKind::Reopened, NoticeEvent::Reopened),
    (EntryKind::Reminded, NoticeEvent::Reminder),
    (EntryKind::Rejected, NoticeEvent::Rejected),
    (EntryKind::Expired, NoticeEvent::Expired),
    (EntryKind::Cancelled, NoticeEvent::Cancelled),
    (EntryKind::Blocked, NoticeEvent::Blocked),
    (EntryKind::Sending, NoticeEvent::Released),
    (EntryKind::Undone, NoticeEvent::NotSent),
    (EntryKind::Executed, NoticeEvent::Executed),
    (EntryKind::NotExecuted, NoticeEvent::NotExecuted),
    (EntryKind::Unknown, NoticeEvent::InDoubt),
    (EntryKind::Waits, NoticeEvent::PoliciesWait),
];
