//! Whether a delivery comes from the provider.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// How far the provider's clock and ours may be apart, in seconds. A delivery that somebody
/// recorded is of no use to him for longer than this.
const TOLERANCE: u64 = 5 * 60;

/// Whether `signature` is the HMAC-SHA-256, in hexadecimal, of the time, a dot, and the body as it
/// came. It compares in constant time.
pub(crate) fn is_valid(secret: &[u8], signature: &str, sent: &str, now: u64, body: &[u8]) -> bool {
    let (Ok(time), Some(tag)) = (sent.parse::<u64>(), bytes(signature)) else { return false };
    let mac = mac(secret, sent, body);
    mac.verify_slice(&tag).is_ok() && time.abs_diff(now) <= TOLERANCE
}

fn mac(secret: &[u8], sent: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a secret of any length will do");
    mac.update(sent.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    if !hexadecimal.is_ascii() || !hexadecimal.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..hexadecimal.len()).step_by(2).map(|at| &hexadecimal[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// As the provider signs.
#[cfg(test)]
pub(crate) fn sign(secret: &[u8], sent: &str, body: &[u8]) -> String {
    let tag = mac(secret, sent, body).finalize().into_bytes();
    tag.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_signed_a_short_while_ago_is_valid() {
        let (secret, body) = (b"whsec".as_slice(), b"{}".as_slice());
        let signed = sign(secret, "1000", body);
        assert!(is_valid(secret, &signed, "1000", 1000 + TOLERANCE, body));
        assert!(!is_valid(secret, &signed, "1000", 1001 + TOLERANCE, body));
        assert!(!is_valid(secret, &signed, "1001", 1000, body));
        assert!(!is_valid(secret, &signed, "1000", 1000, b"{ }"));
        assert!(!is_valid(b"other", &signed, "1000", 1000, body));
        for wrong in ["", "zz", "+1", "é", &signed[1..], &signed[2..]] {
            assert!(!is_valid(secret, wrong, "1000", 1000, body), "{wrong}");
        }
    }
}
