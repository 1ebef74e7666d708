//! Configuration: from what was written to what is meant.
//!
//! One table says which settings there are; the parser, the names of environment variables, the reference file
//! and the help derive from it. All that is wrong is told at once, each with its place and a remedy. Nothing here
//! reads the environment or a file by itself: both come in through [`World`].

mod meant;

pub use meant::{
    AnswerMode, CatalogConfig, Config, EnvironmentConfig, LimitsConfig, ListenerTls, LogConfig, LogFormat, LogLevel,
    ProbesConfig, TimeoutsConfig, UpstreamConfig,
};
