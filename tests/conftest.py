"""Fixtures of the black-box tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable, Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.broker import Broker, start  # noqa: E402


@pytest.fixture
def start_broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers; at the end each must still be alive and must not have panicked."""
    brokers: list[Broker] = []

    def begin(*arguments: str, **options: object) -> Broker:
        brokers.append(start(*arguments, **options))
        return brokers[-1]

    yield begin
    for broker in brokers:
        broker.stop()


@pytest.fixture
def broker(start_broker: Callable[..., Broker]) -> Broker:
    """A fresh broker with the default configuration."""
    return start_broker()


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[Broker]:
    """One broker for a whole file: what one test does to it must not hurt the next."""
    broker = start()
    yield broker
    broker.stop()
