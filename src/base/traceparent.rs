//! W3C trace context: the trace of a request, and the span that made it.

use std::fmt;

/// A valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Not zero.
    pub trace: u128,
    /// Not zero.
    pub span: u64,
    pub is_sampled: bool,
}

impl TraceParent {
    /// Parses version 00, and the known part of a later version.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let (known, rest) = text.split_at_checked(55)?;
        let mut parts = known.split('-');
        let mut next = |length: usize| parts.next().filter(|part| part.len() == length && is_hex(part));
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let is_whole = match version {
            "ff" => false,
            "00" => rest.is_empty(),
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let trace = u128::from_str_radix(trace, 16).ok()?;
        let span = u64::from_str_radix(span, 16).ok()?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let is_good = is_whole && parts.next().is_none() && trace != 0 && span != 0;
        is_good.then_some(TraceParent { trace, span, is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceParent { trace, span, is_sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*is_sampled))
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_good_is_read_and_written_alike() {
        let parent = TraceParent::parse(GOOD).unwrap();
        assert_eq!((parent.to_string().as_str(), parent.is_sampled), (GOOD, true));
        let unsampled = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap();
        assert!(!unsampled.is_sampled);
        let later = format!("01{}-what-is-new", &GOOD[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parent));
    }

    #[test]
    fn what_is_malformed_is_none() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        for text in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-more"),
            &format!("ff{}", &GOOD[2..]),
            &format!("01{}x", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace('-', "_"),
            &GOOD.replace("0a", "0g"),
            &GOOD.replace("0a", "é"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }
}
