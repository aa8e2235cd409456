"""Strategies of shared subscriptions, and members that come, go and do not keep up."""

from __future__ import annotations

from collections import Counter
from typing import Callable

import pytest

from harness.broker import Broker
from harness.client import Connection

StartBroker = Callable[..., Broker]


def group(start_broker: StartBroker, strategy: str, count: int = 3) -> tuple[Broker, list[Connection]]:
    broker = start_broker(settings=[f"mqtt.share_strategy={strategy}"])
    members = [broker.client(f"member-{index}") for index in range(count)]
    for member in members:
        member.subscribe("$share/g/work/#", qos=1)
    return broker, members


def drain(member: Connection) -> list[tuple[str, int]]:
    """(topic, number) of what it has been sent up to now, acknowledged."""
    member.send("PINGREQ")
    messages = []
    while (packet := member.receive()).kind != "PINGRESP":
        messages.append((packet.topic, int(packet.payload)))
        if packet.qos:
            member.send("PUBACK", id=packet.id)
    return messages


def publish(client: Connection, topic: str, number: int) -> None:
    client.send("PUBLISH", topic=topic, payload=str(number).encode(), qos=1, id=1)
    client.expect("PUBACK", reason=0)


def test_round_robin_takes_turns(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "round-robin")
    with broker.client("pub") as pub:
        for number in range(30):
            publish(pub, "work/x", number)
    shares = [[number for _, number in drain(member)] for member in members]
    assert sorted(sum(shares, [])) == list(range(30))
    assert [len(share) for share in shares] == [10, 10, 10]


def test_random_uses_every_member(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "random")
    with broker.client("pub") as pub:
        for number in range(300):
            publish(pub, "work/x", number)
    counts = [len(drain(member)) for member in members]
    # Below 50 of 300 has a chance of less than one in a billion for each member.
    assert sum(counts) == 300 and min(counts) >= 50


def test_sticky_stays_with_a_member_until_it_leaves(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "sticky")
    with broker.client("pub") as pub:
        for number in range(10):
            publish(pub, f"work/{number}", number)
        counts = [len(drain(member)) for member in members]
        assert sorted(counts) == [0, 0, 10]
        chosen = members.pop(counts.index(10))
        chosen.send("DISCONNECT")
        chosen.expect_closed()
        for number in range(10):
            publish(pub, f"work/{number}", number)
        assert sorted(len(drain(member)) for member in members) == [0, 10]


def test_hash_topic_keeps_each_topic_with_one_member(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "hash-topic")
    with broker.client("pub") as pub:
        for number in range(200):
            publish(pub, f"work/{number % 50}", number)
    owners: dict[str, set[int]] = {}
    for index, member in enumerate(members):
        for topic, _ in drain(member):
            owners.setdefault(topic, set()).add(index)
    assert len(owners) == 50 and all(len(owner) == 1 for owner in owners.values())
    assert len(set.union(*owners.values())) == 3, "fifty topics all hashed to one or two members"


def test_hash_client_keeps_each_publisher_with_one_member(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "hash-client")
    for number in range(30):
        with broker.client(f"pub-{number}") as pub:
            for _ in range(4):
                publish(pub, "work/x", number)
    owners = Counter()
    for member in members:
        for number, times in Counter(number for _, number in drain(member)).items():
            assert times == 4, f"messages of publisher {number} were split"
            owners[number] += 1
    assert len(owners) == 30 and set(owners.values()) == {1}


def test_least_inflight_avoids_the_busy_member(start_broker: StartBroker) -> None:
    """A member that does not acknowledge gets no more than its even share to begin with; the others take the rest."""
    broker, members = group(start_broker, "least-inflight", 2)
    busy, idle = members
    with broker.client("pub") as pub:
        received = []
        for number in range(20):
            publish(pub, "work/x", number)
            received += drain(idle)
    busy.send("PINGREQ")
    stuck = 0
    while busy.receive().kind != "PINGRESP":
        stuck += 1
    assert stuck + len(received) == 20 and stuck <= 2


def test_unacknowledged_messages_of_a_leaving_member_go_to_the_others(start_broker: StartBroker) -> None:
    broker, members = group(start_broker, "round-robin", 2)
    leaving, staying = members
    with broker.client("pub") as pub:
        for number in range(10):
            publish(pub, "work/x", number)
    got = [int(leaving.expect("PUBLISH").payload) for _ in range(5)]
    leaving.drop()
    rest = [int(staying.expect("PUBLISH").payload) for _ in range(10)]
    assert sorted(rest) == list(range(10)) and set(got) < set(rest)


def test_messages_of_a_member_that_unsubscribes_are_not_lost(start_broker: StartBroker) -> None:
    """What is in flight to the member that unsubscribes is completed to it [MQTT-3.10.4-3]; what waits is not lost."""
    broker = start_broker()
    with broker.client("leaving", properties={"receive_maximum": 1}) as leaving, broker.client("pub") as pub:
        leaving.subscribe("$share/g/work", qos=1)
        for number in range(3):
            publish(pub, "work", number)
        first = leaving.expect("PUBLISH", payload=b"0")
        with broker.client("staying") as staying:
            staying.subscribe("$share/g/work", qos=1)
            leaving.send("UNSUBSCRIBE", id=9, filters=[{"filter": "$share/g/work"}])
            leaving.expect("UNSUBACK")
            leaving.send("PUBACK", id=first.id)
            seen = [number for _, number in drain(staying)]
            # With a receive maximum of one, each acknowledgement lets one more come.
            while more := drain(leaving):
                seen += [number for _, number in more]
            assert sorted(seen) == [1, 2]


def test_connected_members_come_first(start_broker: StartBroker) -> None:
    """A member with a session that is away gets nothing while another is there."""
    broker = start_broker()
    with broker.client("away", properties={"session_expiry_interval": 100}) as away:
        away.subscribe("$share/g/work", qos=1)
        away.send("DISCONNECT")
        away.expect_closed()
    with broker.client("here") as here, broker.client("pub") as pub:
        here.subscribe("$share/g/work", qos=1)
        for number in range(10):
            publish(pub, "work", number)
        assert len(drain(here)) == 10


def test_messages_wait_for_the_only_member_that_is_away(start_broker: StartBroker) -> None:
    broker = start_broker()
    keep = {"clean_start": 0, "properties": {"session_expiry_interval": 100}}
    with broker.client("away", **keep) as away:
        away.subscribe("$share/g/work", qos=1)
        away.send("DISCONNECT")
        away.expect_closed()
    with broker.client("pub") as pub:
        for number in range(3):
            publish(pub, "work", number)
    with broker.client("away", **keep) as away:
        assert [int(away.expect("PUBLISH").payload) for _ in range(3)] == [0, 1, 2]


def test_blocked_member_is_passed_over(start_broker: StartBroker) -> None:
    """One whose socket takes no more does not hold up its group."""
    broker = start_broker(settings=["queue.outbox_bytes_max=64 KiB", "queue.messages_max=100000"])
    blocked = broker.connection(receive_buffer=4096)
    blocked.connect("blocked")
    blocked.subscribe("$share/g/work")
    blocked.subscribe("fill")
    with broker.client("pub") as pub:
        for _ in range(2500):
            pub.send("PUBLISH", topic="fill", payload=bytes(4096))
        pub.quiet()
        with broker.client("free") as free:
            free.subscribe("$share/g/work")
            for _ in range(20):
                pub.send("PUBLISH", topic="work", payload=b"1")
            for _ in range(20):
                free.expect("PUBLISH", topic="work")


@pytest.mark.parametrize("version", [4, 5])
def test_old_clients_share_too(broker: Broker, version: int) -> None:
    with broker.client("a", version=version) as a, broker.client("b", version=4) as b, broker.client("pub") as pub:
        a.subscribe("$share/g/work"), b.subscribe("$share/g/work")
        for number in range(4):
            pub.send("PUBLISH", topic="work", payload=str(number).encode())
        pub.quiet()
        assert len(drain(a)) == len(drain(b)) == 2
