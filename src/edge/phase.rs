//! How far the end of a process has come. `serve::ending` moves it; listeners and probes follow it.

/// The phases, in order; `serve::ending` says what each one means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    Leaving,
    Closing,
    Refusing,
    Over,
}
