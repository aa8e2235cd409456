"""Every transcript in tests/transcripts, each against a broker of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from harness.broker import Broker
from harness.transcript import Runner, parse

FOLDER = Path(__file__).resolve().parents[1] / "transcripts"
PATHS = sorted(FOLDER.glob("**/*.txt"))


@pytest.mark.parametrize("path", PATHS, ids=[str(path.relative_to(FOLDER).with_suffix("")) for path in PATHS])
def test_transcript(path: Path, start_broker: Callable[..., Broker]) -> None:
    transcript = parse(path)
    broker = start_broker(settings=transcript.settings)
    Runner(transcript, broker).run()
