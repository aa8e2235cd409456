package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// The cache keeps 1,024 subjects.
	cachedFew  = 1_000
	cachedMany = 100_000
	// 100,000 operations a second, half of them insertions, half removals.
	writeEvery = 10 * time.Microsecond
)

func (r *run) times() {
	wall, thread := overheads()
	r.report("clock_ns", wall, "ns")
	r.report("thread_clock_ns", thread, "ns")
	var best [3]float64
	for pass := range r.effort.rates {
		rates := r.pass(r.rate, func(list *server.Sublist) {
			if pass > 0 {
				return
			}
			if r.name == "g" {
				r.measureFanOut(list)
			} else {
				r.measureMatches(list)
			}
		})
		for at, rate := range rates {
			best[at] = max(best[at], rate)
		}
	}
	r.report("insert_per_s", best[0], "1/s")
	r.report("remove_per_s", best[1], "1/s")
	r.report("insert_random_per_s", best[2], "1/s")
	worst := [3]float64{1e18, 1e18, 1e18}
	for range r.effort.worst {
		for at, slowest := range r.pass(r.slowest, func(*server.Sublist) {}) {
			worst[at] = min(worst[at], slowest)
		}
	}
	r.report("worst_insert_us", worst[0], "us")
	r.report("worst_remove_us", worst[1], "us")
	r.report("worst_insert_random_us", worst[2], "us")
	r.report("worst_op_us", max(worst[0], worst[1], worst[2]), "us")
}

// pass fills a fresh list in order, empties and fills it in random order, each measured.
func (r *run) pass(measure func(func(int)) float64, between func(*server.Sublist)) [3]float64 {
	list := server.NewSublistNoCache()
	subs := make([]unsafe.Pointer, len(r.filters))
	runtime.GC()
	var figures [3]float64
	figures[0] = measure(func(at int) { subs[at] = insert(list, r.filters[at]) })
	shuffled := make([]unsafe.Pointer, len(subs))
	for at, from := range r.order {
		shuffled[at] = subs[from]
	}
	between(list)
	figures[1] = measure(func(at int) { remove(list, shuffled[at]) })
	figures[2] = measure(func(at int) { shuffled[at] = insert(list, r.shuffled[at]) })
	return figures
}

// rate is operations per second of this thread's time.
func (r *run) rate(operation func(int)) float64 {
	start := threadNanos()
	for at := range r.order {
		operation(at)
	}
	return float64(len(r.order)) * 1e9 / float64(threadNanos()-start)
}

// slowest is the longest time of this thread for one operation, in microseconds.
func (r *run) slowest(operation func(int)) float64 {
	var worst int64
	last := threadNanos()
	for at := range r.order {
		operation(at)
		now := threadNanos()
		worst = max(worst, now-last)
		last = now
	}
	return float64(worst) / 1e3
}

func (r *run) measureMatches(list *server.Sublist) {
	r.report("filters", float64(r.held), "count")
	found, missed := 0, 0
	for _, topic := range r.topics {
		count := match(list, topic)
		found += count
		if count == 0 {
			missed++
		}
	}
	r.report("matches_per_topic", float64(found)/float64(len(r.topics)), "count")
	if missed > 0 {
		fmt.Fprintf(os.Stderr, "nats %s: %d of %d topics find nothing\n", r.name, missed, len(r.topics))
	}
	var alone, busy [][]int64
	for range r.effort.matches {
		alone = append(alone, latencies(list, r.topics))
	}
	r.report("match_p50_ns", least(alone, 0.5), "ns")
	r.report("match_p99_ns", least(alone, 0.99), "ns")
	var one, two, oneByCPU, twoByCPU float64
	for range r.effort.matches {
		rate, byCPU := matchRate(list, r.topics, 1)
		one, oneByCPU = max(one, rate), max(oneByCPU, byCPU)
		rate, byCPU = matchRate(list, r.topics, 2)
		two, twoByCPU = max(two, rate), max(twoByCPU, byCPU)
	}
	r.report("match_per_s", one, "1/s")
	r.report("match_two_threads", two/one, "times")
	r.report("match_two_threads_cpu", twoByCPU/oneByCPU, "times")
	for range min(r.effort.matches, 3) {
		busy = append(busy, r.busyLatencies(list))
	}
	r.report("match_p50_under_writes_ns", least(busy, 0.5), "ns")
	r.report("match_p99_under_writes_ns", least(busy, 0.99), "ns")
	r.report("cached_match_per_s", r.cachedRate(cachedFew), "1/s")
	r.report("cached_match_wide_per_s", r.cachedRate(cachedMany), "1/s")
}

func (r *run) measureFanOut(list *server.Sublist) {
	targets := match(list, r.topics[0])
	r.report("matches_per_topic", float64(targets), "count")
	var nanos []int64
	for range 5 * r.effort.matches {
		start := time.Now()
		match(list, r.topics[0])
		nanos = append(nanos, int64(time.Since(start)))
	}
	p50 := least([][]int64{sorted(nanos)}, 0.5)
	r.report("match_p50_ns", p50, "ns")
	r.report("match_ns_per_target", p50/float64(targets), "ns")
}

func latencies(list *server.Sublist, topics []string) []int64 {
	nanos := make([]int64, len(topics))
	for at, topic := range topics {
		start := time.Now()
		match(list, topic)
		nanos[at] = int64(time.Since(start))
	}
	return sorted(nanos)
}

// matchRate is the sum of the threads' look-ups per second, by the wall's clock and by their own.
func matchRate(list *server.Sublist, topics []string, threads int) (float64, float64) {
	var rate, byCPU [2]float64
	var ready, done sync.WaitGroup
	ready.Add(threads)
	for thread := range threads {
		done.Go(func() {
			runtime.LockOSThread()
			offset := thread * len(topics) / threads
			ready.Done()
			ready.Wait()
			start, startNanos := time.Now(), threadNanos()
			for at := range topics {
				match(list, topics[(at+offset)%len(topics)])
			}
			count := float64(len(topics))
			rate[thread] = count / time.Since(start).Seconds()
			byCPU[thread] = count * 1e9 / float64(threadNanos()-startNanos)
		})
	}
	done.Wait()
	return rate[0] + rate[1], byCPU[0] + byCPU[1]
}

// busyLatencies are latencies while another thread inserts and removes subjects that no topic matches.
func (r *run) busyLatencies(list *server.Sublist) []int64 {
	var written []string
	for at := 0; at < len(r.filters) && len(written) < 50_000; at += 7 {
		literal := strings.TrimRight(r.filters[at], ".>*")
		if literal != "" {
			literal += "."
		}
		written = append(written, literal+"w")
	}
	var over atomic.Bool
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		start := time.Now()
		count := 0
		wait := func() {
			for time.Since(start) < writeEvery*time.Duration(count) {
			}
			count++
		}
		for at := 0; !over.Load(); at = (at + 1) % len(written) {
			wait()
			sub := insert(list, written[at])
			wait()
			remove(list, sub)
		}
	})
	nanos := latencies(list, r.topics)
	over.Store(true)
	done.Wait()
	return nanos
}

// cachedRate is look-ups per second of this thread's time in a list with the server's cache, over so many topics.
func (r *run) cachedRate(count int) float64 {
	list := server.NewSublistWithCache()
	for _, filter := range r.filters {
		insert(list, filter)
	}
	topics := r.topics[:min(count, len(r.topics))]
	for range 2 {
		for _, topic := range topics {
			match(list, topic)
		}
	}
	random := rand.New(rand.NewSource(99))
	// Those that miss cost fifty times as much.
	lookUps := 2_000_000
	if count > cachedFew {
		lookUps = 200_000
	}
	order := make([]int32, lookUps)
	for at := range order {
		order[at] = random.Int31n(int32(len(topics)))
	}
	best := 0.0
	for range 2 {
		start := threadNanos()
		for _, at := range order {
			match(list, topics[at])
		}
		best = max(best, float64(lookUps)*1e9/float64(threadNanos()-start))
	}
	return best
}
