//! What the machine, or the container the process runs in, has.

use crate::config::ByteSize;
use std::fs;

/// The limit on memory where none can be found out.
const MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// The limit in force for a configured one: 0 stands for half of the memory there is.
pub(crate) fn memory_max(configured: ByteSize) -> usize {
    let bytes = match configured.0 {
        0 => memory_bytes().map_or(MEMORY_BYTES_DEFAULT, |bytes| bytes / 2),
        bytes => bytes,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The memory there is, in bytes: the machine's, or less if the control group has a limit. `None` where the operating
/// system does not say it in files.
fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    [machine, group].into_iter().flatten().min()
}

/// `MemTotal:  16315536 kB` in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read_in_kib() {
        let text = "MemTotal:       16315536 kB\nMemFree:         1035524 kB\n";
        assert_eq!(total_of(text), Some(16_315_536 * 1024));
        assert_eq!(total_of("MemFree: 5 kB"), None);
    }

    #[test]
    fn a_configured_limit_counts_as_it_is_and_none_means_a_part_of_what_there_is() {
        assert_eq!(memory_max(ByteSize(123)), 123);
        let half = memory_max(ByteSize(0));
        assert!(half > 16 << 20, "{half}");
        if let Some(bytes) = memory_bytes() {
            assert_eq!(half as u64, bytes / 2);
        }
    }
}
