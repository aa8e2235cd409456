//! Printing configurations, and the reference.

use super::load::variable;
use super::schema::{Field, Reload, SECTIONS, Table, fields_of};
use super::{Class, Config, Listener, Loaded};
use std::fmt::Write as _;

/// What stands beside the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// Nothing.
    None,
    /// What each key means.
    Meaning,
    /// Where each value comes from.
    Origin,
}

impl Loaded {
    /// The whole configuration as TOML, which reads back as the same. A key that is unset is commented out.
    pub fn to_toml(&self, comments: Comments) -> String {
        print(&self.config, |path, field, line, out| match comments {
            Comments::None => out.push_str(&format!("{line}\n")),
            Comments::Meaning => {
                write_meaning(field, out);
                out.push_str(&format!("{line}\n"));
            }
            Comments::Origin => {
                let origin = self.origin(&format!("{path}.{}", field.name));
                out.push_str(&format!("{line:<48} # {origin}\n"));
            }
        })
    }
}

impl Config {
    /// The whole configuration as TOML, which reads back as the same; what each key means stands above it.
    pub fn to_toml(&self) -> String {
        print(self, |_, field, line, out| {
            write_meaning(field, out);
            out.push_str(&format!("{line}\n"));
        })
    }

    /// A configuration file to begin with: every key with what it means, what it takes, and its default.
    pub fn reference() -> String {
        let mut out =
            "# Meridian's configuration, with every key at its default. All keys may be left out.\n\
            # Environment variables override it (MERIDIAN_MQTT_PACKET_BYTES_MAX), and flags override those\n\
            # (--set mqtt.packet_bytes_max=\"1 MiB\"). A reload (SIGHUP) takes over what is marked as live.\n"
                .to_owned();
        out += &print(&Self::default(), |_, field, line, out| {
            write_meaning(field, out);
            let reload = if field.reload == Reload::Live { "live" } else { "restart" };
            out.push_str(&format!("# {} ({reload})\n{line}\n", (field.expects)()));
        });
        out += "\n# An example of a class:\n# [[class]]\n";
        let example = Class {
            name: "dashboards".to_owned(),
            client_id: Some("dashboard-*".to_owned()),
            messages_max: Some(1000),
            ..Class::default()
        };
        for field in example.fields() {
            let value = example.get(field.name).unwrap_or_else(|| "...".to_owned());
            let doc: String = field.doc.concat();
            out.push_str(&format!("# {:<24} #{doc}\n", format!("{} = {value}", field.name)));
        }
        out
    }

    /// The reference as Markdown: a table of keys for each section.
    pub fn reference_markdown() -> String {
        let mut out = "# Configuration\n\n\
            One TOML file, every key optional. A value comes from its default, else the file, else the environment,\n\
            else flags; the last one counts. Sizes are written as `64 KiB`, `10 MiB` (or `kB`, `MB`), spans of time as\n\
            `500ms`, `30s`, `5 min`, `1h`, `2d`. *Live* keys are taken over by a reload (SIGHUP); the others count from\n\
            the next start. `meridian config reference` prints a file to begin with, `meridian config check` checks one.\n\n\
            `--listen URL` (or `MERIDIAN_LISTEN`, URLs separated by commas) replaces all listeners. A key of a listener\n\
            or class has no variable; its flag is `--set listener[0].backlog=1024`.\n"
            .to_owned();
        let defaults = Self::default();
        for section in SECTIONS {
            let (listener, class) = (Listener::default(), Class::default());
            let (title, table): (_, &dyn Table) = match section {
                "listener" => ("[[listener]]".to_owned(), &listener),
                "class" => ("[[class]]".to_owned(), &class),
                _ => (format!("[{section}]"), defaults.tables(section)[0].1),
            };
            let doc: Vec<_> = table.doc().iter().map(|line| line.trim()).collect();
            let _ = write!(out, "\n## `{title}`\n\n{}\n\n", doc.join(" "));
            out += "| Key | Default | Takes | Live | Meaning |\n|---|---|---|---|---|\n";
            for field in fields_of(section).unwrap_or_default() {
                write_row(section, table, field, &mut out);
            }
        }
        out
    }
}

fn write_row(section: &str, table: &dyn Table, field: &Field, out: &mut String) {
    let default = table
        .get(field.name)
        .filter(|value| value != "\"\"")
        .map_or_else(String::new, |it| format!("`{it}`"));
    let live = if field.reload == Reload::Live { "yes" } else { "" };
    let doc: Vec<_> = field.doc.iter().map(|line| line.trim()).collect();
    let mut meaning = doc.join(" ").replace('|', "\\|");
    if !matches!(section, "listener" | "class") {
        let _ = write!(meaning, " `{}`", variable(section, field.name));
    }
    let _ = writeln!(out, "| `{}` | {default} | {} | {live} | {meaning} |", field.name, (field.expects)());
}

/// Prints all tables. `write_line` gets the path of the table, the field, the line `key = value`, and where to write.
fn print(config: &Config, mut write_line: impl FnMut(&str, &Field, &str, &mut String)) -> String {
    let mut out = String::new();
    for section in SECTIONS {
        for (path, table) in config.tables(section) {
            if !out.is_empty() {
                out.push('\n');
            }
            for line in table.doc() {
                let _ = writeln!(out, "#{line}");
            }
            let header = if path.ends_with(']') { format!("[[{section}]]") } else { format!("[{section}]") };
            let _ = writeln!(out, "{header}");
            for field in table.fields() {
                let line = match table.get(field.name) {
                    Some(value) => format!("{} = {value}", field.name),
                    None => format!("# {} =", field.name),
                };
                write_line(&path, field, &line, &mut out);
            }
        }
    }
    out
}

fn write_meaning(field: &Field, out: &mut String) {
    for line in field.doc {
        let _ = writeln!(out, "#{line}");
    }
}
