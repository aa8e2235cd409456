//! The front page.

use super::Readiness;

/// The page at `/`: what this is, whether it serves, and where to look.
pub(super) fn front(readiness: Readiness) -> String {
    let state = match readiness {
        Readiness::Ready => "It is ready.",
        Readiness::Starting => "It is starting.",
        Readiness::ShuttingDown => "It is shutting down.",
    };
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Meridian</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }}
dt {{ font-weight: 600 }} dd {{ margin: 0 0 .75rem 0 }}
</style>
</head>
<body>
<h1>Meridian {version}</h1>
<p>This is a message broker that speaks MQTT 3.1.1 and 5. {state}</p>
<dl>
<dt><a href="/healthz">/healthz</a></dt><dd>answers as long as the process lives</dd>
<dt><a href="/readyz">/readyz</a></dt><dd>200 while clients are served, 503 before and after</dd>
<dt><a href="/metrics">/metrics</a></dt><dd>counters and gauges, as OpenMetrics text</dd>
<dt>/mqtt</dt><dd>MQTT over WebSocket, for browsers: subprotocol <code>mqtt</code></dd>
</dl>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}
