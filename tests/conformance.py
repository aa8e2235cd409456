"""The table of normative statements and the tests that show them: docs/conformance.md.

    python3 tests/conformance.py --write

The statements are in tests/statements. A transcript names those it shows in its `spec:` lines, a Python test in its
docstring as [MQTT-x.y.z-n] ([MQTT3-x.y.z-n] for 3.1.1). The check runs with the black-box tests.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "conformance.md"
SOURCES = {"5.0": TESTS / "statements" / "mqtt-5.0.txt", "3.1.1": TESTS / "statements" / "mqtt-3.1.1.txt"}
MARK = re.compile(r"\[MQTT(3?)-([0-9]+(?:\.[0-9]+)*-[0-9]+)\]")

INTRODUCTION = """\
# Conformance

Every normative statement of MQTT 5.0 (Appendix B), and those of 3.1.1 that are worded or numbered otherwise, with the
tests that show that Meridian keeps it. The wording is ours and short; the specification's counts. Statements that bind
only clients are listed too: the tests named beside them show what Meridian does with a client that breaks them.

`a/b` is the transcript `tests/transcripts/a/b.txt`; `file::test` is in `tests/blackbox`. This page is written by
`python3 tests/conformance.py --write` from `tests/statements` and from what the tests say they show; a test fails when
it is out of date, when a statement has neither test nor reason, or when a test names a statement that does not exist.
"""


@dataclass
class Statement:
    """A row: what is stated, whom it binds, what shows it, or why nothing does."""

    number: str
    binds: str
    text: str
    reason: str
    tests: list[str] = field(default_factory=list)


def read_statements(path: Path) -> dict[str, Statement]:
    rows = {}
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        number, binds, text, reason = (part.strip() for part in line.split("|", 3))
        if number in rows:
            raise ValueError(f"{path.name}: {number} twice")
        rows[number] = Statement(number, binds, text, reason)
    return rows


def transcript_claims() -> dict[tuple[str, str], list[str]]:
    claims = defaultdict(list)
    folder = TESTS / "transcripts"
    for path in sorted(folder.glob("**/*.txt")):
        name = str(path.relative_to(folder).with_suffix(""))
        for line in path.read_text().splitlines():
            if line.startswith("spec:"):
                for number in line.removeprefix("spec:").split(","):
                    number = number.strip()
                    version = "3.1.1" if number.startswith("v4/") else "5.0"
                    claims[version, number.removeprefix("v4/")].append(name)
    return claims


def python_claims() -> dict[tuple[str, str], list[str]]:
    claims = defaultdict(list)
    for path in sorted((TESTS / "blackbox").glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for old, number in MARK.findall(ast.get_docstring(node) or ""):
                    claims["3.1.1" if old else "5.0", number].append(f"{path.stem}::{node.name}")
    return claims


def collect() -> tuple[dict[str, dict[str, Statement]], list[str]]:
    """All statements with their tests, and what is wrong."""
    versions = {version: read_statements(path) for version, path in SOURCES.items()}
    problems = []
    for claims in (transcript_claims(), python_claims()):
        for (version, number), names in claims.items():
            if number not in versions[version]:
                problems.append(f"{names[0]} names {version} {number}, which is no statement")
            else:
                versions[version][number].tests += names
    for version, statements in versions.items():
        for statement in statements.values():
            if not statement.tests and not statement.reason:
                problems.append(f"{version} {statement.number} has neither test nor reason: {statement.text}")
    return versions, problems


def render(versions: dict[str, dict[str, Statement]]) -> str:
    lines = [INTRODUCTION]
    for version, statements in versions.items():
        shown = sum(bool(statement.tests) for statement in statements.values())
        lines += [f"## MQTT {version}", "", f"{len(statements)} statements, {shown} shown by tests.", ""]
        lines += ["| statement | binds | in short | shown by, or why not |", "|---|---|---|---|"]
        for statement in statements.values():
            shown_by = ", ".join(f"`{name}`" for name in dict.fromkeys(statement.tests))
            last = "; ".join(part for part in (shown_by, statement.reason) if part)
            lines.append(f"| MQTT-{statement.number} | {statement.binds} | {statement.text} | {last} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    versions, problems = collect()
    for problem in problems:
        print(problem, file=sys.stderr)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(render(versions))
    elif PAGE.read_text() != render(versions):
        print("docs/conformance.md is out of date; python3 tests/conformance.py --write", file=sys.stderr)
        return 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
