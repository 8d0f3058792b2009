// Package apitest holds an engine in memory that implements what internal/api asks of one, for tests of the API and
// of its clients. It judges inputs at once, or when Judge is called.
package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/proxy"
)

// Partitions is the number of partitions of every Engine.
const Partitions = 4

// Engine is a log, its projection and its definitions, in memory. Its exported fields are set before use.
type Engine struct {
	// Manual makes inputs wait for Judge; otherwise they are judged as they come.
	Manual bool
	// CatchingUp is called when somebody waits until all inputs so far are judged; nil: nothing is.
	CatchingUp func()
	// Down makes Produce fail with this error.
	Down error
	// Stuck makes Produce never answer.
	Stuck bool
	// Waiting holds the queued attempts of each task, and Rows the other keys of its row.
	Waiting map[string][]events.ReadyKey
	Rows    map[string]events.Keys
	// Limits holds the limits by name.
	Limits map[string]*events.Limit
	// Gone lists the operations that no live instance offers.
	Gone []events.Missing
	// Drafted are the steps that each applied definition gets.
	Drafted []api.Step
	// OffersBuilt counts calls of Offered.
	OffersBuilt atomic.Int64
	// LogReads counts calls of Concerned.
	LogReads atomic.Int64
	// NotReady is what Ready returns.
	NotReady error
	// JobsWait makes jobs wait for WorkOnJobs; otherwise they are worked on when they are opened.
	JobsWait bool
	// Late is what Delayed returns.
	Late []string

	mu          sync.Mutex            // guards the fields below
	steps       map[string][]api.Step // by hash, of definitions that do not have the default ones
	now         events.Instant
	inputs      map[events.Input]*[Partitions][]events.Record
	passed      map[events.Input]*[Partitions]int64
	dead        map[events.Input]*[Partitions][]events.Record
	rejected    map[events.Cause]*events.InputRejected
	held        map[string]*events.Request
	tasks       map[string]*events.Task
	facts       map[string][]api.LoggedFact
	ends        [Partitions]int64
	definitions map[string][]*api.Workflow
	changed     chan struct{}
	broken      map[string]api.Breakage
	panics      bool
	watched     chan struct{}
	watching    map[chan struct{}]struct{}
	lookups     int
	refreshes   int
	silent      error
	deadState
	// changes are the recorded changes of settings.
	changes []events.SettingsChange
	// lost are the losses of the inputs, and accepted those that an operator accepted.
	lost     []*api.Loss
	paused   map[string]api.PausedAgent
	alerts   []api.Alert
	raised   []events.Record
	seen     map[string]api.Acknowledgement
	feed     feed
	accepted []events.AcceptedLoss
	jobs     map[string]api.Job
	// schedules are the schedules as they were applied, and scheduled as their home partitions know them.
	schedules map[string]api.Schedule
	// named are the named limits as they were applied.
	named     map[string]api.NamedLimit
	scheduled map[string]*events.Schedule
}

// New returns an engine that knows the workflow "order" with the steps reserve, charge and ship; its input is an
// object with a text "item".
func New() *Engine {
	e := &Engine{
		now:         events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)),
		inputs:      map[events.Input]*[Partitions][]events.Record{events.Submissions: {}, events.Reports: {}},
		passed:      map[events.Input]*[Partitions]int64{events.Submissions: {}, events.Reports: {}},
		dead:        map[events.Input]*[Partitions][]events.Record{events.Submissions: {}, events.Reports: {}},
		rejected:    map[events.Cause]*events.InputRejected{},
		held:        map[string]*events.Request{},
		tasks:       map[string]*events.Task{},
		facts:       map[string][]api.LoggedFact{},
		definitions: map[string][]*api.Workflow{},
		changed:     make(chan struct{}),
		watching:    map[chan struct{}]struct{}{},
		broken:      map[string]api.Breakage{},
	}
	e.definitions["order"] = []*api.Workflow{{
		Name: "order", Version: 1, Hash: "hash-order-1", Description: "Sells a thing.", Current: true, AppliedAt: e.now,
		Versions: []int{1}, Body: json.RawMessage(`{"workflow":"order"}`),
	}}
	return e
}

// Now is the engine's clock: each call is a second later.
func (e *Engine) Now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tick().Time()
}

func (e *Engine) tick() events.Instant {
	e.now = e.now.Add(time.Second)
	return e.now
}

// Panic makes the next look at a task panic.
func (e *Engine) Panic() { e.mu.Lock(); e.panics = true; e.mu.Unlock() }

func (e *Engine) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
	for c := range e.watching {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Silence makes each method that asks brokers return err; nil ends that.
func (e *Engine) Silence(err error) { e.mu.Lock(); e.silent = err; e.mu.Unlock() }

func (e *Engine) asked() error { e.mu.Lock(); defer e.mu.Unlock(); return e.silent }

// Task implements api.Tasks.
func (e *Engine) Task(_ context.Context, id string) (*events.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.panics {
		e.panics = false
		panic("apitest: on purpose")
	}
	return clone(e.tasks[id]), nil
}

func clone(t *events.Task) *events.Task {
	if t == nil {
		return nil
	}
	b, err := events.Marshal(t)
	if err != nil {
		panic(err)
	}
	c := new(events.Task)
	if err := json.Unmarshal(b, c); err != nil {
		panic(err)
	}
	return c
}

// List implements api.Lists. A cursor is the instant before which all tasks of the page were submitted.
func (e *Engine) List(_ context.Context, q api.Query) (api.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := events.Instant(1 << 62)
	if q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return api.Page{}, api.ErrBadCursor
		}
		before = events.Instant(n)
	}
	var all []*events.Task
	for _, t := range e.tasks {
		if t.SubmittedAt < before && fits(t, q) && (q.Partitions == nil || slices.Contains(q.Partitions, events.Home(t.ID, Partitions))) {
			all = append(all, clone(t))
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].SubmittedAt > all[j].SubmittedAt })
	var asOf []api.PartitionOffset
	for p, end := range e.ends {
		if q.Partitions == nil || slices.Contains(q.Partitions, int32(p)) {
			asOf = append(asOf, api.PartitionOffset{Partition: int32(p), Offset: end})
		}
	}
	if len(all) <= q.Limit {
		return api.Page{Tasks: all, AsOf: asOf}, nil
	}
	all = all[:q.Limit]
	return api.Page{Tasks: all, AsOf: asOf, Next: strconv.FormatInt(int64(all[q.Limit-1].SubmittedAt), 10)}, nil
}

// Cursor implements api.Lists. No two tasks are submitted in one instant here.
func (e *Engine) Cursor(_ string, submitted events.Instant) string {
	return strconv.FormatInt(int64(submitted)+1, 10)
}

// Place implements api.Lists.
func (e *Engine) Place(cursor string) (string, error) {
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return "", api.ErrBadCursor
	}
	return fmt.Sprintf("%020d", 1<<62-n), nil
}

func fits(t *events.Task, q api.Query) bool {
	for k, v := range q.Labels {
		if t.Labels[k] != v {
			return false
		}
	}
	return (len(q.States) == 0 || slices.Contains(q.States, t.State)) && (q.Workflow == "" || t.Workflow == q.Workflow) &&
		(q.Since == 0 || t.SubmittedAt >= q.Since) && (q.Until == 0 || t.SubmittedAt < q.Until) && q.Match.Fits(t)
}

// WaitPassed implements api.Inputs.
func (e *Engine) WaitPassed(ctx context.Context, in events.Input, partition int32, offset int64) error {
	for {
		e.mu.Lock()
		done, changed := e.passed[in][partition] > offset, e.changed
		e.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// History implements api.History.
func (e *Engine) History(_ context.Context, task string, from int64, limit int) ([]api.LoggedFact, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []api.LoggedFact
	for _, f := range e.facts[task] {
		if f.Record.Offset >= from && len(list) < limit {
			list = append(list, f)
		}
	}
	return list, nil
}

// Rejection implements api.Rejections.
func (e *Engine) Rejection(_ context.Context, in events.Input, partition int32, offset int64) (*events.InputRejected, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rejected[events.CauseInput(in, partition, offset)], nil
}

// Refresh implements api.Workflows: everything is always known.
func (e *Engine) Refresh(context.Context) error {
	if err := e.asked(); err != nil {
		return err
	}
	e.mu.Lock()
	e.refreshes++
	e.mu.Unlock()
	return nil
}

// Refreshes counts the calls of Refresh.
func (e *Engine) Refreshes() int { e.mu.Lock(); defer e.mu.Unlock(); return e.refreshes }

// Workflows implements api.Workflows.
func (e *Engine) Workflows(context.Context) ([]*api.Workflow, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*api.Workflow
	for _, versions := range e.definitions {
		for _, w := range versions {
			if w.Current {
				list = append(list, w)
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

// Workflow implements api.Workflows.
func (e *Engine) Workflow(_ context.Context, name string, version int) (*api.Workflow, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookups++
	for _, w := range e.definitions[name] {
		if w.Version == version || (version == 0 && w.Current) {
			return w, nil
		}
	}
	return nil, nil
}

// Definition implements api.Definitions.
func (e *Engine) Definition(ctx context.Context, name string, version int) (api.Definition, bool, error) {
	w, err := e.Workflow(ctx, name, version)
	if w == nil || err != nil {
		return api.Definition{}, false, err
	}
	return api.Definition{Name: w.Name, Version: w.Version, Hash: w.Hash}, true, nil
}

// Lookups counts the calls of Workflow and Definition.
func (e *Engine) Lookups() int { e.mu.Lock(); defer e.mu.Unlock(); return e.lookups }

// Steps implements api.Definitions.
func (e *Engine) Steps(_ context.Context, hash string) ([]api.Step, error) {
	if hash == "" {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if own := e.steps[hash]; own != nil {
		return own, nil
	}
	return []api.Step{
		{ID: "reserve", Agent: "stock", HasUndo: true},
		{ID: "charge", Agent: "bank", Needs: []string{"reserve"}, HasUndo: true},
		{ID: "ship", Title: "Hand it to the post", Description: "Books a parcel.", Agent: "post", Needs: []string{"charge"}, Pivot: true},
	}, nil
}

// Preview implements api.Definitions.
func (e *Engine) Preview(ctx context.Context, hash string, t *events.Task) (list []api.StepPreview, err error) {
	steps, err := e.Steps(ctx, hash)
	for i, s := range steps {
		list = append(list, api.StepPreview{Step: s, Starts: i == 0})
		if i == 0 {
			list[0].With = t.Input
		}
	}
	return list, err
}

// Check implements api.Workflows: a source that contains "bad" has two faults.
func (e *Engine) Check(_ context.Context, d api.Draft) (api.Applied, []api.Fault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, faults := e.draft(d)
	return a, faults, nil
}

func (e *Engine) draft(d api.Draft) (api.Applied, []api.Fault) {
	if strings.Contains(string(d.Source), "bad") {
		return api.Applied{}, []api.Fault{
			{Pointer: "/steps/a", Message: "has no agent", Line: 3, Column: 5},
			{Pointer: "/steps/b/needs/0", Message: "is not a step; did you mean \"a\"?", Line: 7, Column: 12},
		}
	}
	versions := e.definitions[d.Name]
	a := api.Applied{Name: d.Name, Version: len(versions) + 1, Hash: fmt.Sprintf("hash-%s-%d", d.Name, len(versions)+1), Changed: true, Steps: e.Drafted}
	for _, w := range versions {
		if string(w.Body) == string(d.Source) {
			a.Version, a.Hash, a.Changed = w.Version, w.Hash, !w.Current
		}
	}
	return a, nil
}

// Apply implements api.Workflows.
func (e *Engine) Apply(_ context.Context, d api.Draft) (api.Applied, []api.Fault, error) {
	if err := e.asked(); err != nil {
		return api.Applied{}, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a, faults := e.draft(d)
	if len(faults) > 0 {
		return a, faults, nil
	}
	var list []*api.Workflow
	var numbers []int
	for _, w := range e.definitions[d.Name] {
		c := *w
		c.Current = false
		list, numbers = append(list, &c), append(numbers, c.Version)
	}
	if a.Version > len(list) {
		numbers = append(numbers, a.Version)
		list = append(list, &api.Workflow{Name: d.Name, Version: a.Version, Hash: a.Hash, AppliedAt: e.tick(), AppliedBy: d.By, Body: d.Source})
	}
	list[a.Version-1].Current = true
	for _, w := range list {
		w.Versions = numbers
	}
	e.definitions[d.Name] = list
	return a, nil, nil
}

// Owner implements api.Cluster.
func (e *Engine) Owner(int32) string { return "node-a" }

// Route implements api.Cluster: everything is here.
func (e *Engine) Route(int32) proxy.Route { return proxy.Route{Here: true} }

// Partitions implements api.Cluster.
func (e *Engine) Partitions(context.Context) ([]api.Partition, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]api.Partition, Partitions)
	for i := range list {
		list[i] = api.Partition{
			Partition: int32(i), Known: true, Owner: "node-a", Epoch: events.Epoch{N: 1, ID: "e"}, Since: 1795269600000,
			AppliedOffset: e.ends[i], EndOffset: e.ends[i], Begins: &api.PartitionBegins{Submissions: int64(i)},
		}
	}
	for _, t := range e.tasks {
		if !t.State.Ended() {
			list[events.Home(t.ID, Partitions)].Live++
		}
	}
	return list, nil
}

// Agents implements api.Cluster.
func (e *Engine) Agents(context.Context) ([]events.Presence, error) {
	return []events.Presence{{
		Kind: events.PresenceAgent, Instance: "i-1", Node: "node-a", Agents: []string{"stock", "bank"},
		Operations: map[string][]events.Operation{"stock": {events.Do, events.Undo}, "bank": {events.Do}},
		Capacity:   map[string]int{"stock": 64, "bank": 8}, InFlight: map[string]int{"stock": 3},
		Health:     map[string]string{"stock": events.Healthy, "bank": events.Degraded},
		Partitions: map[string][]int32{"stock": {0, 1}}, StartedAt: 1795269600000, SeenAt: 1795269660000,
	}}, nil
}

// Services implements api.Demo.
func (e *Engine) Services() []string { return []string{"account", "drone"} }

// Break implements api.Demo.
func (e *Engine) Break(_ context.Context, b api.Breakage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken[b.Service] = b
	return nil
}

// Fix implements api.Demo.
func (e *Engine) Fix(_ context.Context, service string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if service == "" {
		clear(e.broken)
	}
	delete(e.broken, service)
	return nil
}

// Broken returns how a service is broken.
func (e *Engine) Broken(service string) (api.Breakage, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, ok := e.broken[service]
	return b, ok
}

// Ready is for api.Config.
func (e *Engine) Ready() error { return e.NotReady }

// Delayed is for api.Config.
func (e *Engine) Delayed() []string { return e.Late }

var errTopic = errors.New("apitest: no such topic")
