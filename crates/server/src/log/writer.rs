//! Where log lines go: to one thread that writes them, so that nobody else waits for a reader that does not keep up.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written, about 1 MiB of them. What comes while as many wait is dropped and counted.
pub(crate) const LINES_MAX: usize = 4096;

/// Lines written at once.
const BATCH_LINES_MAX: usize = 256;

/// How long the thread lets lines gather after a write. It is awake for the first line after a pause; while many come,
/// it writes them together, and who logs has nobody to wake.
const GATHER: Duration = Duration::from_millis(5);

/// Hands lines to the thread that writes them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// Without a bound of its own, which would take memory for all places from the beginning.
    entries: Sender<Entry>,
    counts: Arc<Counts>,
}

/// Lines, in numbers.
#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

enum Entry {
    Line(Vec<u8>),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

impl Writer {
    /// Starts the thread that writes to `out`. It ends with the last clone of the writer.
    ///
    /// # Errors
    /// What the operating system reports when it starts no thread.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = channel();
        let counts = Arc::<Counts>::default();
        let shared = counts.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(receiver, out, &shared, || std::thread::sleep(GATHER)))?;
        Ok(Self { entries: sender, counts })
    }

    /// Lines dropped so far, because too many waited or the operating system did not take them.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Relaxed)
    }

    /// Waits until what was logged before is written, `patience` at most. Returns whether it is.
    pub(crate) fn flush(&self, patience: Duration) -> bool {
        let (sender, done) = sync_channel(1);
        self.entries.send(Entry::Flush(sender)).is_ok() && done.recv_timeout(patience).is_ok()
    }

    fn send(&self, line: &[u8]) -> bool {
        let has_room = self.counts.waiting.fetch_add(1, Relaxed) < LINES_MAX;
        let is_sent = has_room && self.entries.send(Entry::Line(line.to_vec())).is_ok();
        if !is_sent {
            self.counts.waiting.fetch_sub(1, Relaxed);
        }
        is_sent
    }
}

fn write_all(entries: Receiver<Entry>, mut out: impl Write, counts: &Counts, gather: impl Fn()) {
    let mut batch = Vec::new();
    while let Ok(first) = entries.recv() {
        batch.clear();
        let (mut count, mut lines, mut waiting) = (0, 0, Vec::new());
        let rest = std::iter::from_fn(|| entries.try_recv().ok());
        for entry in std::iter::once(first).chain(rest).take(BATCH_LINES_MAX) {
            count += 1;
            match entry {
                Entry::Line(line) => {
                    batch.extend_from_slice(&line);
                    lines += 1;
                }
                Entry::Flush(done) => waiting.push(done),
            }
        }
        counts.waiting.fetch_sub(lines, Relaxed);
        if out.write_all(&batch).is_err() {
            counts.dropped.fetch_add(lines as u64, Relaxed);
        }
        // More may wait after a full batch, and the queue is not to overflow meanwhile.
        if waiting.is_empty() && count < BATCH_LINES_MAX {
            gather();
        }
        for done in waiting {
            // It fails as a write would, which is counted, and then there is nobody to tell.
            let _ = out.flush();
            let _ = done.try_send(());
        }
    }
}

/// Takes one line at a time, as the formatter gives them. Never waits and never fails.
impl Write for &Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !self.send(line) {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Keeps what it is given once its gate is gone: until then it is stuck.
    struct Gated {
        kept: Arc<Mutex<Vec<u8>>>,
        gate: Receiver<()>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.gate.recv().unwrap_err();
            self.kept.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A pipe without a reader.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_stuck_reader_costs_lines_and_nobody_waits() {
        let (gate, stuck) = channel();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer::start(Gated { kept: kept.clone(), gate: stuck }).unwrap();
        // A batch may be in the hands of the thread.
        let count = LINES_MAX + BATCH_LINES_MAX + 10;
        for number in 0..count {
            (&writer).write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let dropped = writer.dropped() as usize;
        assert!((10..=10 + BATCH_LINES_MAX).contains(&dropped), "{dropped}");
        assert!(!writer.flush(Duration::ZERO));
        drop(gate);
        assert!(writer.flush(PATIENCE));
        let text = String::from_utf8(std::mem::take(&mut *kept.lock().unwrap())).unwrap();
        let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers.len(), count - dropped);
        assert!(numbers.is_sorted() && numbers[..LINES_MAX].iter().copied().eq(0..LINES_MAX));
    }

    #[test]
    fn lines_gather_only_when_none_are_left_to_write() {
        let (sender, receiver) = channel();
        let writer = Writer { entries: sender, counts: Arc::default() };
        let counts = writer.counts.clone();
        for _ in 0..2 * BATCH_LINES_MAX + 1 {
            (&writer).write_all(b"line\n").unwrap();
        }
        drop(writer);
        let (mut written, pauses) = (Vec::new(), std::cell::Cell::new(0));
        write_all(receiver, &mut written, &counts, || pauses.set(pauses.get() + 1));
        assert_eq!(counts.waiting.load(Relaxed), 0);
        assert_eq!((written.len(), pauses.get()), (5 * (2 * BATCH_LINES_MAX + 1), 1));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let writer = Writer::start(Closed).unwrap();
        for _ in 0..3 {
            (&writer).write_all(b"lost\n").unwrap();
        }
        assert!(writer.flush(PATIENCE));
        assert_eq!(writer.dropped(), 3);
    }
}
