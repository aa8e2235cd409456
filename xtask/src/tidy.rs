//! The mechanical rules of the style, over every file that git tracks (or would).

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell::{command, output, root};

/// Longest a source file may be, in lines.
const FILE_LINES_MAX: usize = 500;

/// What other programs made, by the beginning of its path: no text of ours.
const FOREIGN: &[&str] = &["fuzz/corpus/"];

/// Files that may be longer: generated ones and tables, by the end of their path.
const LONG_FILES: &[&str] = &["Cargo.lock", "package-lock.json", "go.sum", "docs/conformance.md"];

/// Checks every tracked file.
///
/// # Errors
/// One that lists every violation.
pub(crate) fn check() -> Result<()> {
    let list = output(command("git", ".").args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    let mut problems = Vec::new();
    let mut count = 0;
    for name in list.lines().filter(|name| !FOREIGN.iter().any(|folder| name.starts_with(folder))) {
        let path = root().join(name);
        // A file that is deleted but not yet committed, a folder of another repository, or no text.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        count += 1;
        problems.extend(check_file(name, &text));
    }
    if !problems.is_empty() {
        bail!("{} problems:\n  {}", problems.len(), problems.join("\n  "));
    }
    println!("    {count} files are tidy");
    Ok(())
}

fn check_file(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let extension = Path::new(name).extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_code = matches!(extension, "rs" | "py" | "go" | "js" | "mjs" | "sh");
    let lines = text.lines().count();
    if is_code && lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|long| name.ends_with(long)) {
        problems.push(format!("{name}: {lines} lines, at most {FILE_LINES_MAX}"));
    }
    if name.ends_with("/mod.rs") {
        problems.push(format!("{name}: no mod.rs; `foo.rs` beside `foo/`"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        problems.push(format!("{name}: no newline at the end"));
    }
    for (index, line) in text.lines().enumerate() {
        problems.extend(check_line(extension, line).map(|what| format!("{name}:{}: {what}", index + 1)));
    }
    problems
}

fn check_line(extension: &str, line: &str) -> Option<String> {
    if extension != "md" && line.ends_with([' ', '\t']) {
        return Some("space at the end of the line".to_owned());
    }
    // Written in halves, so that this file passes its own check.
    let machine =
        [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
    if let Some(path) = machine.iter().find(|path| has_path(line, path)) {
        return Some(format!("machine path {path}"));
    }
    if extension == "rs" {
        let markers = [
            concat!("to", "do!("),
            concat!("unimplemen", "ted!("),
            concat!("#[ign", "ore"),
            concat!("db", "g!("),
        ];
        if let Some(marker) = markers.iter().find(|marker| line.contains(*marker)) {
            return Some(format!("{marker} must not stay"));
        }
    }
    let unfinished = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:")];
    unfinished
        .iter()
        .find(|word| line.contains(*word))
        .map(|word| format!("{word}: finish it or say so in ROADMAP.md"))
}

/// Whether `path` starts an absolute path in `line`, rather than being a part of a longer one or of an address.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "./_-~$}".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_and_markers_are_found() {
        assert!(check_line("md", concat!("see /ho", "me/me/x")).is_some());
        assert!(check_line("md", concat!("https://example.org/ho", "me/x")).is_none());
        assert!(check_line("rs", concat!("    to", "do!()")).is_some());
        assert!(check_line("rs", "let x = 1; ").is_some());
        assert!(check_line("rs", "let x = 1;").is_none());
    }

    #[test]
    fn long_file_is_a_problem() {
        let text = "x\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(check_file("a.rs", &text).len(), 1);
        assert!(check_file("a.txt", &text).is_empty());
    }
}
