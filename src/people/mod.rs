//! People at the console: sign-in, sessions, agreements, and what they see.
//!
//! | module | what it owns |
//! |---|---|
//! | `sign_in` | the code flow of an OpenID provider, and the demands on its ID token |
//! | `session` | a session's record: begun, used, ended |
//! | `agreement` | two people who agree that a looser set of policies takes force |
//! | `joint_act` | two people who lift a freeze, or show that a call was executed |
//! | `signed_act` | what a passkey signs for such an act, and whose signatures count |
//! | `key_recovery` | recovery keys that lie offline, and enrol passkeys |
//! | `visibility` | whose calls a role sees at the console |
//! | `activation` | the record of the set and the contract in force, and the commits that write it |
//! | `signed_payments` | proves who agreed to a payment, from audit entries and archived sets |

pub mod activation;
pub mod agreement;
pub mod joint_act;
pub mod key_recovery;
pub mod session;
pub mod sign_in;
pub mod signed_act;
pub mod signed_payments;
pub mod succession;
pub mod visibility;
