// Runs in the page, with MQTT.js as the global `mqtt`. `run(url)` gives {"v5 qos": "ok", …}; what failed says why.

const WAIT = 15000;

function timeout(what) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(`timed out: ${what}`)), WAIT));
}

// A connected client with a queue of what it received.
async function open(url, version, options) {
  const client = mqtt.connect(url, { protocolVersion: version, reconnectPeriod: 0, clean: true, ...options });
  const messages = [];
  let wake = () => {};
  client.on("message", (topic, payload, packet) => {
    messages.push({ topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain, properties: packet.properties });
    wake();
  });
  const failed = new Promise((_, reject) => client.once("error", reject));
  const connected = new Promise((resolve) => client.once("connect", resolve));
  client.connack = await Promise.race([connected, failed, timeout("connecting")]);
  client.next = async () => {
    while (!messages.length) {
      await Promise.race([new Promise((resolve) => { wake = resolve; }), timeout("waiting for a message")]);
    }
    return messages.shift();
  };
  return client;
}

function same(got, wanted) {
  for (const [key, value] of Object.entries(wanted)) {
    if (JSON.stringify(got[key]) !== JSON.stringify(value)) {
      throw new Error(`expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`);
    }
  }
}

const scenarios = {
  async qos(url, version) {
    const sub = await open(url, version, { clientId: "js-sub" });
    const pub = await open(url, version, { clientId: "js-pub" });
    await sub.subscribeAsync("js/+/x", { qos: 2 });
    for (const qos of [0, 1, 2]) {
      await pub.publishAsync(`js/${qos}/x`, `qos ${qos}`, { qos });
      same(await sub.next(), { topic: `js/${qos}/x`, payload: `qos ${qos}`, qos, retain: false });
    }
    // Larger than one WebSocket frame of many stacks.
    const large = "é".repeat(200000);
    await pub.publishAsync("js/large/x", large, { qos: 1 });
    same(await sub.next(), { topic: "js/large/x", payload: large, qos: 1 });
    await sub.endAsync();
    await pub.endAsync();
  },

  async retained(url, version) {
    const pub = await open(url, version, { clientId: "js-pub" });
    await pub.publishAsync("js/retained", "kept", { qos: 1, retain: true });
    const sub = await open(url, version, { clientId: "js-sub" });
    await sub.subscribeAsync("js/#", { qos: 1 });
    same(await sub.next(), { topic: "js/retained", payload: "kept", qos: 1, retain: true });
    await pub.publishAsync("js/retained", "", { qos: 1, retain: true });
    same(await sub.next(), { topic: "js/retained", payload: "", retain: false });
    const late = await open(url, version, { clientId: "js-late" });
    await late.subscribeAsync("js/#", { qos: 1 });
    await pub.publishAsync("js/live", "first", { qos: 1 });
    same(await late.next(), { topic: "js/live", payload: "first" });
    for (const client of [pub, sub, late]) await client.endAsync();
  },

  async will(url, version) {
    const sub = await open(url, version, { clientId: "js-sub" });
    await sub.subscribeAsync("js/will", { qos: 1 });
    const doomed = await open(url, version, { clientId: "js-doomed", will: { topic: "js/will", payload: "gone", qos: 1 } });
    doomed.stream.destroy();
    same(await sub.next(), { topic: "js/will", payload: "gone", qos: 1 });
    await sub.endAsync();
  },

  async session(url, version) {
    const options = { clientId: `js-keeper-${version}`, clean: false };
    if (version === 5) options.properties = { sessionExpiryInterval: 100 };
    let sub = await open(url, version, options);
    same(sub.connack, { sessionPresent: false });
    await sub.subscribeAsync("js/session", { qos: 2 });
    await sub.endAsync();
    const pub = await open(url, version, { clientId: "js-pub" });
    await pub.publishAsync("js/session", "while away", { qos: 2 });
    sub = await open(url, version, options);
    same(sub.connack, { sessionPresent: true });
    same(await sub.next(), { topic: "js/session", payload: "while away", qos: 2 });
    await sub.endAsync();
    await pub.endAsync();
  },

  async shared(url, version) {
    const members = [];
    for (const index of [0, 1]) {
      const member = await open(url, version, { clientId: `js-member-${index}` });
      await member.subscribeAsync("$share/js/js/shared", { qos: 1 });
      members.push(member);
    }
    const pub = await open(url, version, { clientId: "js-pub" });
    for (const index of [0, 1, 2, 3]) await pub.publishAsync("js/shared", `${index}`, { qos: 1 });
    const seen = new Set();
    for (const member of members) {
      seen.add((await member.next()).payload);
      seen.add((await member.next()).payload);
    }
    if (seen.size !== 4) throw new Error(`expected four different messages, got ${[...seen]}`);
    for (const client of [...members, pub]) await client.endAsync();
  },

  async properties(url, version) {
    const both = await open(url, version, { clientId: "js-props" });
    await both.subscribeAsync("js/props", { qos: 1, properties: { subscriptionIdentifier: 7 } });
    const properties = { contentType: "text/plain", responseTopic: "js/reply", userProperties: { a: ["1", "2"], b: "3" } };
    await both.publishAsync("js/props", "x", { qos: 1, properties });
    const got = await both.next();
    same(got.properties, { ...properties, subscriptionIdentifier: 7 });
    await both.endAsync();
  },
};

window.run = async (url) => {
  const results = {};
  for (const version of [4, 5]) {
    for (const [name, scenario] of Object.entries(scenarios)) {
      if (version === 4 && name === "properties") continue;
      try {
        await scenario(url, version);
        results[`v${version} ${name}`] = "ok";
      } catch (error) {
        results[`v${version} ${name}`] = String(error && error.message ? error.message : error);
      }
    }
  }
  return results;
};
