// Command go-client drives a broker with Eclipse Paho's two Go clients.
//
//	go-client v3|v5 mqtt-address ws-address scenario
//
// It prints "ok" and ends with 0, or says what went wrong and ends with 1.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// wait is how long something that must come may take; it is only spent on failure.
const wait = 15 * time.Second

type message struct {
	topic    string
	payload  string
	qos      byte
	retained bool
	props    properties
}

// properties are those of MQTT 5 that a message carries; zero for 3.1.1.
type properties struct {
	contentType   string
	responseTopic string
	correlation   string
	user          string
}

// client is what the scenarios need of either library.
type client interface {
	subscribe(filter string, qos byte) error
	publish(message) error
	// next is the next message received.
	next() (message, error)
	sessionPresent() bool
	disconnect()
	// drop ends the connection without DISCONNECT.
	drop()
}

type options struct {
	id      string
	keep    bool // keep the session after the connection
	will    *message
	address string
}

type scenario func(connect func(options) (client, error), version string) error

var scenarios = map[string]scenario{
	"qos": qos, "retained": retained, "will": will, "session": session, "shared": shared, "properties": props,
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: go-client v3|v5 mqtt-address ws-address scenario")
		os.Exit(2)
	}
	version, address, name := os.Args[1], os.Args[2], os.Args[4]
	if name == "websocket" {
		address, name = os.Args[3], "qos"
	}
	connect := connectV3
	if version == "v5" {
		connect = connectV5
	}
	run, known := scenarios[name]
	if !known {
		fmt.Fprintln(os.Stderr, "no scenario", name)
		os.Exit(2)
	}
	err := run(func(o options) (client, error) {
		o.address = address
		return connect(o)
	}, version)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s %s: %v\n", version, name, err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

// expect receives a message and compares it, properties included.
func expect(c client, wanted message) error {
	got, err := c.next()
	if err != nil {
		return fmt.Errorf("waiting for %+v: %w", wanted, err)
	}
	if got != wanted {
		return fmt.Errorf("expected %+v, got %+v", wanted, got)
	}
	return nil
}

func qos(connect func(options) (client, error), _ string) error {
	sub, err := connect(options{id: "go-sub"})
	if err != nil {
		return err
	}
	defer sub.disconnect()
	pub, err := connect(options{id: "go-pub"})
	if err != nil {
		return err
	}
	defer pub.disconnect()
	if err := sub.subscribe("go/+/x", 2); err != nil {
		return err
	}
	for level := byte(0); level <= 2; level++ {
		sent := message{topic: fmt.Sprintf("go/%d/x", level), payload: fmt.Sprintf("qos %d", level), qos: level}
		if err := errors.Join(pub.publish(sent), expect(sub, sent)); err != nil {
			return err
		}
	}
	return nil
}

func retained(connect func(options) (client, error), _ string) error {
	pub, err := connect(options{id: "go-pub"})
	if err != nil {
		return err
	}
	defer pub.disconnect()
	kept := message{topic: "go/retained", payload: "kept", qos: 1, retained: true}
	if err := pub.publish(kept); err != nil {
		return err
	}
	sub, err := connect(options{id: "go-sub"})
	if err != nil {
		return err
	}
	defer sub.disconnect()
	if err := errors.Join(sub.subscribe("go/#", 1), expect(sub, kept)); err != nil {
		return err
	}
	cleared := message{topic: "go/retained", qos: 1}
	emptied := cleared
	emptied.retained = true
	if err := errors.Join(pub.publish(emptied), expect(sub, cleared)); err != nil {
		return err
	}
	late, err := connect(options{id: "go-late"})
	if err != nil {
		return err
	}
	defer late.disconnect()
	live := message{topic: "go/live", payload: "first", qos: 1}
	return errors.Join(late.subscribe("go/#", 1), pub.publish(live), expect(late, live))
}

func will(connect func(options) (client, error), _ string) error {
	sub, err := connect(options{id: "go-sub"})
	if err != nil {
		return err
	}
	defer sub.disconnect()
	if err := sub.subscribe("go/will", 1); err != nil {
		return err
	}
	last := message{topic: "go/will", payload: "gone", qos: 1}
	doomed, err := connect(options{id: "go-doomed", will: &last})
	if err != nil {
		return err
	}
	doomed.drop()
	return expect(sub, last)
}

func session(connect func(options) (client, error), _ string) error {
	sub, err := connect(options{id: "go-sub", keep: true})
	if err != nil {
		return err
	}
	if sub.sessionPresent() {
		return errors.New("session present at the first connection")
	}
	if err := sub.subscribe("go/session", 2); err != nil {
		return err
	}
	sub.disconnect()
	pub, err := connect(options{id: "go-pub"})
	if err != nil {
		return err
	}
	defer pub.disconnect()
	queued := message{topic: "go/session", payload: "while away", qos: 2}
	if err := pub.publish(queued); err != nil {
		return err
	}
	sub, err = connect(options{id: "go-sub", keep: true})
	if err != nil {
		return err
	}
	defer sub.disconnect()
	if !sub.sessionPresent() {
		return errors.New("no session present at the second connection")
	}
	return expect(sub, queued)
}

func shared(connect func(options) (client, error), _ string) error {
	members := make([]client, 2)
	for i := range members {
		member, err := connect(options{id: fmt.Sprintf("go-member-%d", i)})
		if err != nil {
			return err
		}
		defer member.disconnect()
		if err := member.subscribe("$share/go/go/shared", 1); err != nil {
			return err
		}
		members[i] = member
	}
	pub, err := connect(options{id: "go-pub"})
	if err != nil {
		return err
	}
	defer pub.disconnect()
	for i := range 4 {
		if err := pub.publish(message{topic: "go/shared", payload: fmt.Sprint(i), qos: 1}); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, member := range members {
		for range 2 {
			got, err := member.next()
			if err != nil {
				return fmt.Errorf("a member did not get its half: %w", err)
			}
			seen[got.payload] = true
		}
	}
	if len(seen) != 4 {
		return fmt.Errorf("expected four different messages, got %v", seen)
	}
	return nil
}

func props(connect func(options) (client, error), version string) error {
	if version != "v5" {
		return errors.New("3.1.1 has no properties")
	}
	both, err := connect(options{id: "go-props"})
	if err != nil {
		return err
	}
	defer both.disconnect()
	sent := message{
		topic: "go/props", payload: "x", qos: 1,
		props: properties{contentType: "text/plain", responseTopic: "go/reply", correlation: "42", user: "b=2,a=1,b=3"},
	}
	return errors.Join(both.subscribe("go/props", 1), both.publish(sent), expect(both, sent))
}
