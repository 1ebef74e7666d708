//! People at the console: sign-in, sessions, and agreements.
//!
//! | module | what it owns |
//! |---|---|
//! | `sign_in` | the code flow of an OpenID provider, and the demands on its ID token |
//! | `session` | a session's record: begun, used, ended |
//! | `agreement` | two people who agree that a looser set of policies takes force |

pub mod agreement;
pub mod session;
pub mod sign_in;
