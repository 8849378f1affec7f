//! Numbers read exactly from their text: no float takes part, so no two builds round differently.

/// A number in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Milli(u32);

/// A [`Milli`] between 0 and 1.
pub type Share = Milli;

impl Milli {
    /// From thousandths: 700 is 0.7.
    pub const fn new(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// In thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// The nearest float, for comparison with an engine's floats.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

/// Why a JSON number is no whole number of the wanted unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inexact {
    /// Below zero.
    Negative,
    /// Has more decimals than the unit.
    TooFine,
    /// Beyond 64 bits.
    TooLarge,
}

/// The value of a JSON number's text in units of 10^-`places`: ("0.1", 3) is 100.
pub(super) fn scaled(number: &str, places: i64) -> Result<u64, Inexact> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len().saturating_sub(significant.len());
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    if number.starts_with('-') {
        return Err(Inexact::Negative);
    }
    // An exponent beyond 64 bits decides alone, by its sign.
    let exponent: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let length = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
    let shift = exponent.saturating_add(places).saturating_sub(length(fraction.len())).saturating_add(length(zeros));
    if shift < 0 {
        return Err(Inexact::TooFine);
    }
    let power = u32::try_from(shift).ok().and_then(|shift| 10_u64.checked_pow(shift));
    let value = significant.parse::<u64>().ok();
    power.zip(value).and_then(|(power, value)| power.checked_mul(value)).ok_or(Inexact::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_thousandths_from_every_way_to_write_them() {
        for (text, thousandths) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e999999999999999999999", 0),
            ("0.1", 100),
            ("0.7", 700),
            ("0.70000000", 700),
            ("3.0", 3_000),
            ("3", 3_000),
            ("0.001", 1),
            ("1e-3", 1),
            ("1E+3", 1_000_000),
            ("120e-1", 12_000),
            ("100000000000000000000000e-22", 10_000),
        ] {
            assert_eq!(scaled(text, 3), Ok(thousandths), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_whole_number_of_thousandths() {
        for (text, fault) in [
            ("0.7005", Inexact::TooFine),
            // As floats these two are 0.7 and 0.1.
            ("0.70000000000000000000001", Inexact::TooFine),
            ("0.1000000000000000000000000000000000000000000001", Inexact::TooFine),
            ("1e-4", Inexact::TooFine),
            ("1e-99999999999999999999999", Inexact::TooFine),
            ("-0.1", Inexact::Negative),
            ("-1e999", Inexact::Negative),
            ("1e999", Inexact::TooLarge),
            ("1e99999999999999999999999", Inexact::TooLarge),
            ("18446744073709551616", Inexact::TooLarge),
            ("99999999999999999999999", Inexact::TooLarge),
        ] {
            assert_eq!(scaled(text, 3), Err(fault), "{text}");
        }
    }

    #[test]
    fn whole_numbers_reach_the_end_of_64_bits() {
        assert_eq!(scaled("18446744073709551615", 0), Ok(u64::MAX));
        assert_eq!(scaled("18446744073709551616", 0), Err(Inexact::TooLarge));
        assert_eq!(scaled("4e4", 0), Ok(40_000));
        assert_eq!(scaled("40000.0", 0), Ok(40_000));
        assert_eq!(scaled("6.5", 0), Err(Inexact::TooFine));
    }

    #[test]
    fn a_share_compares_with_the_float_of_the_same_text() {
        for (thousandths, float) in [(700, 0.7), (100, 0.1), (333, 0.333), (1_000, 1.0), (0, 0.0)] {
            assert!(Milli::new(thousandths).as_f64() == float, "{thousandths}");
        }
    }
}
