//! Who listens at a port, as the Linux kernel tells in `/proc`.

use std::fs;
use std::path::Path;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its id.
    pub(crate) pid: u32,
    /// Its name, at most 15 bytes.
    pub(crate) name: String,
}

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process that listens at a TCP port; `None` if it cannot be seen, for instance because it is another user's.
/// Walks all processes' open files: for messages only.
pub(crate) fn port_owner(port: u16) -> Option<Owner> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<String> = tables.iter().flat_map(|table| listening_inodes(table, port)).collect();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| holds_socket(*pid, &sockets))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(Owner { pid, name: name.trim_end().to_owned() })
}

/// Inodes of the sockets that listen at a port, as `socket:[12345]`. Columns of the table: number, local address and
/// port in hexadecimal, remote address, state, queues, timer, retransmits, user, timeout, inode.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let is_listening = |row: &Vec<&str>| {
        let local = row.get(1).and_then(|local| local.rsplit_once(':'));
        let local_port = local.and_then(|(_, digits)| u16::from_str_radix(digits, 16).ok());
        local_port == Some(port) && row.get(3) == Some(&LISTEN)
    };
    rows.filter(is_listening).filter_map(|row| Some(format!("socket:[{}]", row.get(9)?))).collect()
}

fn holds_socket(pid: u32, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")) else { return false };
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets.into_iter().any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:075B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0\n\
            1: 0100007F:075B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0\n\
            2: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0\n";
        assert_eq!(listening_inodes(table, 1883), ["socket:[111]"]);
        assert!(listening_inodes(table, 1).is_empty());
    }
}
