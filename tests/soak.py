"""A long run against one broker: connects, drops, takeovers, subscribes, publishes, wills, retained churn.

    python3 tests/soak.py --minutes 30

Needs nothing but Python and the binary. It ends with 1 if an invariant broke:
- every QoS 1 message that was acknowledged reaches the steady subscriber and the persistent session, in order for
  each publisher, and QoS 2 messages reach them exactly once;
- every will of a dropped client comes, none of a client that said DISCONNECT;
- retained messages are what was last set;
- the broker lives, does not panic, and after warming up grows by less than GROWTH_MAX.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.broker import Broker  # noqa: E402
from harness.client import Closed, Connection  # noqa: E402

#: Resident bytes the broker may gain between the end of warming up and the end.
GROWTH_MAX = 8 << 20
#: The share of the run that warms up: caches fill, the allocator finds its size.
WARM_UP = 0.25
#: Rounds between two looks at memory.
ROUNDS_PER_SAMPLE = 20


class Broken(AssertionError):
    """An invariant did not hold."""


class Soak:
    """The state of a run: what was sent, what must have come."""

    def __init__(self, broker: Broker, seed: int):
        self.broker, self.random = broker, random.Random(seed)
        self.round = 0
        self.counts: dict[str, int] = defaultdict(int)
        self.sent: list[tuple[str, bytes]] = []
        self.retained: dict[str, bytes] = {}
        self.steady = broker.client("steady", properties={"receive_maximum": 20})
        self.steady.subscribe("soak/data/#", qos=2)
        self.wills = broker.client("wills", version=4)
        self.wills.subscribe("soak/will/+", qos=1)
        self.shared = [broker.client(f"shared-{index}") for index in range(3)]
        for member in self.shared:
            member.subscribe("$share/soak/soak/data/#", qos=1)

    def one_round(self) -> None:
        """A little of everything; at its end every promise of the round is checked."""
        self.round += 1
        self.sent = []
        self._leave_session()
        self._publish(self.random.randrange(5, 40))
        self._churn_clients(self.random.randrange(2, 12))
        self._take_over(self.random.randrange(1, 5))
        self._churn_subscriptions(self.random.randrange(1, 50))
        self._churn_retained(self.random.randrange(1, 10))
        self._garbage()
        self._publish(self.random.randrange(5, 40))
        self._check_steady()
        self._check_shared()
        self._resume_session()

    # --- what is done -----------------------------------------------------------------------------------

    def _leave_session(self) -> None:
        with self.broker.client("keeper", clean_start=1, properties={"session_expiry_interval": 600}) as keeper:
            keeper.subscribe("soak/data/+", qos=2)
            if self.random.random() < 0.5:
                keeper.send("DISCONNECT")
                keeper.expect_closed()
            else:
                keeper.drop()

    def _publish(self, count: int) -> None:
        """Messages of QoS 1 and 2, each acknowledged before it counts as sent."""
        version = self.random.choice([4, 5])
        with self.broker.client(f"publisher-{self.random.randrange(5)}", version=version) as publisher:
            for index in range(count):
                topic = f"soak/data/{self.random.randrange(20)}"
                payload = f"{self.round}-{len(self.sent)}-".encode() + self.random.randbytes(self.random.randrange(300))
                packet_id, qos = index + 1, self.random.choice([1, 2])
                publisher.send("PUBLISH", topic=topic, payload=payload, qos=qos, id=packet_id)
                if qos == 1:
                    publisher.expect("PUBACK", id=packet_id)
                else:
                    publisher.expect("PUBREC", id=packet_id)
                    publisher.send("PUBREL", id=packet_id)
                    publisher.expect("PUBCOMP", id=packet_id)
                self.sent.append((topic, payload))
                self.counts["published"] += 1
            publisher.send("DISCONNECT")
            publisher.expect_closed()

    def _churn_clients(self, count: int) -> None:
        """Clients with wills: some crash, some leave; exactly the wills of those that crashed come."""
        due = set()
        for index in range(count):
            topic = f"soak/will/{self.round}-{index}"
            client = self.broker.client(
                f"mortal-{index}", version=self.random.choice([4, 5]), will_topic=topic, will_payload=b"gone", will_qos=1
            )
            if self.random.random() < 0.5:
                due.add(topic)
                client.drop()
            else:
                client.send("DISCONNECT")
                client.expect_closed()
                client.close()
            self.counts["connected"] += 1
        for _ in range(len(due)):
            message = self.wills.expect("PUBLISH")
            self.wills.send("PUBACK", id=message.id)
            if message.topic not in due:
                raise Broken(f"unexpected will {message}")
            due.remove(message.topic)
        self.wills.quiet()
        self.counts["wills"] += count

    def _take_over(self, count: int) -> None:
        holder = self.broker.client("contested")
        for _ in range(count):
            newer = self.broker.client("contested")
            holder.expect("DISCONNECT", reason=0x8E)
            holder.expect_closed()
            holder.close()
            holder = newer
            self.counts["takeovers"] += 1
        holder.close()

    def _churn_subscriptions(self, count: int) -> None:
        with self.broker.client("browser") as client:
            names = [f"churn/{self.random.randrange(1000)}/{self.random.choice('+#')}" for _ in range(count)]
            client.subscribe(*names, qos=1, packet_id=7)
            gone = names[: count // 2]
            if gone:
                client.send("UNSUBSCRIBE", id=8, filters=[{"filter": name} for name in gone])
                client.expect("UNSUBACK", id=8)
            self.counts["subscribed"] += count

    def _churn_retained(self, count: int) -> None:
        with self.broker.client("clerk") as clerk:
            for _ in range(count):
                topic = f"kept/{self.random.randrange(200)}"
                payload = b"" if self.random.random() < 0.3 else self.random.randbytes(self.random.randrange(1, 500))
                clerk.send("PUBLISH", topic=topic, payload=payload, retain=1, qos=1, id=1)
                clerk.expect("PUBACK")
                self.retained[topic] = payload
                if not payload:
                    del self.retained[topic]
            clerk.subscribe("kept/#", qos=0)
            found = {}
            for _ in range(len(self.retained)):
                message = clerk.expect("PUBLISH", retain=1)
                found[message.topic] = message.payload
            clerk.quiet()
            if found != self.retained:
                raise Broken("retained messages are not what was set")
            self.counts["retained"] += count

    def _garbage(self) -> None:
        connection = self.broker.connection()
        try:
            connection.send_bytes(self.random.randbytes(self.random.randrange(1, 2000)))
        except ConnectionError:
            pass
        connection.drop()

    # --- what must hold ---------------------------------------------------------------------------------

    def _receive(self, client: Connection, count: int) -> list[tuple[str, bytes]]:
        """`count` messages, acknowledged by their QoS, and then nothing."""
        got = []
        unfinished = set()
        while len(got) < count or unfinished:
            packet = client.receive()
            if packet.kind == "PUBREL":
                client.send("PUBCOMP", id=packet.id)
                unfinished.discard(packet.id)
                continue
            if packet.kind != "PUBLISH":
                raise Broken(f"unexpected {packet}")
            got.append((packet.topic, packet.payload))
            if packet.qos == 1:
                client.send("PUBACK", id=packet.id)
            elif packet.qos == 2:
                client.send("PUBREC", id=packet.id)
                unfinished.add(packet.id)
        client.quiet()
        return got

    def _check_steady(self) -> None:
        got = self._receive(self.steady, len(self.sent))
        if got != self.sent:
            raise Broken(f"the steady subscriber got {len(got)} of {len(self.sent)}, or another order")

    def _check_shared(self) -> None:
        """The members together got every message once."""
        got = []
        for member in self.shared:
            member.send("PINGREQ")
            while (packet := member.receive()).kind == "PUBLISH":
                got.append((packet.topic, packet.payload))
                member.send("PUBACK", id=packet.id)
        if sorted(got) != sorted(self.sent):
            raise Broken(f"the share group got {len(got)} of {len(self.sent)} messages, or others")

    def _resume_session(self) -> None:
        with self.broker.client("keeper", clean_start=0, properties={"session_expiry_interval": 0}) as keeper:
            got = self._receive(keeper, len(self.sent))
            if got != self.sent:
                raise Broken(f"the resumed session got {len(got)} of {len(self.sent)}, or another order")
            keeper.send("DISCONNECT")
            keeper.expect_closed()


def run(minutes: float, seed: int) -> None:
    broker = Broker(settings=["log.level=warn"])
    try:
        soak = Soak(broker, seed)
        begun = time.monotonic()
        end, warm = begun + minutes * 60, begun + minutes * 60 * WARM_UP
        base, top = 0, 0
        next_report = begun + 30
        while time.monotonic() < end:
            soak.one_round()
            if soak.round % ROUNDS_PER_SAMPLE:
                continue
            broker.check()
            now, resident = time.monotonic(), broker.resident_bytes()
            if now < warm:
                base = top = resident
            top = max(top, resident)
            if now >= next_report:
                next_report += 30
                print(f"{now - begun:6.0f} s  {resident / 2**20:6.1f} MiB  {describe(soak)}", flush=True)
        broker.check()
        print(f"done: {describe(soak)}; {base / 2**20:.1f} MiB after warming up, at most {top / 2**20:.1f} MiB")
        if not base:
            raise Broken("too few rounds to judge memory; give it more minutes")
        if top - base > GROWTH_MAX:
            raise Broken(f"memory grew by {(top - base) / 2**20:.1f} MiB, more than {GROWTH_MAX / 2**20:.0f}")
    finally:
        broker.kill()


def describe(soak: Soak) -> str:
    return f"{soak.round} rounds, " + ", ".join(f"{count} {what}" for what, count in soak.counts.items())


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs Meridian hard and checks what it promises.")
    parser.add_argument("--minutes", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    print(f"soak: {arguments.minutes} minutes, seed {seed}", flush=True)
    try:
        run(arguments.minutes, seed)
    except (AssertionError, Closed, TimeoutError, OSError) as error:
        print(f"soak failed (seed {seed}): {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
