//! The sessions of this node by client id.

use crate::session::Session;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SHARD_COUNT: usize = 64;

/// Client ids to sessions, connected or not. Sharded, so that connects on several threads do not meet.
pub(crate) struct Registry {
    shards: [Mutex<HashTable<Arc<Session>>>; SHARD_COUNT],
    hasher: RandomState,
    count: AtomicUsize,
}

/// What became of a claim to a client id.
pub(crate) struct Claim {
    /// The session the connection is to use.
    pub(crate) session: Arc<Session>,
    /// Whether it was there before.
    pub(crate) is_resumed: bool,
    /// A session with the same client id that has to end.
    pub(crate) replaced: Option<Arc<Session>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Sessions held.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// The session for a CONNECT: the existing one, unless `clean_start` or it ends with its connection; else one
    /// that `make` makes. `None` if that would be more than `count_max`. `attach` runs under the lock of the client
    /// id, so that two connections with one id take their turns; it says no if the session has ended.
    pub(crate) fn claim(
        &self,
        client_id: &str,
        clean_start: bool,
        count_max: usize,
        make: impl FnOnce() -> Arc<Session>,
        mut attach: impl FnMut(&Claim) -> bool,
    ) -> Option<Claim> {
        let hash = self.hasher.hash_one(client_id);
        let mut sessions = self.shard(hash).lock();
        let existing = sessions.find_mut(hash, |session| *session.client_id == *client_id);
        if let Some(existing) = &existing
            && !clean_start
            && existing.is_resumable()
        {
            let claim = Claim { session: Arc::clone(existing), is_resumed: true, replaced: None };
            if attach(&claim) {
                return Some(claim);
            }
            // It ended in between; it is replaced like any other that does not last.
        }
        let claim = match existing {
            Some(existing) => {
                let session = make();
                let replaced = Some(std::mem::replace(existing, session.clone()));
                Claim { session, is_resumed: false, replaced }
            }
            None if self.count() >= count_max => return None,
            None => {
                let session = make();
                sessions.insert_unique(hash, session.clone(), |session| {
                    self.hasher.hash_one(&*session.client_id)
                });
                self.count.fetch_add(1, Relaxed);
                Claim { session, is_resumed: false, replaced: None }
            }
        };
        let is_attached = attach(&claim);
        debug_assert!(is_attached, "nobody else knows a new session");
        Some(claim)
    }

    /// Removes a session that has ended, unless its client id stands for another by now.
    pub(crate) fn remove(&self, session: &Arc<Session>) {
        let hash = self.hasher.hash_one(&*session.client_id);
        let mut sessions = self.shard(hash).lock();
        if let Ok(entry) = sessions.find_entry(hash, |other| Arc::ptr_eq(other, session)) {
            entry.remove();
            self.count.fetch_sub(1, Relaxed);
            if sessions.is_empty() {
                sessions.shrink_to_fit(|session| self.hasher.hash_one(&*session.client_id));
            }
        }
    }

    /// Calls `visit` for each session; the sessions of one shard are locked meanwhile.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<Session>)) {
        for shard in &self.shards {
            shard.lock().iter().for_each(&mut visit);
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<HashTable<Arc<Session>>> {
        &self.shards[(hash >> 56) as usize % SHARD_COUNT]
    }
}
