package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// v5 is paho.golang, which speaks 5.0.
type v5 struct {
	client   *paho.Client
	conn     net.Conn
	messages chan message
	present  bool
}

func receive(messages chan message) (message, error) {
	select {
	case m := <-messages:
		return m, nil
	case <-time.After(wait):
		return message{}, errors.New("timed out")
	}
}

// dial opens a TCP connection; paho.golang has no public way to open a WebSocket.
func dial(ctx context.Context, address string) (net.Conn, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if parsed.Scheme != "tcp" {
		return nil, fmt.Errorf("v5 cannot dial %s", address)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", parsed.Host)
	if err != nil {
		return nil, err
	}
	return packets.NewThreadSafeConn(conn), nil
}

func connectV5(o options) (client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	conn, err := dial(ctx, o.address)
	if err != nil {
		return nil, err
	}
	c := &v5{conn: conn, messages: make(chan message, 100)}
	c.client = paho.NewClient(paho.ClientConfig{
		Conn:              conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){c.received},
	})
	packet := &paho.Connect{ClientID: o.id, KeepAlive: 60, CleanStart: !o.keep}
	if o.keep {
		expiry := uint32(100)
		packet.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry}
	}
	if o.will != nil {
		packet.WillMessage = &paho.WillMessage{
			Topic: o.will.topic, Payload: []byte(o.will.payload), QoS: o.will.qos, Retain: o.will.retained,
		}
	}
	ack, err := c.client.Connect(ctx, packet)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.present = ack.SessionPresent
	return c, nil
}

func (c *v5) received(in paho.PublishReceived) (bool, error) {
	m := message{topic: in.Packet.Topic, payload: string(in.Packet.Payload), qos: in.Packet.QoS, retained: in.Packet.Retain}
	if p := in.Packet.Properties; p != nil {
		pairs := make([]string, 0, len(p.User))
		for _, pair := range p.User {
			pairs = append(pairs, pair.Key+"="+pair.Value)
		}
		m.props = properties{p.ContentType, p.ResponseTopic, string(p.CorrelationData), strings.Join(pairs, ",")}
	}
	c.messages <- m
	return true, nil
}

func (c *v5) subscribe(filter string, qos byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := c.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	return err
}

func (c *v5) publish(m message) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	packet := &paho.Publish{Topic: m.topic, Payload: []byte(m.payload), QoS: m.qos, Retain: m.retained}
	if m.props != (properties{}) {
		packet.Properties = &paho.PublishProperties{
			ContentType: m.props.contentType, ResponseTopic: m.props.responseTopic,
			CorrelationData: []byte(m.props.correlation),
		}
		for _, pair := range strings.Split(m.props.user, ",") {
			key, value, _ := strings.Cut(pair, "=")
			packet.Properties.User.Add(key, value)
		}
	}
	_, err := c.client.Publish(ctx, packet)
	return err
}

func (c *v5) next() (message, error) { return receive(c.messages) }
func (c *v5) sessionPresent() bool   { return c.present }
func (c *v5) drop()                  { c.conn.Close() }

func (c *v5) disconnect() { _ = c.client.Disconnect(&paho.Disconnect{ReasonCode: 0}) }
