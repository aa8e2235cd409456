// Opens a page with MQTT.js in a real browser and prints the results of its scenarios as JSON.
//
//   node run.mjs ws://127.0.0.1:PORT/mqtt

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const FILES = {
  "/": ["page.html", "text/html"],
  "/scenarios.js": ["scenarios.js", "text/javascript"],
  "/mqtt.js": ["node_modules/mqtt/dist/mqtt.min.js", "text/javascript"],
};

const url = process.argv[2];
const server = createServer(async (request, response) => {
  const file = FILES[request.url];
  if (!file) {
    response.writeHead(404).end();
    return;
  }
  const body = await readFile(fileURLToPath(new URL(file[0], import.meta.url)));
  response.writeHead(200, { "content-type": `${file[1]}; charset=utf-8` }).end(body);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(`page: ${error.message}`));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const results = await page.evaluate((address) => window.run(address), url);
  console.log(JSON.stringify({ browser: browser.version(), results }));
} finally {
  await browser.close();
  server.close();
}
