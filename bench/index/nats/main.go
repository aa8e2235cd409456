// Measures the sublist of NATS server as the harness in Rust measures its rows:
//
//	index-workload CASE | nats-index times|bytes CASE [--quick] [--no-churn]
//
// Filters become subjects: "/" is ".", "+" is "*", "#" is ">". Results are JSON records, one per line.
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// In case f, where short topics match tens of thousands of filters each, fewer are looked up.
const topicsMax, mixedTopicsMax = 400_000, 20_000

type effort struct{ rates, worst, matches, churn int }

type run struct {
	name     string
	effort   effort
	filters  []string
	topics   []string
	held     int
	order    []int
	shuffled []string
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: index-workload CASE | nats-index times|bytes CASE [--quick] [--no-churn]")
		os.Exit(2)
	}
	run := read(os.Args[2], os.Args[3:])
	runtime.LockOSThread()
	if os.Args[1] == "bytes" {
		run.bytes()
	} else {
		run.times()
	}
}

// read makes a case of what the standard input has.
func read(name string, options []string) *run {
	run := &run{name: name, effort: effort{rates: 2, worst: 2, matches: 3, churn: 10}}
	if slices.Contains(options, "--quick") {
		run.effort = effort{rates: 1, worst: 1, matches: 2, churn: 10}
	}
	if slices.Contains(options, "--no-churn") {
		run.effort.churn = 0
	}
	translate := strings.NewReplacer("/", ".", "+", "*", "#", ">")
	distinct := map[string]struct{}{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		filter, topic, _ := strings.Cut(lines.Text(), " ")
		run.filters = append(run.filters, translate.Replace(filter))
		run.topics = append(run.topics, translate.Replace(topic))
		distinct[filter] = struct{}{}
	}
	if len(run.filters) == 0 {
		fmt.Fprintln(os.Stderr, "nats-index: no workload on the standard input")
		os.Exit(1)
	}
	run.held = len(distinct)
	if name == "g" {
		run.held = len(run.filters)
	}
	random := rand.New(rand.NewSource(7))
	random.Shuffle(len(run.topics), func(i, j int) { run.topics[i], run.topics[j] = run.topics[j], run.topics[i] })
	limit := topicsMax
	if name == "f" {
		limit = mixedTopicsMax
	}
	run.topics = renewed(run.topics[:min(len(run.topics), limit)])
	run.order = random.Perm(len(run.filters))
	picked := make([]string, len(run.order))
	for at, from := range run.order {
		picked[at] = run.filters[from]
	}
	run.shuffled = renewed(picked)
	return run
}

// renewed copies strings into the order they are used in, one after another.
func renewed(texts []string) []string {
	all := strings.Join(texts, "")
	copies := make([]string, len(texts))
	for at, text := range texts {
		copies[at], all = all[:len(text)], all[len(text):]
	}
	return copies
}

func (r *run) report(metric string, value float64, unit string) {
	fmt.Printf("{\"case\":%q,\"broker\":\"nats\",\"metric\":%q,\"value\":%.4f,\"unit\":%q}\n", r.name, metric, value, unit)
}

// bytes counts the live heap, and what the process has of the kernel's memory, with what the collector leaves lying.
func (r *run) bytes() {
	r.topics, r.shuffled = nil, nil
	subs := make([]unsafe.Pointer, len(r.filters))
	before, residentBefore := heapBytes(), residentBytes()
	held := float64(r.held)
	list := server.NewSublistNoCache()
	for at, filter := range r.filters {
		subs[at] = insert(list, filter)
	}
	resident := residentBytes() - residentBefore
	total := heapBytes() - before
	r.report("bytes_total", total, "B")
	r.report("bytes_per_filter", total/held, "B")
	r.report("resident_bytes_per_filter", resident/held, "B")
	for round := range r.effort.churn {
		for _, at := range r.order {
			if at%10 != round%10 {
				remove(list, subs[at])
				subs[at] = nil
			}
		}
		for _, at := range r.order {
			if subs[at] == nil {
				subs[at] = insert(list, r.filters[at])
			}
		}
	}
	if r.effort.churn > 0 {
		resident = residentBytes() - residentBefore
		r.report("bytes_per_filter_after_churn", (heapBytes()-before)/held, "B")
		r.report("resident_bytes_per_filter_after_churn", resident/held, "B")
	}
	for _, at := range r.order {
		remove(list, subs[at])
		subs[at] = nil
	}
	r.report("bytes_left", max(heapBytes()-before, 0), "B")
	runtime.KeepAlive(list)
	runtime.KeepAlive(r)
}
