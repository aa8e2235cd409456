//! The tables of the configuration as data: what the `table!` items of the parent module expand to.

use super::value::Raw;
use super::{Class, Config, Listener};

/// What it takes for a changed value to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// A reload takes it over.
    Live,
    /// It counts from the next start.
    Restart,
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// As written in TOML.
    pub(super) name: &'static str,
    /// Its documentation, line by line.
    pub(super) doc: &'static [&'static str],
    /// What its value looks like.
    pub(super) expects: fn() -> String,
    /// The words it takes, if it takes nothing else.
    pub(super) words: &'static [&'static str],
    /// What it takes for a change to count.
    pub(super) reload: Reload,
}

/// A table whose keys can be listed, read and set by name.
pub(super) trait Table {
    /// Its documentation, line by line.
    fn doc(&self) -> &'static [&'static str];
    /// Its keys, in the order they are printed.
    fn fields(&self) -> &'static [Field];
    /// The value of a key as a TOML literal; `None` if it is unset or there is no such key.
    fn get(&self, name: &str) -> Option<String>;
    /// Sets a key; false if the value is not what the field expects, or there is no such key.
    fn set(&mut self, name: &str, raw: &Raw<'_>) -> bool;
}

/// Defines a table of the configuration: the struct, its default, and [`Table`].
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $table:ident {
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty = $default:expr, $reload:ident;)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $table {
            $($(#[doc = $field_doc])+ pub $field: $type,)+
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::config::schema::Table for $table {
            fn doc(&self) -> &'static [&'static str] {
                &[$($doc),+]
            }

            fn fields(&self) -> &'static [$crate::config::schema::Field] {
                use $crate::config::value::Value;
                const {
                    &[$($crate::config::schema::Field {
                        name: stringify!($field),
                        doc: &[$($field_doc),+],
                        expects: <$type as Value>::expects,
                        words: <$type as Value>::WORDS,
                        reload: $crate::config::schema::Reload::$reload,
                    }),+]
                }
            }

            fn get(&self, name: &str) -> Option<String> {
                use $crate::config::value::Value;
                match name {
                    $(stringify!($field) => self.$field.write(),)+
                    _ => None,
                }
            }

            fn set(&mut self, name: &str, raw: &$crate::config::value::Raw<'_>) -> bool {
                use $crate::config::value::Value;
                match name {
                    $(stringify!($field) => match <$type>::read(raw) {
                        Some(value) => self.$field = value,
                        None => return false,
                    },)+
                    _ => return false,
                }
                true
            }
        }
    };
}
pub(super) use table;

/// Names of the tables, in the order they are printed.
pub(super) const SECTIONS: [&str; 7] = ["server", "log", "listener", "mqtt", "queue", "class", "retained"];

/// A table of the configuration with its path: `mqtt`, `listener[0]`.
pub(super) type Named<'a> = (String, &'a dyn Table);

impl Config {
    /// The table at a path without index: not a listener or class.
    pub(super) fn table_mut(&mut self, section: &str) -> Option<&mut dyn Table> {
        match section {
            "server" => Some(&mut self.server),
            "log" => Some(&mut self.log),
            "mqtt" => Some(&mut self.mqtt),
            "queue" => Some(&mut self.queue),
            "retained" => Some(&mut self.retained),
            _ => None,
        }
    }

    /// The tables of one section: one, or as many as there are listeners or classes.
    pub(super) fn tables<'a>(&'a self, section: &str) -> Vec<Named<'a>> {
        let single = |table: &'a dyn Table| vec![(section.to_owned(), table)];
        match section {
            "server" => single(&self.server),
            "log" => single(&self.log),
            "mqtt" => single(&self.mqtt),
            "queue" => single(&self.queue),
            "retained" => single(&self.retained),
            "listener" => number(section, self.listener.iter().map(|table| table as &dyn Table)),
            "class" => number(section, self.class.iter().map(|table| table as &dyn Table)),
            _ => Vec::new(),
        }
    }
}

fn number<'a>(section: &str, tables: impl Iterator<Item = &'a dyn Table>) -> Vec<Named<'a>> {
    tables.enumerate().map(|(index, table)| (format!("{section}[{index}]"), table)).collect()
}

/// The keys of a section, whether or not there is such a table now; `None` if there is no such section.
pub(super) fn fields_of(section: &str) -> Option<&'static [Field]> {
    match section {
        "listener" => Some(Listener::default().fields()),
        "class" => Some(Class::default().fields()),
        _ => Config::default().table_mut(section).map(|table| table.fields()),
    }
}

/// The word among `known` that `written` was probably meant to be: at most a third of its letters differ, or it has
/// the same parts in another order (`max_connections` for `connections_max`).
pub(super) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    let parts = |word: &str| {
        let mut parts: Vec<String> = word.split('_').map(str::to_owned).collect();
        parts.sort_unstable();
        parts
    };
    let distance = |candidate: &str| {
        let candidate = candidate.replace('-', "_");
        if parts(&candidate) == parts(&written) {
            0
        } else {
            strsim::damerau_levenshtein(&written, &candidate)
        }
    };
    let scored = known.into_iter().map(|candidate| (distance(candidate), candidate));
    let (distance, candidate) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= (written.len().max(candidate.len()) / 3).max(1)).then_some(candidate)
}
