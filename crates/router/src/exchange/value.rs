//! Values of message headers and binding arguments, and what makes two of them equal.

/// A field value (AMQP 0-9-1 §4.2.5.5, with RabbitMQ's errata), borrowed from wherever it was decoded.
///
/// # When two values are equal
/// As in RabbitMQ 4: if their kinds and their values are the same.
///
/// | values | equal? |
/// |---|---|
/// | integers of different widths, signed or not | by value: make all of them [`Integer`](Self::Integer) |
/// | an integer and a float, `1` and `1.0` | no |
/// | floats | by value, with no tolerance; 0.0 equals −0.0, and NaN equals NaN so that a binding to it can be removed |
/// | a float of 32 bits and one of 64 | widen the former: 0.5 equals 0.5, but 0.1 of 32 bits is not 0.1 of 64 |
/// | decimals | by scale and digits: 1.0 is not 1.00 |
/// | timestamps | by second; never equal to an integer. RabbitMQ multiplies those of messages by 1,000, so that none match |
/// | a text and a byte array with the same bytes | yes: make both [`Bytes`](Self::Bytes) |
/// | arrays and tables | by their encoded bytes, thus by type, value and order of what they hold |
/// | void | a binding's void asks for presence only; a message's void satisfies nothing else |
#[derive(Clone, Copy, Debug)]
pub enum HeaderValue<'a> {
    /// No value (`V`).
    Void,
    /// A truth value (`t`).
    Bool(bool),
    /// An integer of any width (`b`, `B`, `s`, `u`, `I`, `i`, `l`, `L`).
    Integer(i64),
    /// A floating point number (`f`, widened, and `d`).
    Float(f64),
    /// A decimal (`D`): `digits` divided by ten to the power of `scale`.
    Decimal {
        /// Decimal digits after the point.
        scale: u8,
        /// All digits.
        digits: u32,
    },
    /// Seconds since 1970 (`T`).
    Timestamp(u64),
    /// A long string or a byte array (`S`, `x`). Not necessarily UTF-8.
    Bytes(&'a [u8]),
    /// An array (`A`): its encoded elements, without the length before them.
    Array(&'a [u8]),
    /// A table (`F`): its encoded fields, without the length before them.
    Table(&'a [u8]),
}

impl HeaderValue<'_> {
    /// Appends a form that is the same for equal values and different for others: a letter for the kind, then the
    /// value.
    pub(super) fn append_canonical(self, out: &mut Vec<u8>) {
        match self {
            Self::Void => out.push(b'V'),
            Self::Bool(value) => out.extend([b't', u8::from(value)]),
            Self::Integer(value) => append(out, b'l', &value.to_le_bytes()),
            Self::Float(value) => append(out, b'd', &canonical_bits(value).to_le_bytes()),
            Self::Decimal { scale, digits } => {
                append(out, b'D', &[scale]);
                out.extend(digits.to_le_bytes());
            }
            Self::Timestamp(seconds) => append(out, b'T', &seconds.to_le_bytes()),
            Self::Bytes(bytes) => append(out, b'S', bytes),
            Self::Array(encoded) => append(out, b'A', encoded),
            Self::Table(encoded) => append(out, b'F', encoded),
        }
    }
}

impl PartialEq for HeaderValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Void, Self::Void) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Integer(one), Self::Integer(other)) => one == other,
            (Self::Float(one), Self::Float(other)) => canonical_bits(*one) == canonical_bits(*other),
            (Self::Decimal { scale, digits }, Self::Decimal { scale: scale_2, digits: digits_2 }) => {
                (scale, digits) == (scale_2, digits_2)
            }
            (Self::Timestamp(one), Self::Timestamp(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other))
            | (Self::Array(one), Self::Array(other))
            | (Self::Table(one), Self::Table(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for HeaderValue<'_> {}

impl<'a> From<&'a str> for HeaderValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

fn append(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

/// The bits of a float, with one zero and one NaN.
fn canonical_bits(value: f64) -> u64 {
    match value {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        value => value.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::HeaderValue::*;
    use super::*;

    /// Values of which no two are equal.
    const DISTINCT: [HeaderValue<'static>; 20] = [
        Void,
        Bool(false),
        Bool(true),
        Integer(0),
        Integer(1),
        Integer(-1),
        Float(0.0),
        Float(1.0),
        Float(0.1),
        Float(0.1f32 as f64),
        Float(f64::NAN),
        Decimal { scale: 0, digits: 1 },
        Decimal { scale: 1, digits: 10 },
        Timestamp(1),
        Bytes(b""),
        Bytes(b"1"),
        Array(b""),
        Array(b"t\x01"),
        Table(b""),
        Table(b"t\x01"),
    ];

    #[test]
    fn canonical_forms_are_equal_exactly_for_equal_values() {
        let form = |value: HeaderValue<'_>| {
            let mut out = Vec::new();
            value.append_canonical(&mut out);
            out
        };
        for (at, &one) in DISTINCT.iter().enumerate() {
            for (other_at, &other) in DISTINCT.iter().enumerate() {
                assert_eq!(one == other, at == other_at, "{one:?} {other:?}");
                assert_eq!(form(one) == form(other), at == other_at, "{one:?} {other:?}");
            }
        }
        assert_eq!((Float(0.0), form(Float(0.0))), (Float(-0.0), form(Float(-0.0))));
        assert_eq!((Float(f64::NAN), form(Float(f64::NAN))), (Float(-f64::NAN), form(Float(-f64::NAN))));
    }
}
