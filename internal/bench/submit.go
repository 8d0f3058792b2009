package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The ways to submit.
const (
	ViaKafka  = "kafka"
	ViaHTTP   = "http"
	ViaNDJSON = "ndjson"
)

// Vias lists all ways to submit.
var Vias = []string{ViaKafka, ViaHTTP, ViaNDJSON}

// SubmitConfig is a run of `sagalog bench submit`.
type SubmitConfig struct {
	Config
	Via string
	// Rate is how many submissions are due each second. With 0, each answer makes a new one due.
	Rate float64
	// Burst, if it is not 0, is the length of the window. Before it, Outstanding tasks are under way, and during it,
	// submissions arrive at Rate.
	Burst time.Duration
	// Outstanding is the number of unanswered submissions by Kafka, or of tasks before a burst.
	Outstanding int
	// Connections is the number of HTTP connections. With NDJSON each connection has one body.
	Connections int
	// Closed starts no agents, so submissions are accepted but no step runs.
	Closed bool
}

// Validate reports every fault at once.
func (c *SubmitConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(!slices.Contains(Vias, c.Via), "--via %q is not known; %s", c.Via, events.Suggest(c.Via, Vias))
	all.add(c.Outstanding > maxOutstanding, "--outstanding %d is not from 1 to %d", c.Outstanding, maxOutstanding)
	all.add(c.Outstanding < 0 || c.Rate < 0 || c.Burst < 0 || c.Connections < 0 || c.Connections > 10_000,
		"--outstanding, --rate, --burst and --connections must not be negative, and --connections at most 10000")
	all.add(math.IsNaN(c.Rate) || math.IsInf(c.Rate, 0), "--rate %g is not a number of submissions a second", c.Rate)
	all.add(c.Burst > 0 && (c.Rate == 0 || c.Via != ViaKafka), "--burst needs --rate and --via kafka")
	all.add(c.Burst > 0 && c.Closed, "--burst needs tasks that run: leave out --admission closed")
	all.add(c.Rate*(c.Warmup+c.Duration+c.Burst).Seconds() > maxTasks, "a run holds %d tasks at most", maxTasks)
	return errors.Join(all...)
}

func (c *SubmitConfig) setDefaults() {
	c.Config.setDefaults()
	if c.Closed {
		c.Agents = AgentsNone
	}
	if c.Burst > 0 {
		c.Duration = c.Burst
	}
	defaults := map[string][2]int{ViaKafka: {5000, 0}, ViaHTTP: {0, 64}, ViaNDJSON: {0, 2}}
	if c.Outstanding == 0 {
		c.Outstanding = defaults[c.Via][0]
		if c.Burst > 0 {
			c.Outstanding = 200 // tasks, not submissions: enough to keep the engine at work
		}
	}
	if c.Connections == 0 {
		c.Connections = defaults[c.Via][1]
	}
}

// Submit submits, and measures the acknowledgements.
func Submit(ctx context.Context, c *SubmitConfig) (_ *Result, err error) {
	c.setDefaults()
	http := ""
	if c.Via != ViaKafka {
		http = "127.0.0.1:0"
	}
	b, err := openBench(ctx, &c.Config, http)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.describe(ctx, "submit")
	b.result.Load, b.rate = c.load(), c.Rate
	if c.Burst == 0 {
		b.first = func() bool { return b.load.acks.acked.Load() > 0 }
		b.load.untilAck, b.watch.ended = true, func(int) {}
	}
	var failed error
	burst := make(chan struct{})
	if c.Burst > 0 {
		b.start = func() { close(burst) }
	}
	end := b.drive(func(stop <-chan struct{}) {
		var steady sync.WaitGroup
		steady.Go(func() { failed = b.submit(c, stop) })
		select {
		case <-burst:
			b.load.open(b.ctx, stop, c.Rate)
		case <-stop:
		}
		steady.Wait()
	})
	from, to, err := b.window(ctx, func() bool { return b.load.sent() >= maxTasks })
	end()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	b.fill(from, to)
	r := &b.result
	r.CPUPerTask, r.AllocsTask, r.AllocBytes, r.LogBytes = 0, 0, 0, 0 // ended tasks are only a small part of the work
	r.Submissions = b.acked
	r.SubmitPerSec = round(float64(b.acked)/r.Seconds, 1)
	r.CPUPerSubmit = round(per(float64((to.cpu-from.cpu).Nanoseconds())/1e3, b.acked), 1)
	b.fillRate(nil)
	return b.finish(ctx, evidence{ends: false})
}

// load describes the load in words.
func (c *SubmitConfig) load() string {
	way := "by Kafka"
	switch c.Via {
	case ViaHTTP:
		way = fmt.Sprintf("by HTTP one by one, %d connections", c.Connections)
	case ViaNDJSON:
		way = fmt.Sprintf("by HTTP in NDJSON, %d connections", c.Connections)
	}
	switch {
	case c.Burst > 0:
		return fmt.Sprintf("burst of %g submissions/s for %s %s, while tasks run (%d under way before)", c.Rate, c.Burst, way, c.Outstanding)
	case c.Rate > 0:
		return fmt.Sprintf("%g submissions/s %s", c.Rate, way)
	case c.Via == ViaKafka:
		return fmt.Sprintf("submissions %s, %d without an answer at once", way, c.Outstanding)
	}
	return "as many submissions as are answered " + way
}

// submit sends until stop is closed, and returns when every submission by HTTP is answered.
func (b *bench) submit(c *SubmitConfig, stop <-chan struct{}) error {
	if c.Via == ViaKafka {
		if c.Rate > 0 && c.Burst == 0 {
			b.load.open(b.ctx, stop, c.Rate)
		} else {
			b.load.closed(b.ctx, stop, c.Outstanding)
		}
		return nil
	}
	s := &sender{load: b.load, addr: b.node.Addr(), stop: stop, schedule: newSchedule(b.load, c.Rate)}
	one := s.oneByOne
	if c.Via == ViaNDJSON {
		one = s.lines
	}
	errs := make([]error, c.Connections)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = one(b.ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
