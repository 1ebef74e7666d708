//! Certificates made at run time.
