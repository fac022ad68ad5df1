//! The currencies that a charge can be in.

/// The lower-case form of a known currency code, whatever case it is given in.
///
/// ```
/// # use idem_cli::serve::currency;
/// assert_eq!(currency::known("EUR"), Some("eur"));
/// assert_eq!(currency::known("xyz"), None);
/// ```
pub fn known(code: &str) -> Option<&'static str> {
    ACTIVE.split_ascii_whitespace().find(|known| known.eq_ignore_ascii_case(code))
}

/// The active codes of ISO 4217 that name money of a country or a union of them.
const ACTIVE: &str = "
    aed afn all amd aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn
    bzd cad cdf chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel
    ghs gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf
    kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn
    myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd
    scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb tjs tmt tnd top try ttd twd tzs uah
    ugx usd uyu uzs ves vnd vuv wst xaf xcd xcg xof xpf yer zar zmw zwg";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_three_lower_case_letters_once() {
        let mut codes: Vec<_> = ACTIVE.split_ascii_whitespace().collect();
        assert!(codes.iter().all(|code| code.len() == 3));
        assert!(codes.iter().all(|code| code.bytes().all(|byte| byte.is_ascii_lowercase())));
        assert!(codes.is_sorted());
        codes.dedup();
        assert_eq!(codes.len(), 155);
    }

    #[test]
    fn case_does_not_count_and_anything_else_is_unknown() {
        assert_eq!(known("UsD"), Some("usd"));
        for text in ["", "us", "usdd", "usd ", "us\u{212a}", "xxx", "aed afn"] {
            assert_eq!(known(text), None, "{text:?}");
        }
    }
}
