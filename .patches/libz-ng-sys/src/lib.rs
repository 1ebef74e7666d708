//! Stands in for `libz-ng-sys`: flate2's C backend finds here the names that it asks for, answered by the
//! pure-Rust zlib. The original builds zlib-ng with cmake, which a bare machine lacks.
#![allow(non_camel_case_types, non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use core::mem::offset_of;

pub use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_DATA_ERROR, Z_DEFAULT_STRATEGY, Z_DEFLATED, Z_FINISH, Z_FULL_FLUSH, Z_MEM_ERROR,
    Z_NEED_DICT, Z_NO_FLUSH, Z_OK, Z_PARTIAL_FLUSH, Z_STREAM_END, Z_STREAM_ERROR, Z_SYNC_FLUSH, zlibVersion,
};

pub type uInt = c_uint;
pub type voidpf = *mut c_void;

/// Laid out as `libz_rs_sys::z_stream`; the allocators are plain function pointers here and optional ones
/// there, which have the same layout.
#[repr(C)]
pub struct z_stream {
    pub next_in: *mut u8,
    pub avail_in: uInt,
    pub total_in: c_ulong,
    pub next_out: *mut u8,
    pub avail_out: uInt,
    pub total_out: c_ulong,
    pub msg: *mut c_char,
    pub state: *mut c_void,
    pub zalloc: unsafe extern "C" fn(voidpf, uInt, uInt) -> voidpf,
    pub zfree: unsafe extern "C" fn(voidpf, voidpf),
    pub opaque: voidpf,
    pub data_type: c_int,
    pub adler: c_ulong,
    pub reserved: c_ulong,
}

/// Every field lies where the other type has it, or the build fails.
macro_rules! lie_alike {
    ($($field:ident)*) => {
        const _: () = {
            assert!(size_of::<z_stream>() == size_of::<libz_rs_sys::z_stream>());
            assert!(align_of::<z_stream>() == align_of::<libz_rs_sys::z_stream>());
            $(assert!(offset_of!(z_stream, $field) == offset_of!(libz_rs_sys::z_stream, $field));)*
        };
    };
}

lie_alike! {
    next_in avail_in total_in next_out avail_out total_out msg state zalloc zfree opaque data_type adler reserved
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $kind:ty),*);)*) => {$(
        pub unsafe extern "C" fn $name(stream: *mut z_stream $(, $arg: $kind)*) -> c_int {
            unsafe { libz_rs_sys::$name(stream.cast() $(, $arg)*) }
        }
    )*};
}

forward! {
    deflate(flush: c_int);
    deflateEnd();
    deflateReset();
    deflateParams(level: c_int, strategy: c_int);
    deflateSetDictionary(dictionary: *const u8, length: uInt);
    deflateInit2_(level: c_int, method: c_int, window: c_int, memory: c_int, strategy: c_int, version: *const c_char, size: c_int);
    inflate(flush: c_int);
    inflateEnd();
    inflateSetDictionary(dictionary: *const u8, length: uInt);
    inflateInit2_(window: c_int, version: *const c_char, size: c_int);
    inflateReset2(window: c_int);
}
