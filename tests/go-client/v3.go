package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// v3 is paho.mqtt.golang, which speaks 3.1.1.
type v3 struct {
	client   mqtt.Client
	conn     net.Conn
	messages chan message
	present  bool
}

func connectV3(o options) (client, error) {
	c := &v3{messages: make(chan message, 100)}
	settings := mqtt.NewClientOptions().AddBroker(o.address).SetClientID(o.id).SetCleanSession(!o.keep)
	settings.SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(wait).SetOrderMatters(true)
	settings.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
		c.messages <- message{topic: m.Topic(), payload: string(m.Payload()), qos: m.Qos(), retained: m.Retained()}
	})
	if address, err := url.Parse(o.address); err == nil && address.Scheme == "tcp" {
		settings.SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
			conn, err := net.DialTimeout("tcp", address.Host, wait)
			c.conn = conn
			return conn, err
		})
	}
	settings.SetHTTPHeaders(http.Header{})
	if o.will != nil {
		settings.SetWill(o.will.topic, o.will.payload, o.will.qos, o.will.retained)
	}
	c.client = mqtt.NewClient(settings)
	token := c.client.Connect().(*mqtt.ConnectToken)
	if err := finish(token); err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c.present = token.SessionPresent()
	return c, nil
}

func finish(token mqtt.Token) error {
	if !token.WaitTimeout(wait) {
		return errors.New("timed out")
	}
	return token.Error()
}

func (c *v3) subscribe(filter string, qos byte) error {
	return finish(c.client.Subscribe(filter, qos, nil))
}

func (c *v3) publish(m message) error {
	return finish(c.client.Publish(m.topic, m.qos, m.retained, m.payload))
}

func (c *v3) next() (message, error) { return receive(c.messages) }
func (c *v3) sessionPresent() bool   { return c.present }
func (c *v3) disconnect()            { c.client.Disconnect(250) }
func (c *v3) drop()                  { c.conn.Close() }
