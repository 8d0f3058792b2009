package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/sagalog/sagalog/events"
	"golang.org/x/sync/errgroup"
)

// Report is what a run says.
type Report struct {
	Workflow    string         `json:"workflow"`
	Since       events.Instant `json:"since,omitzero"`
	Until       events.Instant `json:"until,omitzero"`
	Draws       int            `json:"draws"`
	Seed        uint64         `json:"seed"`
	Calibration Calibration    `json:"calibration"`
	// Estimate is nil if the calibration does not allow one.
	Estimate *Estimate `json:"what_if,omitempty"`
}

// Estimate compares history with what another policy would have done.
type Estimate struct {
	// Tasks is how many tasks were replayed.
	Tasks int `json:"tasks"`
	// Ends are the tasks by how they end: processed, undone and error. Unknown are those whose end is unknown.
	Ends    map[events.TaskState]Interval `json:"ends"`
	Unknown Interval                      `json:"unknown"`
	// Attempts are the calls to agents, in all and by agent.
	Attempts Interval            `json:"attempts"`
	Agents   map[string]Interval `json:"agents"`
	// P50 and P95 are percentiles of the durations in seconds, from the submission to the end.
	P50 Interval `json:"duration_p50_s"`
	P95 Interval `json:"duration_p95_s"`
	// Taken is the share of answers that history has, and Drawn the share by agent of those that were drawn.
	Taken float64            `json:"taken"`
	Drawn map[string]float64 `json:"drawn"`
	// Few are the calls that have too few samples, and Why says why ends are unknown: in how many tasks, in any draw.
	Few     []Few    `json:"too_few_samples"`
	Why     []Count  `json:"unknown_because"`
	Changed []Change `json:"changed"`
}

// Interval is a figure of history, and the range from the 5th to the 95th percentile of the draws.
type Interval struct {
	History float64 `json:"history"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// Few is a call with too few samples.
type Few struct {
	Agent     string           `json:"agent"`
	Function  string           `json:"function,omitempty"`
	Operation events.Operation `json:"operation"`
	// Samples is how many the log has of it.
	Samples int `json:"samples"`
}

// Change is how many tasks end otherwise: in most draws.
type Change struct {
	From events.TaskState `json:"from"`
	// To is empty for an end that is unknown.
	To    events.TaskState `json:"to"`
	Tasks int              `json:"tasks"`
	// Examples are the first of them in the order of their names.
	Examples []string `json:"examples"`
}

// Task is the line of a task in Config.Tasks.
type Task struct {
	Task        string         `json:"task"`
	Incarnation string         `json:"incarnation"`
	Version     int            `json:"version"`
	SubmittedAt events.Instant `json:"submitted_at"`
	// NotReplayed says why the task was not replayed.
	NotReplayed Reason    `json:"not_replayed,omitempty"`
	History     *TaskEnd  `json:"history,omitempty"`
	Own         *TaskEnd  `json:"own,omitempty"`
	WhatIf      *TaskEnds `json:"what_if,omitempty"`
}

// TaskEnd is how a task ended.
type TaskEnd struct {
	State    events.TaskState `json:"state,omitempty"`
	Unknown  Reason           `json:"unknown,omitempty"`
	Duration float64          `json:"duration_s,omitzero"`
	Attempts int              `json:"attempts"`
}

// TaskEnds are the ends of a task over the draws.
type TaskEnds struct {
	// State is the most frequent end; empty if that is unknown. States has the share of each end.
	State    events.TaskState             `json:"state,omitempty"`
	States   map[events.TaskState]float64 `json:"states"`
	Unknown  Reason                       `json:"unknown,omitempty"`
	Attempts float64                      `json:"attempts"`
	// Taken and Drawn are how many answers were those of history, and how many were drawn, on average.
	Taken float64 `json:"taken"`
	Drawn float64 `json:"drawn"`
}

// estimating adds up what the draws lead to.
type estimating struct {
	mu    sync.Mutex
	draws int
	tasks int
	// was is how tasks ended in history, and ends how often each end comes in each draw; the end "" is unknown.
	was  map[events.TaskState]int
	ends map[events.TaskState][]int
	// calls are the attempts of history by agent, and drew those of each draw.
	calls          map[string]int
	drew           map[string][]int
	took           histogram
	takes          []histogram
	taken          int
	drawn          map[string]int
	few            map[events.Call]bool
	unknown        map[Reason]int
	unknownExample map[Reason]string
	changed        map[[2]events.TaskState]*Change
}

// estimate replays all tasks under the other policy.
func (r *run) estimate(ctx context.Context) (*Estimate, error) {
	e := &estimating{
		draws: r.cfg.Draws, was: map[events.TaskState]int{}, ends: map[events.TaskState][]int{}, calls: map[string]int{}, drew: map[string][]int{}, takes: make([]histogram, r.cfg.Draws),
		drawn: map[string]int{}, few: map[events.Call]bool{}, unknown: map[Reason]int{}, unknownExample: map[Reason]string{}, changed: map[[2]events.TaskState]*Change{},
	}
	all := int64(0)
	for _, c := range r.first {
		all += int64(c.replayed)
	}
	var batch []*Trace
	done := int64(0)
	flush := func() error {
		if err := r.estimateAll(ctx, e, batch); err != nil {
			return err
		}
		done += int64(len(batch))
		r.cfg.Progress("replay", min(done, all), all)
		batch = batch[:0]
		return nil
	}
	err := r.kept.each(func(t *Trace) error {
		if batch = append(batch, t); len(batch) < batchTasks {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, err
	}
	return e.estimate(r.samples), nil
}

// batchTasks is how many tasks are replayed before their lines are written, in order.
const batchTasks = 128

func (r *run) estimateAll(ctx context.Context, e *estimating, batch []*Trace) error {
	lines := make([]Task, len(batch))
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			with := newReplayer(r.cfg)
			for i := w; i < len(batch); i += workers {
				var err error
				if lines[i], err = r.estimateOne(ctx, e, with, batch[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil || r.cfg.Tasks == nil {
		return err
	}
	to := json.NewEncoder(r.cfg.Tasks)
	for i := range lines {
		if err := to.Encode(&lines[i]); err != nil {
			return fmt.Errorf("write the tasks: %w", err)
		}
	}
	return nil
}

func (r *run) estimateOne(ctx context.Context, e *estimating, with *replayer, t *Trace) (Task, error) {
	line := Task{Task: t.Task, Incarnation: t.Incarnation, Version: t.Version, SubmittedAt: t.Accepted, NotReplayed: t.Skipped}
	if t.Skipped != "" {
		return line, nil
	}
	var list []*Played
	for n := range r.cfg.Draws {
		if err := ctx.Err(); err != nil {
			return line, err
		}
		p, err := with.replay(t, r.want, &drawing{samples: r.samples, seed: r.cfg.Seed, number: n})
		if err != nil {
			return line, err
		}
		list = append(list, p)
		if total(p.Drawn) == 0 { // nothing of it depends on the draw
			break
		}
	}
	line.History = &TaskEnd{State: t.End, Duration: t.EndedAt.Sub(t.Accepted).Seconds(), Attempts: total(t.calls())}
	line.Own = endOf(t, t.Own)
	line.WhatIf = e.add(t, list)
	return line, nil
}

func endOf(t *Trace, p *Played) *TaskEnd {
	x := &TaskEnd{State: p.End, Unknown: p.Why, Attempts: total(p.Calls)}
	if p.End != "" {
		x.Duration = p.EndedAt.Sub(t.Accepted).Seconds()
	}
	return x
}

// add adds a task. list has a replay for each draw, or one that stands for all.
func (e *estimating) add(t *Trace, list []*Played) *TaskEnds {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks++
	e.was[t.End]++
	e.took.add(t.EndedAt.Sub(t.Accepted))
	for agent, n := range t.calls() {
		e.calls[agent] += n
	}
	states, whys := map[events.TaskState]int{}, map[Reason]int{}
	out := &TaskEnds{States: map[events.TaskState]float64{}}
	attempts, taken, drawn := 0, 0, 0
	for n := range e.draws {
		p := list[min(n, len(list)-1)]
		e.draw(n, t, p)
		states[p.End]++
		if p.Why != "" {
			whys[p.Why]++
		}
		attempts, taken, drawn = attempts+total(p.Calls), taken+p.Taken, drawn+total(p.Drawn)
	}
	mean := func(n int) float64 { return float64(n) / float64(e.draws) }
	out.Attempts, out.Taken, out.Drawn = mean(attempts), mean(taken), mean(drawn)
	out.State = mostFrequent(states)
	for s, n := range states {
		if s != "" {
			out.States[s] = mean(n)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(whys)) {
		if e.unknown[why]++; e.unknownExample[why] == "" || t.Task < e.unknownExample[why] {
			e.unknownExample[why] = t.Task
		}
		out.Unknown = cmp.Or(out.Unknown, why)
	}
	if out.State != t.End {
		e.changes(t, out.State)
	}
	return out
}

func (e *estimating) draw(n int, t *Trace, p *Played) {
	if e.ends[p.End] == nil {
		e.ends[p.End] = make([]int, e.draws)
	}
	e.ends[p.End][n]++
	if p.End != "" {
		e.takes[n].add(p.EndedAt.Sub(t.Accepted))
	}
	for agent, calls := range p.Calls {
		if e.drew[agent] == nil {
			e.drew[agent] = make([]int, e.draws)
		}
		e.drew[agent][n] += calls
	}
	e.taken += p.Taken
	for agent, n := range p.Drawn {
		e.drawn[agent] += n
	}
	if p.Lacks != nil && p.Why == whyFew {
		e.few[*p.Lacks] = true
	}
}

// mostFrequent returns the end that comes most often; of two that come equally often, the first in the order of ends.
func mostFrequent(states map[events.TaskState]int) (most events.TaskState) {
	n := 0
	for _, s := range append(slices.Clone(ends), "") {
		if states[s] > n {
			most, n = s, states[s]
		}
	}
	return most
}

// maxExamples is how many tasks a change names.
const maxExamples = 3

func (e *estimating) changes(t *Trace, to events.TaskState) {
	k := [2]events.TaskState{t.End, to}
	c := e.changed[k]
	if c == nil {
		c = &Change{From: t.End, To: to}
		e.changed[k] = c
	}
	c.Tasks++
	i, _ := slices.BinarySearch(c.Examples, t.Task)
	c.Examples = slices.Insert(c.Examples, i, t.Task)
	c.Examples = c.Examples[:min(len(c.Examples), maxExamples)]
}

// estimate makes the table.
func (e *estimating) estimate(known *samples) *Estimate {
	out := &Estimate{Tasks: e.tasks, Ends: map[events.TaskState]Interval{}, Agents: map[string]Interval{}, Drawn: map[string]float64{}, Few: []Few{}, Why: []Count{}, Changed: []Change{}}
	for _, s := range ends {
		out.Ends[s] = interval(float64(e.was[s]), e.draws, e.ends[s])
	}
	out.Unknown = interval(0, e.draws, e.ends[""])
	sums := make([]int, e.draws)
	for _, agent := range slices.Sorted(maps.Keys(e.drew)) {
		for n, x := range e.drew[agent] {
			sums[n] += x
		}
		out.Agents[agent] = interval(float64(e.calls[agent]), e.draws, e.drew[agent])
	}
	for agent, n := range e.calls {
		if e.drew[agent] == nil {
			out.Agents[agent] = Interval{History: float64(n)}
		}
	}
	out.Attempts = interval(float64(total(e.calls)), e.draws, sums)
	out.P50, out.P95 = e.percentile(0.5), e.percentile(0.95)
	if all := float64(e.taken + total(e.drawn)); all > 0 {
		out.Taken = float64(e.taken) / all
		for agent, n := range e.drawn {
			out.Drawn[agent] = float64(n) / all
		}
	}
	for c := range e.few {
		f := Few{Agent: c.Agent, Function: c.Function, Operation: c.Operation}
		if p := known.pools[c]; p != nil {
			f.Samples = p.firsts.n + p.retries.n
		}
		out.Few = append(out.Few, f)
	}
	slices.SortFunc(out.Few, func(a, b Few) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Operation, b.Operation))
	})
	for _, why := range slices.Sorted(maps.Keys(e.unknown)) {
		out.Why = append(out.Why, Count{Reason: why, Tasks: e.unknown[why], Example: e.unknownExample[why]})
	}
	for _, c := range e.changed {
		out.Changed = append(out.Changed, *c)
	}
	slices.SortFunc(out.Changed, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return out
}

func (e *estimating) percentile(q float64) Interval {
	var list []float64
	for i := range e.takes {
		list = append(list, e.takes[i].quantile(q).Seconds())
	}
	return between(e.took.quantile(q).Seconds(), list)
}

// interval returns the range of a count over the draws; nil stands for zeros.
func interval(history float64, draws int, counts []int) Interval {
	list := make([]float64, draws)
	for n, x := range counts {
		list[n] = float64(x)
	}
	return between(history, list)
}

// between returns the range from the 5th to the 95th percentile. The ranks are rounded outwards, so that few draws do not make it narrower.
func between(history float64, list []float64) Interval {
	slices.Sort(list)
	last := len(list) - 1
	low := last * 5 / 100
	return Interval{history, list[low], list[last-low]}
}
