"""docs/conformance.md is complete and up to date."""

from __future__ import annotations

import conformance


def test_every_statement_has_a_test_or_a_reason() -> None:
    _, problems = conformance.collect()
    assert not problems, "\n".join(problems)


def test_page_is_up_to_date() -> None:
    versions, _ = conformance.collect()
    assert conformance.PAGE.read_text() == conformance.render(versions), "python3 tests/conformance.py --write"


def test_every_transcript_names_what_it_shows() -> None:
    for path in sorted((conformance.TESTS / "transcripts").glob("**/*.txt")):
        assert "\nspec:" in "\n" + path.read_text(), f"{path.name} shows no statement"
