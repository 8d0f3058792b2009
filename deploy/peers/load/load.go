// Package load drives an engine in a closed loop, in the same way for all: a fixed number of tasks is always under way, and when one has ended
// the next is submitted. A task counts as ended when the client has its result.
//
// It prints one JSON object a line: {"event": "begin"} and {"event": "end"} around the measured time, so that the caller can read the CPU
// of the processes at these moments, and at last {"event": "result", ...} when every task has ended.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/deploy/peers/steps"
)

// longest bounds warm-up and measured time, if an engine is slower than all of them are on two cores.
const longest = 3 * time.Minute

// Run runs one task and returns the result of its last step. The ID of the order is the ID of the task.
type Run func(ctx context.Context, o steps.Order) (steps.Made, error)

// result is what a run measured. Latencies are those of tasks that began in the measured time; all tasks include those of warm-up and drain.
type result struct {
	Event          string  `json:"event"`
	Outstanding    int     `json:"outstanding"`
	Seconds        float64 `json:"seconds"`
	Ended          int     `json:"ended"` // in the measured time
	TasksPerSecond float64 `json:"tasks_per_second"`
	P50ms          float64 `json:"p50_ms"`
	P99ms          float64 `json:"p99_ms"`
	MaxMs          float64 `json:"max_ms"`
	All            int     `json:"all"`
}

// loop is a run under way.
type loop struct {
	run  Run
	next atomic.Int64
	stop atomic.Bool

	mu    sync.Mutex
	tasks []task
	err   error
}

// task holds when a task began and ended, since the start.
type task struct{ began, ended time.Duration }

// Main reads the flags, drives the engine and prints. It ends the process with 1 if a task failed or had a wrong result.
func Main(run Run) {
	outstanding := flag.Int("outstanding", 64, "tasks that are always under way")
	warmup := flag.Duration("warmup", 5*time.Second, "time before the measured time")
	measured := flag.Duration("measured", 20*time.Second, "the measured time")
	_ = flag.CommandLine.Parse(os.Args[2:]) // exits if it fails

	l := &loop{run: run}
	r, err := l.drive(*outstanding, *warmup, *measured)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(r)
}

func (l *loop) drive(outstanding int, warmup, measured time.Duration) (result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := time.Now()
	if err := l.one(ctx, start); err != nil { // everything is there once a task has ended
		return result{}, err
	}
	var all sync.WaitGroup
	for range outstanding {
		all.Go(func() {
			for !l.stop.Load() {
				if err := l.one(ctx, start); err != nil {
					l.fail(err)
					cancel()
					return
				}
			}
		})
	}
	l.wait(ctx, warmup, outstanding)
	begin := time.Since(start)
	say(result{Event: "begin"})
	l.wait(ctx, measured, outstanding)
	end := time.Since(start)
	say(result{Event: "end"})
	l.stop.Store(true)
	all.Wait()
	return l.result(outstanding, begin, end), l.err
}

func (l *loop) one(ctx context.Context, start time.Time) error {
	o := steps.Order{ID: fmt.Sprintf("order-%07d", l.next.Add(1)), Customer: "c-1842", Amount: 42.5}
	began := time.Since(start)
	made, err := l.run(ctx, o)
	if err != nil {
		return fmt.Errorf("task %s: %w", o.ID, err)
	}
	if made.ID != steps.Last(o.ID) {
		return fmt.Errorf("task %s answered %q, not %q", o.ID, made.ID, steps.Last(o.ID))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, task{began, time.Since(start)})
	return nil
}

// fail keeps the first error; the others follow from it.
func (l *loop) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil || errors.Is(l.err, context.Canceled) {
		l.err = err
	}
	l.stop.Store(true)
}

func (l *loop) result(outstanding int, begin, end time.Duration) result {
	r := result{Event: "result", Outstanding: outstanding, Seconds: (end - begin).Seconds(), All: len(l.tasks)}
	var latencies []time.Duration
	for _, t := range l.tasks {
		if t.ended >= begin && t.ended < end {
			r.Ended++
		}
		if t.began >= begin && t.began < end {
			latencies = append(latencies, t.ended-t.began)
		}
	}
	r.TasksPerSecond = float64(r.Ended) / r.Seconds
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		ms := func(i int) float64 { return float64(latencies[i].Microseconds()) / 1000 }
		r.P50ms, r.P99ms, r.MaxMs = ms(n/2), ms(min(n*99/100, n-1)), ms(n-1)
	}
	return r
}

// wait waits for the time and until that many tasks have ended meanwhile, but no longer than longest. Tasks that began together end together if the
// engine is slow, and a shorter time would show a part of that wave only.
func (l *loop) wait(ctx context.Context, d time.Duration, tasks int) {
	before, latest := l.ended(), time.After(longest)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for l.ended() < before+tasks {
		select {
		case <-tick.C:
		case <-latest:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *loop) ended() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tasks)
}

func say(r result) {
	var v any = r
	if r.Event != "result" {
		v = map[string]string{"event": r.Event}
	}
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		os.Exit(1) // nobody reads
	}
}
