//! Sealing with AES-256-GCM.

use std::fmt;

use aes_gcm::aead::AeadInPlace;
use aes_gcm::{Aes256Gcm, KeyInit, Nonce, Tag};

use super::{SealError, SealedBox, Sealer, SecretError, SecretId};

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Seals with AES-256-GCM (NIST SP 800-38D): 256-bit keys, a fresh random 96-bit nonce for each
/// seal, a 128-bit tag. The box's bytes are nonce, ciphertext, tag.
///
/// # How much one key may seal
/// At most 2³² messages, over all processes that use it together (SP 800-38D, section 8.3): past
/// that the chance of a repeated nonce is over 2⁻³², and one repetition gives the key's
/// authentication away. A record takes one message for its input, one for each recovery point and
/// one for its reply. Nothing here counts across processes; change the key in time. At 1,000
/// messages a second that is every 49 days.
///
/// # Changing the key
/// 1. Give every process the new key with [`with_other_key`](Self::with_other_key), so that all
///    can read it.
/// 2. Then make the new one current ([`new`](Self::new)) and keep the one before as another.
/// 3. Drop the older key when no record that it sealed is left: after the longest retention, and
///    never while a record of it is in progress or kept for ever. A record whose key is gone
///    fails closed.
///
/// # What it does not do
/// A sealed value is bound to its scope and key, not to one life of them: who can write to the
/// database can put an older sealed reply of the same key back. Sizes are not hidden.
///
/// `Debug` shows the ids and none of the keys.
pub struct AesGcmSealer {
    current: (SecretId, Aes256Gcm),
    others: Vec<(SecretId, Aes256Gcm)>,
}

impl AesGcmSealer {
    /// Seals under this key, and reads what it sealed.
    pub fn new(id: SecretId, key: &[u8; 32]) -> Self {
        Self { current: (id, Aes256Gcm::new(key.into())), others: Vec::new() }
    }

    /// Also reads what was sealed under this key: an older one, or the next one.
    ///
    /// # Errors
    /// [`SecretError::RepeatedId`] when a key with this id is there.
    pub fn with_other_key(mut self, id: SecretId, key: &[u8; 32]) -> Result<Self, SecretError> {
        if self.cipher(&id).is_some() {
            return Err(SecretError::RepeatedId { id });
        }
        self.others.push((id, Aes256Gcm::new(key.into())));
        Ok(self)
    }

    fn cipher(&self, id: &SecretId) -> Option<&Aes256Gcm> {
        self.keys().find(|(known, _)| known == id).map(|(_, cipher)| cipher)
    }

    fn keys(&self) -> impl Iterator<Item = &(SecretId, Aes256Gcm)> {
        std::iter::once(&self.current).chain(&self.others)
    }
}

impl Sealer for AesGcmSealer {
    fn seal(&self, associated: &[u8], plain: &[u8]) -> Result<SealedBox, SealError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let mut bytes = Vec::with_capacity(NONCE_BYTES + plain.len() + TAG_BYTES);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(plain);
        let (key_id, cipher) = &self.current;
        let tag = cipher
            .encrypt_in_place_detached(
                Nonce::from_slice(&nonce),
                associated,
                &mut bytes[NONCE_BYTES..],
            )
            .map_err(|_| SealError::TooLarge)?;
        bytes.extend_from_slice(&tag);
        Ok(SealedBox { key_id: key_id.clone(), bytes })
    }

    fn open(
        &self,
        key_id: &SecretId,
        associated: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let cipher = self
            .cipher(key_id)
            .ok_or_else(|| SealError::UnknownKeyId { key_id: key_id.clone() })?;
        let (nonce, rest) =
            sealed.split_at_checked(NONCE_BYTES).ok_or(SealError::Authentication)?;
        let (text, tag) = rest
            .len()
            .checked_sub(TAG_BYTES)
            .map(|at| rest.split_at(at))
            .ok_or(SealError::Authentication)?;
        let mut plain = text.to_vec();
        cipher
            .decrypt_in_place_detached(
                Nonce::from_slice(nonce),
                associated,
                &mut plain,
                Tag::from_slice(tag),
            )
            .map_err(|_| SealError::Authentication)?;
        Ok(plain)
    }
}

impl fmt::Debug for AesGcmSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesGcmSealer")
            .field("current", &self.current.0)
            .field("others", &self.others.iter().map(|(id, _)| id).collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> SecretId {
        SecretId::new(id).unwrap()
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
    }

    /// Test case 16 of the GCM specification that went to NIST.
    #[test]
    fn it_is_aes_256_gcm_laid_out_as_nonce_ciphertext_tag() {
        let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let plain = hex(concat!(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72",
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        ));
        let associated = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let sealed = hex(concat!(
            "cafebabefacedbaddecaf888",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa",
            "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ));
        let sealer = AesGcmSealer::new(id("k"), key.as_slice().try_into().unwrap());
        assert_eq!(sealer.open(&id("k"), &associated, &sealed).unwrap(), plain);
    }

    #[test]
    fn every_seal_has_a_nonce_of_its_own() {
        let sealer = AesGcmSealer::new(id("k"), &[1; 32]);
        let nonces: std::collections::HashSet<_> = (0..1_000)
            .map(|_| sealer.seal(b"", b"same").unwrap().bytes[..NONCE_BYTES].to_vec())
            .collect();
        assert_eq!(nonces.len(), 1_000);
    }

    #[test]
    fn an_older_key_reads_and_does_not_write() {
        let old = AesGcmSealer::new(id("1"), &[1; 32]);
        let new = AesGcmSealer::new(id("2"), &[2; 32]).with_other_key(id("1"), &[1; 32]).unwrap();
        let before = old.seal(b"a", b"plain").unwrap();
        assert_eq!(new.open(&before.key_id, b"a", &before.bytes).unwrap(), b"plain");
        let after = new.seal(b"a", b"plain").unwrap();
        assert_eq!(after.key_id, id("2"));
        let error = old.open(&after.key_id, b"a", &after.bytes).unwrap_err();
        assert!(matches!(error, SealError::UnknownKeyId { key_id } if key_id == id("2")));
    }

    #[test]
    fn too_short_a_box_is_an_error() {
        let sealer = AesGcmSealer::new(id("k"), &[1; 32]);
        for bytes in 0..NONCE_BYTES + TAG_BYTES {
            let error = sealer.open(&id("k"), b"", &vec![0; bytes]).unwrap_err();
            assert!(matches!(error, SealError::Authentication), "{bytes}: {error}");
        }
        let nothing = sealer.seal(b"", b"").unwrap();
        assert!(sealer.open(&id("k"), b"", &nothing.bytes).unwrap().is_empty());
    }

    #[test]
    fn an_id_is_used_once_and_debug_hides_the_keys() {
        let sealer = AesGcmSealer::new(id("k"), &[123; 32]);
        assert_eq!(format!("{sealer:?}"), r#"AesGcmSealer { current: "k", others: [] }"#);
        let error = sealer.with_other_key(id("k"), &[2; 32]).unwrap_err();
        assert_eq!(error, SecretError::RepeatedId { id: id("k") });
    }
}
