//! rumqttc's 5.0 client.

use std::collections::VecDeque;

use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{LastWill, Packet, PublishProperties};
use rumqttc::v5::{Client as Handle, Connection, Event, MqttOptions};

use crate::{Client, Message, Options, Result, WAIT};

/// A client and the loop that drives it; nothing runs but while a method waits.
pub struct V5 {
    handle: Handle,
    connection: Connection,
    received: VecDeque<Message>,
    present: bool,
}

/// Connects.
pub fn connect(host: &str, port: u16, options: Options) -> Result<V5> {
    let mut settings = MqttOptions::new(options.id, host, port);
    settings.set_clean_start(!options.keep);
    if options.keep {
        settings.set_session_expiry_interval(Some(100));
    }
    if let Some(will) = options.will {
        settings.set_last_will(LastWill::new(will.topic, will.payload, qos(will.qos), will.retain, None));
    }
    let (handle, connection) = Handle::new(settings, 100);
    let mut client = V5 { handle, connection, received: VecDeque::new(), present: false };
    client.until(|packet| matches!(packet, Packet::ConnAck(_)))?;
    Ok(client)
}

fn qos(level: u8) -> QoS {
    rumqttc::v5::mqttbytes::qos(level).expect("the scenarios use 0 to 2")
}

impl V5 {
    fn event(&mut self) -> Result<Event> {
        let event = self.connection.recv_timeout(WAIT).map_err(|error| format!("{error:?}"))?;
        let event = event.map_err(|error| error.to_string())?;
        match &event {
            Event::Incoming(Packet::Publish(publish)) => self.received.push_back(Message {
                topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                payload: String::from_utf8_lossy(&publish.payload).into_owned(),
                qos: publish.qos as u8,
                retain: publish.retain,
                content_type: publish.properties.as_ref().and_then(|all| all.content_type.clone()),
                user: publish.properties.as_ref().map(|all| all.user_properties.clone()).unwrap_or_default(),
            }),
            Event::Incoming(Packet::ConnAck(ack)) => self.present = ack.session_present,
            _ => {}
        }
        Ok(event)
    }

    fn until(&mut self, wanted: impl Fn(&Packet) -> bool) -> Result<()> {
        loop {
            if let Event::Incoming(packet) = self.event()?
                && wanted(&packet)
            {
                return Ok(());
            }
        }
    }

    fn until_sent(&mut self, wanted: impl Fn(&Outgoing) -> bool) -> Result<()> {
        loop {
            if let Event::Outgoing(outgoing) = self.event()?
                && wanted(&outgoing)
            {
                return Ok(());
            }
        }
    }
}

impl Client for V5 {
    fn session_present(&self) -> bool {
        self.present
    }

    fn subscribe(&mut self, filter: &str, level: u8) -> Result<()> {
        self.handle.subscribe(filter, qos(level)).map_err(|error| error.to_string())?;
        self.until(|packet| matches!(packet, Packet::SubAck(_)))
    }

    fn publish(&mut self, message: &Message) -> Result<()> {
        let (topic, payload) = (&message.topic, message.payload.clone());
        let properties = PublishProperties {
            content_type: message.content_type.clone(),
            user_properties: message.user.clone(),
            ..PublishProperties::default()
        };
        let level = qos(message.qos);
        let sent = self.handle.publish_with_properties(topic, level, message.retain, payload, properties);
        sent.map_err(|error| error.to_string())?;
        match message.qos {
            0 => self.until_sent(|outgoing| matches!(outgoing, Outgoing::Publish(_))),
            1 => self.until(|packet| matches!(packet, Packet::PubAck(_))),
            _ => self.until(|packet| matches!(packet, Packet::PubComp(_))),
        }
    }

    fn next(&mut self) -> Result<Message> {
        while self.received.is_empty() {
            self.event()?;
        }
        Ok(self.received.pop_front().expect("it is not empty"))
    }

    fn disconnect(mut self: Box<Self>) -> Result<()> {
        self.handle.disconnect().map_err(|error| error.to_string())?;
        self.until_sent(|outgoing| matches!(outgoing, Outgoing::Disconnect))
    }

    fn drop_connection(self: Box<Self>) {}
}
