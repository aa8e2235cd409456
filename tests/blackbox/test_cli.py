"""The command line as a new user meets it: the README's lines, pub and sub, and mistakes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.broker import LISTENING, Broker, binary
from harness.client import WAIT


def meridian(*arguments: Any, text: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    line = [str(binary()), *(str(word) for word in arguments)]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(line, input=text, capture_output=True, text=True, timeout=WAIT * 2, env=environment)


def at(broker: Broker) -> list[str]:
    host, port = broker.address()
    return ["-h", host, "-p", str(port)]


def ok(*arguments: Any, **options: Any) -> str:
    done = meridian(*arguments, **options)
    assert done.returncode == 0, f"{done.args}: {done.stderr}"
    return done.stdout


def subscribe(broker: Broker, *arguments: str) -> subprocess.Popen[str]:
    """A running `meridian sub` that has its subscription: the broker counts it."""
    wanted = broker.metrics()["meridian_subscriptions_made_total"] + 1
    process = subprocess.Popen(
        [str(binary()), "sub", *at(broker), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while broker.metrics()["meridian_subscriptions_made_total"] < wanted:
        assert process.poll() is None, process.communicate()
    return process


def lines(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 0, errors
    return output.splitlines()


# --- pub and sub ----------------------------------------------------------------------------------------


def test_readme_lines(broker: Broker) -> None:
    process = subscribe(broker, "-t", "greetings/#", "-v", "-C", "2")
    ok("pub", *at(broker), "-t", "greetings/you", "-m", "hello")
    ok("pub", *at(broker), "-t", "greetings/all", "-m", "still here", "-r", "-q", "1")
    assert lines(process) == ["greetings/you hello", "greetings/all still here"]
    assert ok("sub", *at(broker), "-t", "greetings/#", "-v", "-C", "1") == "greetings/all still here\n"


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_lines_of_standard_input_keep_their_order(broker: Broker, qos: str) -> None:
    process = subscribe(broker, "-t", "lines", "-q", qos, "-C", "500")
    ok("pub", *at(broker), "-t", "lines", "-q", qos, "-l", text="".join(f"line {i}\n" for i in range(500)))
    assert lines(process) == [f"line {i}" for i in range(500)]


def test_json_output(broker: Broker) -> None:
    process = subscribe(broker, "-t", "j/#", "--json", "-C", "1", "-q", "1")
    ok("pub", *at(broker), "-t", "j/x", "-m", '{"a": 1}', "-q", "1", "-r")
    message = json.loads(lines(process)[0])
    assert message["topic"] == "j/x" and message["qos"] == 1


def test_format(broker: Broker) -> None:
    process = subscribe(broker, "-t", "f/#", "-F", "%t|%q|%p", "-C", "1")
    ok("pub", *at(broker), "-t", "f/x", "-m", "body")
    assert lines(process) == ["f/x|0|body"]


def test_count_publishes_as_often(broker: Broker) -> None:
    process = subscribe(broker, "-t", "c", "-C", "7")
    ok("pub", *at(broker), "-t", "c", "-m", "x", "--count", "7")
    assert lines(process) == ["x"] * 7


def test_sub_of_nothing_leaves_after_its_time(broker: Broker) -> None:
    done = meridian("sub", *at(broker), "-t", "nothing", "-W", "1")
    assert done.stdout == "" and done.returncode in {0, 1, 27}


def test_no_broker_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = meridian("pub", "-h", "127.0.0.1", "-p", free.getsockname()[1], "-t", "t", "-m", "x")
    assert done.returncode == 1
    assert "refused" in done.stderr and "hint" in done.stderr, done.stderr


def test_wrong_filter_is_told_before_connecting(broker: Broker) -> None:
    done = meridian("sub", *at(broker), "-t", "a#b")
    assert done.returncode == 2 and "a#b" in done.stderr and "panicked" not in done.stderr


@pytest.mark.parametrize("command", [[], ["server"], ["pub"], ["sub"], ["config"], ["config", "check"], ["bench"]])
def test_help_has_examples_and_fits_a_terminal(command: list[str]) -> None:
    text = ok(*command, "--help")
    assert "Usage:" in text and text.isprintable() is False
    if command in ([], ["pub"], ["sub"], ["config"], ["bench"]):
        assert "xample" in text
    long = [line for line in text.splitlines() if len(line) > 120]
    assert not long, long


def test_version() -> None:
    assert re.match(r"meridian \d+\.\d+\.\d+", ok("--version"))


# --- configuration --------------------------------------------------------------------------------------


def config_file(folder: Path, text: str) -> Path:
    path = folder / "meridian.toml"
    path.write_text(text)
    return path


MISTAKES = {
    "misspelt key": ("[mqtt]\nreceive_maximun = 10\n", 2, "receive_maximum"),
    "misspelt section": ("[log]\nlevel = \"info\"\n\n[mqqt]\nreceive_maximum = 10\n", 4, "mqtt"),
    "misspelt value": ("[queue]\n\noverflow = \"drop-oldst\"\n", 3, "drop-oldest"),
    "wrong type": ("[mqtt]\nreceive_maximum = \"many\"\n", 2, "receive_maximum"),
    "wrong unit": ("[queue]\nbytes_max = \"10 MegaByte\"\n", 2, "MiB"),
    "out of range": ("[mqtt]\nreceive_maximum = 70000\n", 2, "65535|65,535"),
    "wrong url": ("[[listener]]\nurl = \"mqt://127.0.0.1:1883\"\n", 2, "mqtt://"),
    "no TOML": ("[mqtt\nreceive_maximum = 1\n", 1, "]"),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("command", [["config", "check"], ["server"]])
def test_mistake_names_file_line_and_what_was_meant(tmp_path: Path, command: list[str], name: str) -> None:
    text, line, hint = MISTAKES[name]
    path = config_file(tmp_path, text)
    done = meridian(*command, "--config", path)
    assert done.returncode == 2
    assert f"meridian.toml:{line}" in done.stderr, done.stderr
    assert re.search(hint, done.stderr), done.stderr
    assert "panicked" not in done.stderr


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = config_file(tmp_path, "[mqtt]\nreceive_maximun = 1\n\n[queue]\noverflow = \"no\"\n")
    done = meridian("config", "check", "--config", path)
    assert "meridian.toml:2" in done.stderr and "meridian.toml:5" in done.stderr


def test_mistake_on_the_command_line_names_the_nearest_key() -> None:
    done = meridian("config", "check", "--set", "mqtt.receive_maximun=1")
    assert done.returncode == 2 and "receive_maximum" in done.stderr


def test_missing_file_is_named(tmp_path: Path) -> None:
    done = meridian("server", "--config", tmp_path / "absent.toml")
    assert done.returncode == 2 and "absent.toml" in done.stderr


def test_flags_override_environment_overrides_file(tmp_path: Path) -> None:
    path = config_file(tmp_path, "[mqtt]\nreceive_maximum = 1\ntopic_alias_maximum = 1\ninflight_max = 1\n")
    env = {"MERIDIAN_MQTT_RECEIVE_MAXIMUM": "2", "MERIDIAN_MQTT_TOPIC_ALIAS_MAXIMUM": "2"}
    shown = ok("config", "show", "--bare", "--config", path, "--set", "mqtt.receive_maximum=3", env=env)
    assert "receive_maximum = 3" in shown
    assert "topic_alias_maximum = 2" in shown
    assert "inflight_max = 1" in shown


def test_what_config_show_prints_is_a_valid_configuration(tmp_path: Path) -> None:
    path = config_file(tmp_path, ok("config", "show"))
    assert "valid" in ok("config", "check", "--config", path)
    assert ok("config", "show", "--config", path) == ok("config", "show")


def test_reference_lists_every_key_that_show_prints() -> None:
    reference = ok("config", "reference")
    for key in re.findall(r"^([a-z_0-9]+) =", ok("config", "show", "--bare"), re.MULTILINE):
        assert key in reference


# --- starting -------------------------------------------------------------------------------------------


def test_port_in_use_says_who_and_what_to_do(broker: Broker) -> None:
    done = meridian("server", "--listen", f"mqtt://127.0.0.1:{broker.port}")
    assert done.returncode == 1
    assert str(broker.port) in done.stderr and "in use" in done.stderr
    assert str(broker.process.pid) in done.stderr, "who holds the port"
    assert f"--listen mqtt://127.0.0.1:{broker.port + 1}" in done.stderr


def test_address_of_another_machine_is_refused_with_a_hint() -> None:
    done = meridian("server", "--listen", "mqtt://192.0.2.1:1883")
    assert done.returncode == 1 and "0.0.0.0" in done.stderr


def test_without_configuration_only_this_machine_can_connect() -> None:
    """The defaults as `config show` tells them; starting on the default ports might meet a broker of the user's."""
    hosts = {host for _, host, _ in LISTENING.findall(ok("config", "show", "--bare"))}
    assert hosts == {"127.0.0.1"}


# --- bench ----------------------------------------------------------------------------------------------


def test_bench_measures_this_broker(broker: Broker, tmp_path: Path) -> None:
    help_text = ok("bench", "--help")
    assert "fan" in help_text
