"""What the black-box tests share: a broker process, an MQTT codec of their own, and the transcript runner."""
