//! How `meridian sub` prints a message.

use meridian_mqtt::packet::Publish;
use meridian_types::{PayloadFormat, Properties};
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The letters of `--format`, for its help.
pub(crate) const HELP: &str = "\
Format:
  %t topic          %p payload         %x payload in hexadecimal (%X upper case)
  %l its length     %q QoS             %r retained: 1 or 0     %m packet id
  %I time, ISO 8601 %U time, seconds since 1970                %j all of it as JSON
  MQTT 5: %C content type  %R response topic  %D correlation data  %E expiry interval
          %F payload format indicator  %S subscription identifiers  %P user properties
  %% is a percent sign; \\n \\t \\r \\0 \\e \\\\ are what they are in C.";

/// A line for each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The payload.
    Payload,
    /// Topic, space, payload.
    TopicAndPayload,
    /// A JSON object.
    Json,
    /// Pieces of a `--format`.
    Pieces(Vec<Piece>),
}

/// A piece of a `--format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// As it is.
    Text(Vec<u8>),
    /// A letter after `%`; one of [`LETTERS`].
    Field(char),
}

const LETTERS: &str = "tpxXlqrmIUjCRDEFSP";

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, matches!(c, '%' | '\\').then(|| chars.next()).flatten()) {
                ('%', Some('%')) => plain.push(b'%'),
                ('%', Some(letter)) if LETTERS.contains(letter) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Field(letter));
                }
                ('%', letter) => {
                    let letter = letter.map_or_else(String::new, |letter| letter.to_string());
                    return Err(format!("%{letter} is no field; --help lists them"));
                }
                ('\\', Some(letter)) => plain.push(match letter {
                    'n' => b'\n',
                    't' => b'\t',
                    'r' => b'\r',
                    '0' => 0,
                    'e' => 0x1b,
                    'a' => 7,
                    '\\' => b'\\',
                    other => return Err(format!("\\{other} is unknown; write \\\\ for a backslash")),
                }),
                ('\\', None) => return Err("a backslash at the end; write \\\\ for a backslash".to_owned()),
                _ => {
                    let mut utf8 = [0; 4];
                    plain.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self::Pieces(pieces))
    }
}

impl Format {
    /// Writes a message, without the end of the line.
    pub(crate) fn write(
        &self,
        publish: &Publish<'_>,
        at: SystemTime,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match self {
            Self::Payload => out.write_all(publish.payload),
            Self::TopicAndPayload => {
                write!(out, "{} ", publish.topic)?;
                out.write_all(publish.payload)
            }
            Self::Json => write_json(publish, at, out),
            Self::Pieces(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::Field(letter) => write_field(*letter, publish, at, out),
            }),
        }
    }
}

fn write_field(letter: char, publish: &Publish<'_>, at: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let none = Properties::default();
    let properties = publish.properties.as_deref().unwrap_or(&none);
    match letter {
        't' => out.write_all(publish.topic.as_bytes()),
        'p' => out.write_all(publish.payload),
        'x' => publish.payload.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        'X' => publish.payload.iter().try_for_each(|byte| write!(out, "{byte:02X}")),
        'l' => write!(out, "{}", publish.payload.len()),
        'q' => write!(out, "{}", publish.qos.bits()),
        'r' => write!(out, "{}", u8::from(publish.retain)),
        'm' => write!(out, "{}", publish.packet_id),
        'I' => out.write_all(iso_8601(at).as_bytes()),
        'U' => {
            let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            write!(out, "{}.{:09}", since.as_secs(), since.subsec_nanos())
        }
        'j' => write_json(publish, at, out),
        'C' => out.write_all(properties.content_type.as_deref().unwrap_or_default().as_bytes()),
        'R' => out.write_all(properties.response_topic.as_deref().unwrap_or_default().as_bytes()),
        'D' => out.write_all(properties.correlation_data.as_deref().unwrap_or_default()),
        'E' => publish.expiry_secs.map_or(Ok(()), |secs| write!(out, "{secs}")),
        'F' => properties.payload_format.map_or(Ok(()), |format| write!(out, "{}", format as u8)),
        'S' => {
            let ids: Vec<String> = publish.subscription_ids.iter().map(u32::to_string).collect();
            out.write_all(ids.join(",").as_bytes())
        }
        _ => {
            let pairs: Vec<String> =
                properties.user.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            out.write_all(pairs.join(" ").as_bytes())
        }
    }
}

/// A message as JSON; what is not set is left out.
#[derive(Serialize)]
struct Json<'a> {
    topic: &'a str,
    /// If it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    /// If it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    qos: u8,
    retain: bool,
    received: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_secs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_data_hex: Option<String>,
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    subscription_ids: &'a [u32],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    user_properties: &'a [(Box<str>, Box<str>)],
}

fn write_json(publish: &Publish<'_>, at: SystemTime, out: &mut impl Write) -> io::Result<()> {
    let none = Properties::default();
    let properties = publish.properties.as_deref().unwrap_or(&none);
    let payload = std::str::from_utf8(publish.payload).ok();
    let json = Json {
        topic: publish.topic,
        payload,
        payload_hex: payload.is_none().then(|| hex(publish.payload)),
        qos: publish.qos.bits(),
        retain: publish.retain,
        received: iso_8601(at),
        expiry_secs: publish.expiry_secs,
        payload_format: properties.payload_format.map(|format| match format {
            PayloadFormat::Bytes => "bytes",
            PayloadFormat::Utf8 => "utf8",
        }),
        content_type: properties.content_type.as_deref(),
        response_topic: properties.response_topic.as_deref(),
        correlation_data_hex: properties.correlation_data.as_deref().map(hex),
        subscription_ids: &publish.subscription_ids,
        user_properties: &properties.user,
    };
    Ok(serde_json::to_writer(out, &json)?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `2026-11-22T01:02:03.456Z`.
fn iso_8601(at: SystemTime) -> String {
    let since: Duration = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar: Howard Hinnant,
/// "chrono-compatible low-level date algorithms".
const fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + if month <= 2 { 1 } else { 0 }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_types::Qos;

    fn print(format: &str, publish: &Publish<'_>) -> String {
        let mut out = Vec::new();
        let at = UNIX_EPOCH + Duration::from_millis(951_782_400_250);
        format.parse::<Format>().unwrap().write(publish, at, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn publish() -> Publish<'static> {
        let user = vec![("a".into(), "b".into()), ("a".into(), "c".into())];
        let properties =
            Properties { content_type: Some("text/plain".into()), user, ..Properties::default() };
        Publish {
            qos: Qos::AtLeastOnce,
            retain: true,
            topic: "a/b",
            packet_id: 7,
            expiry_secs: Some(9),
            subscription_ids: vec![1, 2],
            properties: Some(Box::new(properties)),
            payload: b"Hi\xc3\xa4",
            ..Publish::default()
        }
    }

    #[test]
    fn fields_are_filled_in() {
        assert_eq!(print("%t|%p|%x|%X|%l|%q|%r|%m", &publish()), "a/b|Hiä|4869c3a4|4869C3A4|4|1|1|7");
        assert_eq!(print("%C|%R|%E|%F|%S|%P", &publish()), "text/plain||9||1,2|a:b a:c");
        assert_eq!(print("%I %U", &publish()), "2000-02-29T00:00:00.250Z 951782400.250000000");
        assert_eq!(print("100%% \\t\\\\ ä", &publish()), "100% \t\\ ä");
    }

    #[test]
    fn unknown_fields_are_refused() {
        for bad in ["%y", "%", "a\\", "\\q"] {
            assert!(bad.parse::<Format>().is_err(), "{bad}");
        }
    }

    #[test]
    fn json_says_what_there_is() {
        let expected = r#"{"topic":"a/b","payload":"Hiä","qos":1,"retain":true,"received":"2000-02-29T00:00:00.250Z",
            "expiry_secs":9,"content_type":"text/plain","subscription_ids":[1,2],"user_properties":[["a","b"],["a","c"]]}"#;
        let expected: String = expected.lines().map(str::trim_start).collect();
        assert_eq!(print("%j", &publish()), expected);
        let binary = Publish { topic: "t", payload: b"\xff\x00", ..Publish::default() };
        assert!(print("%j", &binary).starts_with(r#"{"topic":"t","payload_hex":"ff00","qos":0,"#));
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(civil_from_days(0), (1970, 1, 1));
        assert_eq!(civil_from_days(59), (1970, 3, 1));
        assert_eq!(civil_from_days(20_779), (2026, 11, 22));
        assert_eq!(civil_from_days(47_540), (2100, 2, 28));
        assert_eq!(civil_from_days(47_541), (2100, 3, 1));
    }
}
