//! Compression of what is stored: records and entries are short texts that have most of their words in common.
//!
//! The common words stand in `common_text.jsonl`, which both sides know, so that even a short text becomes a fourth or
//! less. **That file is a part of the stored format**: what was packed with another one cannot be read. A text is packed
//! before it is sealed, so its length tells whoever reads the store a little of how common its words are.

use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;

use bytes::Bytes;
use thiserror::Error;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe;

/// The first bytes of what is packed. No text of Sluice begins so.
pub(super) const PACKED: &[u8] = b"\0z1";
/// Higher levels take longer, and save less than a tenth more.
const LEVEL: i32 = 1;
/// The most bytes that are unpacked: more than any record or entry has.
const MOST: usize = 64 << 20;
static COMMON_TEXT: &[u8] = include_bytes!("common_text.jsonl");

static PACKING: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(COMMON_TEXT, LEVEL));
static UNPACKING: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(COMMON_TEXT));

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = RefCell::new(packer().ok());
    static UNPACKER: RefCell<Option<Decompressor<'static>>> =
        RefCell::new(Decompressor::with_prepared_dictionary(&UNPACKING).ok());
}

/// What is stored begins like something packed, and is not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("what is packed cannot be unpacked: {0}")]
pub(super) struct UnpackError(String);

fn packer() -> io::Result<Compressor<'static>> {
    let mut packer = Compressor::with_prepared_dictionary(&PACKING)?;
    // A short text has no room for what is known anyway.
    packer.set_parameter(zstd_safe::CParameter::DictIdFlag(false))?;
    packer.set_parameter(zstd_safe::CParameter::ChecksumFlag(false))?;
    Ok(packer)
}

/// Returns the packed form of a text, or the text itself where that is not shorter.
pub(super) fn pack(text: &[u8]) -> Bytes {
    let room = zstd_safe::compress_bound(text.len()).saturating_add(PACKED.len());
    let mut packed = vec![0; room];
    let length = PACKER.with_borrow_mut(|packer| {
        let (head, content) = packed.split_at_mut_checked(PACKED.len())?;
        head.copy_from_slice(PACKED);
        packer.as_mut()?.compress_to_buffer(text, content).ok()
    });
    match length.map(|length| length.saturating_add(PACKED.len())) {
        Some(length) if length < text.len() || text.starts_with(PACKED) => {
            packed.truncate(length);
            packed.into()
        }
        _ => Bytes::copy_from_slice(text),
    }
}

/// Returns the text that was packed.
pub(super) fn unpack(stored: Bytes) -> Result<Bytes, UnpackError> {
    let Some(packed) = stored.strip_prefix(PACKED) else { return Ok(stored) };
    let broken = |why: &str| UnpackError(why.to_owned());
    let length = zstd_safe::get_frame_content_size(packed).ok().flatten();
    let length = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= MOST);
    let length = length.ok_or_else(|| broken("its length is not told, or too great"))?;
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = unpacker.as_mut().ok_or_else(|| broken("there is no memory"))?;
        let text = unpacker.decompress(packed, length).map_err(|error| broken(&error.to_string()))?;
        Ok(text.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Fingerprint;

    #[test]
    fn the_common_text_is_a_part_of_the_stored_format() {
        let digest = Fingerprint::of(&[COMMON_TEXT]).to_hex();
        assert_eq!(
            digest, "ae8e2c215ae2422b0903b3eb562e9ee91c5a3ead2ee4bc97bec1057c2def0f84",
            "with another common text nothing can be read that was stored before: raise the formats"
        );
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let record = br#"{"attempts":[],"fingerprint":"ab","format":1,"hold":null,"operation":"createSwap"}"#;
        let packed = pack(record);
        assert!(packed.len() * 2 < record.len(), "{}", packed.len());
        assert_eq!(unpack(packed).unwrap(), &record[..]);
        let random: Vec<u8> = (0..200_u32).map(|nth| (nth.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for text in [&b""[..], b"{}", b"\0z1", b"\0z1 is the text itself", &random, &vec![b'x'; 5 << 20]] {
            assert_eq!(unpack(pack(text)).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_refused() {
        let packed = pack(COMMON_TEXT);
        for length in PACKED.len()..packed.len() {
            assert!(unpack(packed.slice(..length)).is_err(), "{length}");
        }
        let mut changed = packed.to_vec();
        changed[6] ^= 0xff;
        assert!(unpack(changed.into()).is_err());
        // A frame that says that it has 2^40 bytes.
        let huge = [PACKED, &[0x28, 0xb5, 0x2f, 0xfd, 0xe0], &(1_u64 << 40).to_le_bytes(), &[1, 0, 0]].concat();
        assert!(unpack(huge.into()).is_err());
    }
}
