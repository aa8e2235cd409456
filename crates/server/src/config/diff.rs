//! What differs between two configurations.

use super::Config;
use super::schema::{Named, Reload, SECTIONS};

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path: `mqtt.packet_bytes_max`, `class[1].overflow`, or `class[1]` if a whole table came or went.
    pub key: String,
    /// As a TOML literal; `None` if it was unset or not there.
    pub old: Option<String>,
    /// As a TOML literal; `None` if it is unset or gone.
    pub new: Option<String>,
    /// Whether a reload takes it over, or it counts from the next start.
    pub reload: Reload,
}

impl Change {
    /// Whether a reload takes it over.
    pub fn is_reloadable(&self) -> bool {
        self.reload == Reload::Live
    }
}

/// `mqtt.packet_bytes_max: "16 MiB" -> "1 MiB"`, with a note if it needs a restart.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let or_unset = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
        write!(f, "{}: {} -> {}", self.key, or_unset(&self.old), or_unset(&self.new))?;
        if self.is_reloadable() { Ok(()) } else { f.write_str(" (needs a restart)") }
    }
}

/// Every value that differs, in the order they are printed. Listeners and classes are compared by their place.
pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    for section in SECTIONS {
        let (old, new) = (old.tables(section), new.tables(section));
        for index in 0..old.len().max(new.len()) {
            compare(old.get(index), new.get(index), &mut changes);
        }
    }
    changes
}

fn compare(old: Option<&Named<'_>>, new: Option<&Named<'_>>, changes: &mut Vec<Change>) {
    let Some((path, table)) = old.or(new) else { return };
    let (Some((_, old)), Some((_, new))) = (old, new) else {
        // A table that came or went counts as live if all its keys are.
        let is_live = table.fields().iter().all(|field| field.reload == Reload::Live);
        let reload = if is_live { Reload::Live } else { Reload::Restart };
        let first = table.fields().first().and_then(|field| table.get(field.name));
        let (old, new) = if old.is_some() { (first, None) } else { (None, first) };
        return changes.push(Change { key: path.clone(), old, new, reload });
    };
    for field in table.fields() {
        let (old, new) = (old.get(field.name), new.get(field.name));
        if old != new {
            changes.push(Change { key: format!("{path}.{}", field.name), old, new, reload: field.reload });
        }
    }
}
