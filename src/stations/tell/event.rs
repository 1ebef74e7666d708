//! What can be told, and of which Entries it is told.

use crate::stations::record::What;

/// What happened to a call, as webhooks are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Held,
    Voted,
    Withdrawn,
    Approved,
    /// It takes more people than agreed.
    Reopened,
    /// It expires soon.
    Reminder,
    Rejected,
    Expired,
    Cancelled,
    Blocked,
    Released,
    /// It certainly was not sent, and is tried again until it expires.
    NotSent,
    Executed,
    NotExecuted,
    /// Nobody knows whether it was executed; whether people had approved it or not.
    InDoubt,
}

impl Event {
    pub const ALL: [Event; 15] = [
        Event::Held,
        Event::Voted,
        Event::Withdrawn,
        Event::Approved,
        Event::Reopened,
        Event::Reminder,
        Event::Rejected,
        Event::Expired,
        Event::Cancelled,
        Event::Blocked,
        Event::Released,
        Event::NotSent,
        Event::Executed,
        Event::NotExecuted,
        Event::InDoubt,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Event::Held => "hold.held",
            Event::Voted => "hold.voted",
            Event::Withdrawn => "hold.withdrawn",
            Event::Approved => "hold.approved",
            Event::Reopened => "hold.reopened",
            Event::Reminder => "hold.reminder",
            Event::Rejected => "hold.rejected",
            Event::Expired => "hold.expired",
            Event::Cancelled => "hold.cancelled",
            Event::Blocked => "hold.blocked",
            Event::Released => "hold.released",
            Event::NotSent => "hold.not-sent",
            Event::Executed => "hold.executed",
            Event::NotExecuted => "hold.not-executed",
            Event::InDoubt => "request.in-doubt",
        }
    }

    pub fn parse(text: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.as_str() == text)
    }

    /// As people are told.
    pub fn in_words(self) -> &'static str {
        match self {
            Event::Held => "A call waits for approval",
            Event::Voted => "Somebody approved a call that waits",
            Event::Withdrawn => "Somebody withdrew an approval",
            Event::Approved => "A call is approved, and will be sent",
            Event::Reopened => "A call that was approved needs more people",
            Event::Reminder => "A call that waits expires soon",
            Event::Rejected => "A call was rejected; it will not be sent",
            Event::Expired => "A call expired; it will not be sent",
            Event::Cancelled => "A call was cancelled by its caller; it will not be sent",
            Event::Blocked => "A call was approved, and the rules of today deny it; it will not be sent",
            Event::Released => "An approved call is being sent",
            Event::NotSent => "An approved call could not be sent; it is tried again until it expires",
            Event::Executed => "An approved call was executed",
            Event::NotExecuted => "An approved call was sent, and not executed",
            Event::InDoubt => "A call is in doubt: it was sent, and nobody knows whether it was executed",
        }
    }

    /// What an Entry tells by itself; what else it depends on is seen where it is filed.
    pub(super) fn of(what: &str) -> Option<Event> {
        TOLD.iter().find(|(told, _)| told.as_str() == what).map(|(_, event)| *event)
    }
}

const TOLD: [(What, Event); 14] = [
    (What::Held, Event::Held),
    (What::Voted, Event::Voted),
    (What::Withdrawn, Event::Withdrawn),
    (What::Reopened, Event::Reopened),
    (What::Reminded, Event::Reminder),
    (What::Rejected, Event::Rejected),
    (What::Expired, Event::Expired),
    (What::Cancelled, Event::Cancelled),
    (What::Blocked, Event::Blocked),
    (What::Sending, Event::Released),
    (What::Undone, Event::NotSent),
    (What::Executed, Event::Executed),
    (What::NotExecuted, Event::NotExecuted),
    (What::Unknown, Event::InDoubt),
];
