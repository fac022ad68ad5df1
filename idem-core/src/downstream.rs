//! Downstream keys: what an execution passes to a payment provider, a queue or a mail service so
//! that its own retries collapse to one effect there.
//!
//! The key is derived, not drawn, so that every attempt at a record passes the same one (R20).
//! How it is derived is a stored contract: version 1 is written down in
//! `docs/downstream-keys.md`, with test vectors, and never changes.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::codec::{Label, LabelError, check_text};
use crate::key::{Key, Scope};
use crate::seal::{SecretBytes, SecretError, SecretId};

mod downstream_key;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use self::downstream_key::DownstreamKey;

/// The derivation that new records get, and the only one that this build knows.
pub const DERIVATION_VERSION: u8 = 1;

/// The least length of a derivation secret, in bytes: the output of its hash (RFC 2104,
/// section 3).
pub const MIN_SECRET_BYTES: usize = 32;

const DOMAIN: &[u8] = b"idem downstream key 1";

/// What sets this service's downstream keys apart from another's at the same downstream account:
/// 1 to 255 bytes of UTF-8, such as the service's and the environment's name.
///
/// It is not a secret.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// A namespace from text.
    ///
    /// # Errors
    /// [`LabelError`] when it is empty or longer than 255 bytes.
    pub fn new(namespace: impl AsRef<str>) -> Result<Self, LabelError> {
        let namespace = namespace.as_ref();
        check_text(Label::Namespace, namespace)?;
        Ok(Self(namespace.into()))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How downstream keys of one record are derived: it stands in the record, so that a changed
/// setting does not change the keys of work under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Derivation {
    /// The version of the contract.
    pub version: u8,
    /// The namespace when the record was made.
    pub namespace: Namespace,
    /// The secret that was current when the record was made; `None` derives without a secret.
    pub secret_id: Option<SecretId>,
}

/// What a downstream key is derived from, beside the [`Derivation`].
///
/// Everything here stays the same over all attempts at one record. The attempt, the lease, the
/// owner and the time are no part of it.
#[derive(Clone, Copy)]
pub struct KeyParts<'a> {
    /// The record's scope.
    pub scope: &'a Scope,
    /// The record's key.
    pub key: &'a Key,
    /// The record's operation.
    pub operation: &'a str,
    /// The scheme byte of the fingerprint that stands in the record.
    pub fingerprint_scheme: u8,
    /// The 32 bytes of the fingerprint that stands in the record: a key that is reused for
    /// another request after expiry must not meet the old request's effect.
    pub fingerprint_digest: &'a [u8; 32],
    /// Which of the operation's downstream calls this is.
    pub step: &'a str,
    /// 0, and one more after each definite failure that is tried again at a downstream which
    /// remembers failures under their key. It is checkpointed before it is used.
    pub generation: u32,
}

/// The namespace and the secrets that downstream keys are derived with.
///
/// With a secret, whoever knows a record's scope and key cannot work out its downstream keys;
/// that matters where several services or tenants share one downstream account.
///
/// Secrets are changed like this: give every process the new one with
/// [`with_other_secret`](Self::with_other_secret), then make it the current one with
/// [`with_secret`](Self::with_secret), and drop the one before when no record under way is left
/// that was made with it.
///
/// `Debug` shows the ids and none of the secrets (R24).
///
/// ```
/// use idem_core::downstream::{DownstreamKeys, KeyParts, Namespace};
/// use idem_core::key::{Key, Scope};
/// use idem_core::seal::SecretId;
///
/// let keys = DownstreamKeys::new(Namespace::new("payments/production")?)
///     .with_secret(SecretId::new("2026-11")?, [7; 32])?;
/// // Stored in the record when it is made, and read back from it on every attempt.
/// let derivation = keys.derivation();
/// let (scope, key) = (Scope::new("acct_1")?, Key::new("order-7")?);
/// let charge = keys.key(
///     &derivation,
///     &KeyParts {
///         scope: &scope,
///         key: &key,
///         operation: "charges.create",
///         fingerprint_scheme: 1,
///         fingerprint_digest: &[0; 32],
///         step: "charge",
///         generation: 0,
///     },
/// )?;
/// assert_eq!(charge.as_str().len(), 36);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DownstreamKeys {
    namespace: Namespace,
    current: Option<SecretId>,
    secrets: Vec<(SecretId, SecretBytes)>,
}

impl DownstreamKeys {
    /// Derives without a secret.
    pub fn new(namespace: Namespace) -> Self {
        Self { namespace, current: None, secrets: Vec::new() }
    }

    /// Derives the keys of new records with this secret, of at least [`MIN_SECRET_BYTES`] bytes.
    /// One that was current before stays usable.
    ///
    /// # Errors
    /// [`SecretError`] when it is too short or its id is taken.
    pub fn with_secret(self, id: SecretId, secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        let mut keys = self.with_other_secret(id.clone(), secret)?;
        keys.current = Some(id);
        Ok(keys)
    }

    /// Also derives the keys of records that were made with this secret: an older one, or the
    /// next one.
    ///
    /// # Errors
    /// [`SecretError`] when it is too short or its id is taken.
    pub fn with_other_secret(
        mut self,
        id: SecretId,
        secret: impl AsRef<[u8]>,
    ) -> Result<Self, SecretError> {
        let secret = SecretBytes::new(secret.as_ref(), MIN_SECRET_BYTES)?;
        if self.secret(&id).is_some() {
            return Err(SecretError::RepeatedId { id });
        }
        self.secrets.push((id, secret));
        Ok(self)
    }

    /// What a record that is made now stores.
    pub fn derivation(&self) -> Derivation {
        Derivation {
            version: DERIVATION_VERSION,
            namespace: self.namespace.clone(),
            secret_id: self.current.clone(),
        }
    }

    /// The downstream key under the derivation that stands in the record.
    ///
    /// # Errors
    /// [`DerivationError`] when the record's version is not known or its secret is not at hand.
    /// There is no other key to use then: the call would stand beside an earlier one.
    pub fn key(
        &self,
        derivation: &Derivation,
        parts: &KeyParts<'_>,
    ) -> Result<DownstreamKey, DerivationError> {
        if derivation.version != DERIVATION_VERSION {
            return Err(DerivationError::UnknownVersion { version: derivation.version });
        }
        let namespace = &derivation.namespace;
        let digest: [u8; 32] = match &derivation.secret_id {
            None => {
                let mut hash = Sha256::new();
                absorb(namespace, parts, |bytes| Digest::update(&mut hash, bytes));
                hash.finalize().into()
            }
            Some(id) => {
                let secret = self
                    .secret(id)
                    .ok_or_else(|| DerivationError::UnknownSecret { id: id.clone() })?;
                let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
                    .expect("HMAC takes a key of any length");
                absorb(namespace, parts, |bytes| mac.update(bytes));
                mac.finalize().into_bytes().into()
            }
        };
        Ok(DownstreamKey::from_digest(&digest))
    }

    fn secret(&self, id: &SecretId) -> Option<&SecretBytes> {
        self.secrets.iter().find(|(known, _)| known == id).map(|(_, secret)| secret)
    }
}

/// Why there is no downstream key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DerivationError {
    /// A newer release made the record.
    #[error(
        "the record's downstream keys follow version {version}, which this build does not know"
    )]
    UnknownVersion {
        /// The version that the record names.
        version: u8,
    },
    /// The record was made with a secret that is not among the settings.
    #[error("no derivation secret with the id {id}, which the record was made with")]
    UnknownSecret {
        /// The id that the record names.
        id: SecretId,
    },
}

/// Every part after its length in eight bytes, so that no two lists of parts join to one string.
fn absorb(namespace: &Namespace, parts: &KeyParts<'_>, mut update: impl FnMut(&[u8])) {
    let all: [&[u8]; 9] = [
        DOMAIN,
        namespace.as_str().as_bytes(),
        parts.scope.as_bytes(),
        parts.key.as_bytes(),
        parts.operation.as_bytes(),
        &[parts.fingerprint_scheme],
        parts.fingerprint_digest,
        parts.step.as_bytes(),
        &parts.generation.to_be_bytes(),
    ];
    for part in all {
        update(&(part.len() as u64).to_be_bytes());
        update(part);
    }
}
