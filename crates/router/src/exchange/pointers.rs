//! Pointers that readers follow while a writer swaps them: arc-swap's, which a model checker replaces.

#[cfg(not(all(test, loom)))]
pub(super) use arc_swap::{ArcSwap, ArcSwapOption};
#[cfg(all(test, loom))]
pub(super) use modelled::{ArcSwap, ArcSwapOption};

/// What arc-swap promises, without how it does it: a swap releases what was written before it, and a load acquires that
/// of the swap whose value it sees, which may not be the latest.
#[cfg(all(test, loom))]
mod modelled {
    use std::ops::Deref;
    use std::sync::{Arc, Mutex};

    use loom::sync::atomic::{AtomicUsize, Ordering};

    pub(in crate::exchange) type ArcSwap<T> = Pointer<Arc<T>>;
    pub(in crate::exchange) type ArcSwapOption<T> = Pointer<Option<Arc<T>>>;

    /// Every value so far, and which is the current one. One thread at a time changes it.
    pub(in crate::exchange) struct Pointer<P> {
        current: AtomicUsize,
        values: Mutex<Vec<P>>,
    }

    pub(in crate::exchange) struct Guard<P>(P);

    impl<P> Deref for Guard<P> {
        type Target = P;

        fn deref(&self) -> &P {
            &self.0
        }
    }

    impl<P: Clone> Pointer<P> {
        fn new(value: P) -> Self {
            Self { current: AtomicUsize::new(0), values: Mutex::new(vec![value]) }
        }

        fn value(&self, at: usize) -> P {
            self.values.lock().expect("no thread panics with it")[at].clone()
        }

        pub(in crate::exchange) fn load(&self) -> Guard<P> {
            Guard(self.load_full())
        }

        pub(in crate::exchange) fn load_full(&self) -> P {
            self.value(self.current.load(Ordering::Acquire))
        }

        pub(in crate::exchange) fn swap(&self, value: P) -> P {
            let at = {
                let mut values = self.values.lock().expect("no thread panics with it");
                values.push(value);
                values.len() - 1
            };
            self.value(self.current.swap(at, Ordering::AcqRel))
        }

        pub(in crate::exchange) fn store(&self, value: P) {
            self.swap(value);
        }
    }

    impl<P: Clone + Default> Default for Pointer<P> {
        fn default() -> Self {
            Self::new(P::default())
        }
    }

    impl<T> Pointer<Arc<T>> {
        pub(in crate::exchange) fn from_pointee(value: T) -> Self {
            Self::new(Arc::new(value))
        }
    }

    impl<T> Pointer<Option<Arc<T>>> {
        pub(in crate::exchange) fn empty() -> Self {
            Self::new(None)
        }
    }
}
