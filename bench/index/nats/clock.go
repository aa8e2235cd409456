package main

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// threadNanos is how long this thread has been running; its goroutine must be locked to it. What the garbage collector
// does on other threads does not count.
func threadNanos() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// overheads is what one reading of the wall's and of the thread's clock costs, in nanoseconds.
func overheads() (float64, float64) {
	const readings = 200_000
	start := time.Now()
	for range readings {
		_ = time.Now()
	}
	wall := float64(time.Since(start)) / readings
	start = time.Now()
	for range readings {
		threadNanos()
	}
	return wall, float64(time.Since(start)) / readings
}

// heapBytes is what live objects take, after a collection.
func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func residentBytes() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				panic(err)
			}
			return kib * 1024
		}
	}
	return 0
}

// least is the percentile of the pass in which it is least; the passes are sorted.
func least(passes [][]int64, share float64) float64 {
	best := int64(-1)
	for _, nanos := range passes {
		if at := nanos[int(float64(len(nanos)-1)*share)]; best < 0 || at < best {
			best = at
		}
	}
	return float64(best)
}

func sorted(nanos []int64) []int64 {
	slices.Sort(nanos)
	return nanos
}
