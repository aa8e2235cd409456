//! Licences, sources and duplicates of dependencies, by the rules of `deny.toml`.
//!
//! `cargo deny` reads the same file and checks more. It is used when it is installed; it is not installed for the
//! purpose, because compiling it takes longer than all other steps together. What is checked here needs nothing but
//! `cargo metadata`, and no network.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{self, command, output, root};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every dependency of the workspace.
///
/// # Errors
/// One that lists every violation.
pub(crate) fn check() -> Result<()> {
    if shell::exists("cargo-deny", "--version") {
        return shell::cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"]);
    }
    let rules = Rules::read()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let text = output(command(cargo, ".").args(["metadata", "--format-version=1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let problems = find_problems(packages, &rules);
    if !problems.is_empty() {
        bail!("{} problems with dependencies:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("    {} packages, all licences allowed, no duplicates but those in deny.toml", packages.len());
    Ok(())
}

/// The part of `deny.toml` that is checked here.
#[derive(Debug, Default)]
struct Rules {
    licences: Vec<String>,
    duplicates: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    fn read() -> Result<Self> {
        let text = std::fs::read_to_string(root().join("deny.toml")).context("deny.toml cannot be read")?;
        let table: toml::Table = text.parse().context("deny.toml is no TOML")?;
        let names = |section: &str, key: &str| -> Vec<String> {
            let entries = table.get(section).and_then(|value| value.get(key)).and_then(toml::Value::as_array);
            entries.into_iter().flatten().filter_map(name_of).collect()
        };
        Ok(Self {
            licences: names("licenses", "allow"),
            duplicates: names("bans", "skip"),
            banned: names("bans", "deny"),
        })
    }
}

/// An entry's name: the entry itself, or its `crate` or `name` key.
fn name_of(entry: &toml::Value) -> Option<String> {
    let inner = entry.get("crate").or_else(|| entry.get("name")).unwrap_or(entry);
    inner.as_str().map(|name| name.split('@').next().unwrap_or(name).to_owned())
}

fn find_problems(packages: &[Value], rules: &Rules) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        versions.entry(name).or_default().push(version);
        if !is_allowed(text("license"), &rules.licences) {
            problems
                .push(format!("{name} {version}: licence `{}` is not allowed by deny.toml", text("license")));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| source != CRATES_IO) {
            problems.push(format!(
                "{name} {version}: comes from {}, not from crates.io",
                source.unwrap_or_default()
            ));
        }
        if rules.banned.iter().any(|banned| banned == name) {
            problems.push(format!("{name} {version}: banned by deny.toml"));
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !rules.duplicates.iter().any(|skip| skip == name) {
            problems.push(format!(
                "{name}: {} versions ({}); list it in [bans] skip with a reason, or unify",
                versions.len(),
                versions.join(", ")
            ));
        }
    }
    problems
}

/// Whether an SPDX expression can be met with the allowed licences. `AND` binds tighter than `OR`; `WITH` belongs to
/// the licence before it; the old `/` means `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let mut tokens = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    tokens = tokens.replace(" WITH ", "-WITH-");
    let tokens: Vec<&str> = tokens.split_whitespace().collect();
    let mut at = 0;
    !tokens.is_empty() && any_of(&tokens, &mut at, allowed) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut result = all_of(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all_of(tokens, at, allowed);
    }
    result
}

fn all_of(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let mut result = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(tokens, at, allowed);
    }
    result
}

fn one(tokens: &[&str], at: &mut usize, allowed: &[String]) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token != "(" {
        return allowed.iter().any(|name| name == token || name.replace(" WITH ", "-WITH-") == *token);
    }
    let result = any_of(tokens, at, allowed);
    *at += 1;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_understood() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND Apache-2.0",
            "(GPL-3.0 OR MIT) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn unlisted_duplicate_and_foreign_source_are_problems() {
        let package = |name: &str, version: &str, source: &str| serde_json::json!({"name": name, "version": version, "license": "MIT", "source": source});
        let packages = [
            package("a", "1.0.0", CRATES_IO),
            package("a", "2.0.0", CRATES_IO),
            package("b", "1.0.0", "git+https://example.org/b"),
        ];
        let mut rules = Rules { licences: vec!["MIT".to_owned()], ..Rules::default() };
        assert_eq!(find_problems(&packages, &rules).len(), 2);
        rules.duplicates.push("a".to_owned());
        assert_eq!(find_problems(&packages, &rules).len(), 1);
    }
}
