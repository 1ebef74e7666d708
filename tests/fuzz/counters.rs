//! The counters that the compiler puts at the edges of the control flow.
//!
//! The only unsafe code of this repository: the compiler hands the counters over by their address.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// The compiler calls this once for the program, before `main`, with the begin and the end of its counters.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start, Ordering::Release);
    LENGTH.store((stop as usize).saturating_sub(start as usize), Ordering::Release);
}

/// Returns how many counters there are.
pub fn count() -> usize {
    LENGTH.load(Ordering::Acquire)
}

/// Calls this with all counters, while nothing that they count runs in another thread.
pub fn with<T>(of: impl FnOnce(&mut [u8]) -> T) -> T {
    let (start, length) = (START.load(Ordering::Acquire), count());
    if start.is_null() {
        return of(&mut []);
    }
    // SAFETY: the counters are static memory of this length, made by the compiler, and live as long as the program. The
    // instrumented code that writes them through other pointers does not run meanwhile: the program has one thread.
    of(unsafe { std::slice::from_raw_parts_mut(start, length) })
}
