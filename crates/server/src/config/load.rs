//! Reading a configuration from all its sources, with everything that is wrong reported at once.

use super::problem::{Fault, Location, Origin, Problem, Warning};
use super::schema::{Field, SECTIONS, Table, fields_of, nearest};
use super::value::Raw;
use super::{Class, Config, Listener, validate};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

const ENV_PREFIX: &str = "MERIDIAN_";
/// Variables that are not keys: the file's path is read by the command line.
const ENV_OTHERS: [&str; 2] = ["MERIDIAN_CONFIG", "MERIDIAN_LISTEN"];

/// Where a configuration is read from. Later fields override earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables; those that do not begin with `MERIDIAN_` are ignored.
    pub env: Vec<(String, String)>,
    /// Each `--listen`.
    pub listen: Vec<String>,
    /// Each `--set`: `section.key=value`.
    pub set: Vec<String>,
}

impl Sources {
    /// The environment's variables and no file or flags.
    pub fn from_env() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self { env: env.filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect(), ..Self::default() }
    }
}

/// A configuration that was read and found valid, and where its values come from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// What it was read from, so that it can be read again.
    pub sources: Sources,
    /// What is odd, but no obstacle.
    pub warnings: Vec<Warning>,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Where the value of a key (`mqtt.packet_bytes_max`, `listener[0].url`) comes from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Whether nothing was configured to listen on, so that only this machine is served.
    pub fn has_default_listeners(&self) -> bool {
        *self.origin("listener[0].url") == Origin::Default
    }

    /// Reads the same sources again, the file as it is now.
    ///
    /// # Errors
    /// All that is wrong; the running configuration is not touched.
    pub fn reload(&self) -> Result<Self, Vec<Problem>> {
        Config::load(&self.sources)
    }
}

impl Config {
    /// Reads and checks a configuration. Blocks for the file.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the sources; never empty.
    pub fn load(sources: &Sources) -> Result<Loaded, Vec<Problem>> {
        let mut loader = Loader::default();
        if let Some(path) = &sources.file {
            loader.apply_path(path);
        }
        loader.apply_env(&sources.env);
        if !sources.listen.is_empty() {
            let flags = sources.listen.iter();
            loader.apply_listen(flags.map(|url| (url.as_str(), Origin::Flag(format!("--listen {url}")))));
        }
        for text in &sources.set {
            loader.apply_set(text);
        }
        loader.finish(sources)
    }

    /// Reads and checks the text of a file; `path` is what messages call it.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Loaded, Vec<Problem>> {
        let mut loader = Loader::default();
        loader.apply_text(text, path);
        loader.finish(&Sources { file: Some(path.to_owned()), ..Sources::default() })
    }
}

#[derive(Default)]
struct Loader {
    config: Config,
    report: Report,
}

/// What is known of the values besides the values.
#[derive(Default)]
struct Report {
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    /// Keys whose value was refused and which hold their default still.
    refused: BTreeSet<String>,
}

/// A file's text and what it is called.
#[derive(Clone, Copy)]
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::File(Location::new(self.path.to_owned(), self.text, span))
    }
}

impl Loader {
    fn finish(self, sources: &Sources) -> Result<Loaded, Vec<Problem>> {
        let Self { config, mut report } = self;
        let (problems, warnings) = validate::check(&config);
        // A key that was left out is placed at its table, if that was written.
        let table_of = |key: &str| report.origins.get(key.rsplit_once('.')?.0);
        let origin =
            |key: &str| report.origins.get(key).or_else(|| table_of(key)).cloned().unwrap_or(Origin::Default);
        let problems = problems.into_iter().filter(|(key, ..)| !report.refused.contains(key));
        let problems = problems.map(|(key, fault, help)| Problem { origin: origin(&key), fault, help });
        let problems: Vec<_> = problems.collect();
        let warnings = warnings.into_iter().map(|(key, text)| Warning { origin: origin(&key), text });
        let warnings: Vec<_> = warnings.collect();
        report.problems.extend(problems);
        report.warnings.extend(warnings);
        if !report.problems.is_empty() {
            return Err(report.problems);
        }
        let Report { origins, warnings, .. } = report;
        Ok(Loaded { config, sources: sources.clone(), warnings, origins })
    }

    fn apply_path(&mut self, path: &Path) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.apply_text(&text, path),
            Err(error) => {
                let place =
                    Location { path: path.to_owned(), line: 1, column: 1, len: 1, text: String::new() };
                let help = (error.kind() == std::io::ErrorKind::NotFound)
                    .then(|| "`meridian config reference` prints one to begin with".to_owned());
                self.report.refuse(Origin::File(place), Fault::Unreadable(error), help);
            }
        }
    }

    fn apply_text(&mut self, text: &str, path: &Path) {
        let file = File { path, text };
        let (table, mut errors) = DeTable::parse_recoverable(text);
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        let mut broken_lines = BTreeSet::new();
        for error in errors {
            let place = Location::new(path.to_owned(), text, error.span().unwrap_or(0..0));
            // What follows the first error of a line is mostly its echo.
            if broken_lines.insert(place.line) {
                let message = error.message().to_owned();
                self.report.refuse(Origin::File(place), Fault::Syntax { message }, None);
            }
        }
        let syntax_count = self.report.problems.len();
        for (name, value) in in_order(table.into_inner()) {
            self.apply_section(file, &name, value);
        }
        let others = self.report.problems.split_off(syntax_count);
        let is_echo = |problem: &Problem| matches!(&problem.origin, Origin::File(place) if broken_lines.contains(&place.line));
        self.report.problems.extend(others.into_iter().filter(|problem| !is_echo(problem)));
    }

    fn apply_section(&mut self, file: File<'_>, name: &Spanned<DeString<'_>>, value: Spanned<DeValue<'_>>) {
        let section = name.get_ref().as_ref();
        match (section, value.into_inner()) {
            ("listener" | "class", DeValue::Array(tables)) => {
                for (index, table) in tables.into_iter().enumerate() {
                    self.apply_item(file, section, index, table);
                }
            }
            ("listener" | "class", other) => {
                let fault =
                    Fault::NotATable { expected: format!("[[{section}]]"), found: shape(&other, section) };
                self.report.refuse(file.origin(name.span()), fault, None);
            }
            (_, DeValue::Table(table)) => match self.config.table_mut(section) {
                Some(target) => self.report.apply_table(file, (section, section), target, table),
                None => self.report.refuse_section(file.origin(name.span()), section),
            },
            (_, other) if SECTIONS.contains(&section) => {
                let fault =
                    Fault::NotATable { expected: format!("[{section}]"), found: shape(&other, section) };
                self.report.refuse(file.origin(name.span()), fault, None);
            }
            (_, DeValue::Array(_)) => self.report.refuse_section(file.origin(name.span()), section),
            _ => {
                let fault = Fault::NoSection { name: section.to_owned() };
                let help = help_for_key("", section);
                self.report.refuse(file.origin(name.span()), fault, Some(help));
            }
        }
    }

    /// Applies one `[[listener]]` or `[[class]]`.
    fn apply_item(&mut self, file: File<'_>, section: &str, index: usize, value: Spanned<DeValue<'_>>) {
        let origin = file.origin(value.span());
        let DeValue::Table(table) = value.into_inner() else {
            let fault = Fault::NotATable { expected: format!("[[{section}]]"), found: "a value".to_owned() };
            return self.report.refuse(origin, fault, None);
        };
        let path = format!("{section}[{index}]");
        self.report.origins.insert(path.clone(), origin);
        if section == "class" {
            let mut class = Class::default();
            self.report.apply_table(file, (section, &path), &mut class, table);
            self.config.class.push(class);
            return;
        }
        if index == 0 {
            self.config.listener.clear();
        }
        let mut listener = Listener::default();
        self.report.apply_table(file, (section, &path), &mut listener, table);
        self.config.listener.push(listener);
    }

    /// `MERIDIAN_LISTEN` and `MERIDIAN_<SECTION>_<KEY>`. A variable of another name is refused if it resembles a
    /// key's, and warned about otherwise: orchestrators set some of their own for a service named meridian.
    fn apply_env(&mut self, env: &[(String, String)]) {
        let mut env: Vec<_> = env.iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        env.sort_unstable();
        let known = variables();
        for (name, value) in env {
            let origin = Origin::Env(name.clone());
            if name == "MERIDIAN_LISTEN" {
                let urls = value.split(',').map(str::trim).filter(|url| !url.is_empty());
                self.apply_listen(urls.map(|url| (url, origin.clone())));
            } else if let Some((section, field)) = known.get(name) {
                if let Some(target) = self.config.table_mut(section) {
                    self.report.set_field(origin, section, field, target, &Raw::Bare(value));
                }
            } else if !ENV_OTHERS.contains(&name.as_str()) {
                let names = known.keys().map(String::as_str).chain(ENV_OTHERS);
                self.report.judge_variable(origin, name, names);
            }
        }
    }

    fn apply_listen<'a>(&mut self, urls: impl Iterator<Item = (&'a str, Origin)>) {
        self.report.origins.retain(|key, _| !key.starts_with("listener["));
        self.config.listener.clear();
        for (index, (url, origin)) in urls.enumerate() {
            self.config.listener.push(Listener { url: url.to_owned(), ..Listener::default() });
            self.report.origins.insert(format!("listener[{index}].url"), origin);
        }
    }

    /// `--set section.key=value`, `--set listener[0].key=value`.
    fn apply_set(&mut self, text: &str) {
        let origin = Origin::Flag(format!("--set {text}"));
        let parts =
            text.split_once('=').and_then(|(key, value)| Some((key.trim().rsplit_once('.')?, value.trim())));
        let Some(((path, name), value)) = parts else {
            let help = "such as --set mqtt.packet_bytes_max=\"1 MiB\"".to_owned();
            return self.report.refuse(origin, Fault::BadSet, Some(help));
        };
        let (section, index) = split_index(path);
        let Some(fields) = fields_of(section) else {
            return self.report.refuse_section(origin, section);
        };
        let count = match section {
            "listener" => self.config.listener.len(),
            "class" => self.config.class.len(),
            _ => 1,
        };
        let target: Option<&mut dyn Table> = match (section, index) {
            ("listener", Some(index)) => self.config.listener.get_mut(index).map(|table| table as _),
            ("class", Some(index)) => self.config.class.get_mut(index).map(|table| table as _),
            (_, None) => self.config.table_mut(section),
            _ => None,
        };
        let field = fields.iter().find(|field| field.name == name);
        match (target, field) {
            (_, None) => self.report.refuse_key(origin, section, name),
            (Some(target), Some(field)) => {
                self.report.set_field(origin, path, field, target, &Raw::Bare(value));
            }
            (None, Some(_)) if index.is_none() => {
                let help = format!("say which one: {section}[0].{name}");
                self.report.refuse(origin, Fault::BadSet, Some(help));
            }
            (None, Some(_)) => {
                let (section, index) = (section.to_owned(), index.unwrap_or_default());
                self.report.refuse(origin, Fault::NoSuchIndex { section, index, count }, None);
            }
        }
    }
}

impl Report {
    fn refuse(&mut self, origin: Origin, fault: Fault, help: Option<String>) {
        self.problems.push(Problem { origin, fault, help });
    }

    fn refuse_section(&mut self, origin: Origin, name: &str) {
        let help = nearest(name, SECTIONS).map_or_else(
            || format!("the sections are {}", SECTIONS.join(", ")),
            |section| format!("did you mean {}?", bracketed(section)),
        );
        self.refuse(origin, Fault::UnknownSection { name: name.to_owned() }, Some(help));
    }

    fn refuse_key(&mut self, origin: Origin, section: &str, name: &str) {
        let fault = Fault::UnknownKey { section: section.to_owned(), name: name.to_owned() };
        self.refuse(origin, fault, Some(help_for_key(section, name)));
    }

    fn judge_variable<'a>(&mut self, origin: Origin, name: &str, known: impl Iterator<Item = &'a str>) {
        let bare = |name: &'a str| name.strip_prefix(ENV_PREFIX).unwrap_or(name);
        let rest = name.strip_prefix(ENV_PREFIX).unwrap_or(name);
        let lower: Vec<String> = known.map(|name| bare(name).to_lowercase()).collect();
        match nearest(rest, lower.iter().map(String::as_str)) {
            Some(meant) => {
                let fault = Fault::UnknownVariable { name: name.to_owned() };
                let help = format!("did you mean {ENV_PREFIX}{}?", meant.to_uppercase());
                self.refuse(origin, fault, Some(help));
            }
            None => self
                .warnings
                .push(Warning { origin, text: "this variable names no key; it is ignored".to_owned() }),
        }
    }

    /// Applies a table of a file. Its name is given twice: as a section, and as a path, which has an index if the
    /// section is a list.
    fn apply_table(
        &mut self,
        file: File<'_>,
        (section, path): (&str, &str),
        target: &mut dyn Table,
        table: DeTable<'_>,
    ) {
        for (name, value) in in_order(table) {
            match target.fields().iter().find(|field| field.name == name.get_ref().as_ref()) {
                Some(field) => {
                    let origin = file.origin(value.span());
                    self.set_field(origin, path, field, target, &Raw::Toml(value.get_ref()));
                }
                None => self.refuse_key(file.origin(name.span()), section, name.get_ref()),
            }
        }
    }

    fn set_field(
        &mut self,
        origin: Origin,
        path: &str,
        field: &Field,
        target: &mut dyn Table,
        raw: &Raw<'_>,
    ) {
        let key = format!("{path}.{}", field.name);
        if target.set(field.name, raw) {
            self.origins.insert(key, origin);
            return;
        }
        self.refused.insert(key.clone());
        let found = raw.to_string();
        let help = nearest(found.trim_matches('"'), field.words.iter().copied());
        let help = help.map(|word| format!("did you mean {word}?"));
        self.refuse(origin, Fault::WrongValue { key, expected: (field.expects)(), found }, help);
    }
}

/// What to write instead of an unknown key; the section is empty if the key stood outside of any.
fn help_for_key(section: &str, name: &str) -> String {
    let names = |section| fields_of(section).unwrap_or_default().iter().map(|field| field.name);
    if let Some(meant) = nearest(name, names(section)) {
        return format!("did you mean `{meant}`?");
    }
    let elsewhere: Vec<String> = SECTIONS
        .iter()
        .filter(|section| names(section).any(|known| known == name))
        .map(|it| bracketed(it))
        .collect();
    if !elsewhere.is_empty() {
        return format!("`{name}` is a key of {}", elsewhere.join(", "));
    }
    match fields_of(section) {
        Some(_) => format!(
            "the keys of {} are {}",
            bracketed(section),
            names(section).collect::<Vec<_>>().join(", ")
        ),
        None => format!("put it under a section: {}", SECTIONS.map(bracketed).join(", ")),
    }
}

/// A section's header in TOML.
fn bracketed(section: &str) -> String {
    if matches!(section, "listener" | "class") { format!("[[{section}]]") } else { format!("[{section}]") }
}

/// What stands where a section should, for messages.
fn shape(value: &DeValue<'_>, section: &str) -> String {
    match value {
        DeValue::Table(_) => format!("[{section}]"),
        DeValue::Array(_) => format!("[[{section}]]"),
        other => Raw::Toml(other).to_string(),
    }
}

/// The environment variables of all keys that have one: those of lists have none.
fn variables() -> BTreeMap<String, (&'static str, &'static Field)> {
    let keys = SECTIONS.into_iter().filter(|section| !matches!(*section, "listener" | "class")).flat_map(
        |section| {
            let fields = fields_of(section).unwrap_or_default();
            fields.iter().map(move |field| (variable(section, field.name), (section, field)))
        },
    );
    keys.collect()
}

/// The environment variable of a key: `MERIDIAN_MQTT_PACKET_BYTES_MAX`.
pub(super) fn variable(section: &str, name: &str) -> String {
    format!("{ENV_PREFIX}{}_{}", section.to_uppercase(), name.to_uppercase())
}

/// `listener[0]` as `listener` and 0; a path without index as it is.
fn split_index(path: &str) -> (&str, Option<usize>) {
    let index = path.strip_suffix(']').and_then(|path| path.split_once('['));
    match index.and_then(|(section, index)| Some((section, index.parse().ok()?))) {
        Some((section, index)) => (section, Some(index)),
        None => (path, None),
    }
}

/// The entries of a table as they stand in the file.
fn in_order(table: DeTable<'_>) -> Vec<(Spanned<DeString<'_>>, Spanned<DeValue<'_>>)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_unstable_by_key(|(name, _)| name.span().start);
    entries
}
