package whatif_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/virtualowner"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// world is a namespace with one partition whose facts the real owner decides, in virtual time. Its services are a function of the seed, the task and the
// instant: what an attempt gets depends on when it is made, and not on its number.
type world struct {
	*virtualowner.Engine
	t       testing.TB
	seed    uint64
	tasks   int
	src     *scheduler.Source
	arrives []arrival
	// asks are requests to come.
	asks    []ask
	replies []answer
	live    map[string]bool
	// signals says that the workflow waits for some.
	signals bool
}

// began is when each world begins.
const began events.Instant = 1_798_761_600_000

// lasts is during how long tasks arrive.
const lasts = 5 * time.Minute

type arrival struct {
	at events.Instant
	id string
}

type ask struct {
	at      events.Instant
	request events.Request
}

type answer struct {
	at     events.Instant
	report events.Report
}

// stored is the simulator's store, which has room for all tasks.
type stored struct{ *sim.Store }

// chance is a number from 0 to 1 that follows from the seed and from what it is about.
func (w *world) chance(of ...any) float64 {
	h := fnv.New64a()
	fmt.Fprintln(h, w.seed, fmt.Sprintln(of...))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return float64((x^x>>33)>>11) / (1 << 53)
}

// parse reads a definition.
func parse(t testing.TB, text string) *scheduler.Source {
	t.Helper()
	src, faults := scheduler.Parse("policy.yaml", []byte(text), nil)
	require.NotNil(t, src, "%v", faults)
	return src
}

// play makes the history of a world under a policy.
func play(t testing.TB, seed uint64, tasks int, definition string) *world {
	t.Helper()
	return playWith(t, seed, tasks, definition, events.DefaultSettings())
}

func playWith(t testing.TB, seed uint64, tasks int, definition string, settings events.Settings) *world {
	t.Helper()
	w := &world{t: t, seed: seed, tasks: tasks, src: parse(t, definition), live: map[string]bool{}, signals: strings.Contains(definition, "signal")}
	d, err := scheduler.Complete(w.src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	w.Engine, err = virtualowner.New(virtualowner.Config{
		Begin: began, Settings: &settings, Offers: virtualowner.OffersOf(d, 10_000), Store: stored{sim.NewStore()}, Sent: w.sent, Limits: d.Limits(),
		Version: supervisor.Version{Workflow: w.src.Workflow, Version: 1, Hash: w.src.Hash, Body: body, Offset: 1, Level: w.src.Level},
	})
	require.NoError(t, err)
	for i := range tasks {
		id := fmt.Sprintf("o-%04d", i)
		w.arrives = append(w.arrives, arrival{began.Add(lasts * time.Duration(i) / time.Duration(tasks)).Add(time.Duration(w.chance("arrival", id) * float64(time.Second))), id})
	}
	w.run()
	return w
}

// run plays until every task has ended or is parked.
func (w *world) run() {
	for w.Err == nil {
		w.Run()
		at := w.next()
		if at == 0 {
			break
		}
		w.Now = at
		for len(w.arrives) > 0 && w.arrives[0].at <= at {
			id := w.arrives[0].id
			w.arrives = w.arrives[1:]
			w.live[id] = true
			if luck := w.chance("signal", id); luck < 0.5 { // some come too early, and some too late
				w.asks = append(w.asks, ask{at.Add(time.Duration(luck * float64(40*time.Second))), events.Request{ID: "s-" + id, Kind: events.RequestSignal, Task: id, Signal: "approved", Payload: []byte(`"ann"`)}})
			} else if luck > 0.9 {
				w.asks = append(w.asks, ask{at.Add(time.Duration((luck - 0.9) * float64(60*time.Second))), events.Request{ID: "c-" + id, Kind: events.RequestCancel, Task: id}})
			}
			w.Put(events.Submissions, events.Record{Key: []byte(id), Value: fmt.Appendf(nil, `{"id":%q,"workflow":%q,"input":{"order":%q}}`, id, w.src.Workflow, id)})
		}
		later := w.replies[:0]
		for _, a := range w.replies {
			if a.at > at {
				later = append(later, a)
				continue
			}
			r, err := events.EncodeReport(a.report, events.Subject{ID: a.report.ID(), Source: "/world", Time: at})
			require.NoError(w.t, err)
			w.Put(events.Reports, r)
		}
		w.replies = later
		w.asks = slices.DeleteFunc(w.asks, func(a ask) bool {
			if !w.signals || a.at > at {
				return !w.signals
			}
			r, err := events.EncodeRequest(a.request, events.Subject{ID: a.request.ID, Source: "/world", Time: at})
			require.NoError(w.t, err)
			w.Put(events.Reports, r)
			return true
		})
		w.Tick()
	}
	require.NoError(w.t, w.Err)
}

// next returns the next instant at which something happens, 0 if nothing does.
func (w *world) next() (at events.Instant) {
	sooner := func(x events.Instant) {
		if x > w.Now && (at == 0 || x < at) {
			at = x
		}
	}
	if len(w.arrives) > 0 {
		sooner(max(w.Now+1, w.arrives[0].at))
	}
	for _, a := range w.replies {
		sooner(a.at)
	}
	for _, a := range w.asks {
		sooner(a.at)
	}
	for id := range w.live {
		task, err := w.State.Task(id)
		require.NoError(w.t, err)
		if task == nil {
			continue
		}
		if task.State.Ended() || task.State == events.TaskStateError {
			delete(w.live, id)
			continue
		}
		for _, m := range task.Timers() {
			sooner(m.Due)
		}
	}
	return at
}

// sent plays the agents.
func (w *world) sent(s supervisor.Send) error {
	if s.Kind != events.EffectWork {
		return nil
	}
	work, _, err := events.DecodeWork(&s.Record)
	if err != nil {
		return err
	}
	r := events.Report{Task: work.Task, Run: work.Run, Step: work.Step, Operation: work.Operation, Attempt: work.Attempt, Ticket: work.Ticket, Instance: "a", Result: events.ResultCompleted}
	takes, fails := w.service(&work)
	switch {
	case takes == 0:
		return nil // it never answers
	case fails != nil:
		r.Result, r.Error, r.Effect = events.ResultFailed, fails, events.EffectDoneUnknown
	case work.Operation == events.Do:
		r.Output = fmt.Appendf(nil, `{"id":%q,"ok":true}`, work.Step+"-"+work.Task)
	}
	w.replies = append(w.replies, answer{w.Now.Add(takes), r})
	return nil
}

// service says how long the service of a step takes, and how it fails; zero if it does not answer.
//
//	stock  fails now and then, for any attempt
//	card   refuses some orders for good, and is down twice: once it refuses connections, once it does not answer
//	ship   gets slower for minutes, and fails more often the slower it is
func (w *world) service(work *events.Work) (time.Duration, *events.Error) {
	at := w.Now.Sub(began)
	luck := w.chance(work.Task, work.Step, work.Operation, w.Now)
	takes := time.Duration(float64(20*time.Millisecond) * (1 + 4*w.chance("takes", work.Task, work.Step, w.Now)))
	retryable := &events.Error{Class: events.ClassRetryable, Code: "http_503", Message: "unavailable"}
	down := func(from float64, long time.Duration) bool {
		begins := time.Duration(from * float64(lasts))
		return at >= begins && at < begins+long
	}
	switch {
	case work.Step == "stock" && work.Operation == events.Undo:
		if luck < 0.3 {
			return takes, retryable
		}
	case work.Step == "stock":
		if luck < 0.2 {
			return takes, retryable
		}
	case work.Step == "card":
		if work.Operation == events.Do && w.chance("refused", work.Task) < 0.06 {
			return takes, &events.Error{Class: events.ClassPermanent, Code: "http_402", Message: "no money"}
		}
		if down(0.1+0.2*w.chance("down"), 45*time.Second) {
			return takes, retryable
		}
		if down(0.5+0.3*w.chance("silent"), 20*time.Second) {
			return 0, nil
		}
		if luck < 0.05 {
			return takes, retryable
		}
	case work.Step == "ship" || strings.HasPrefix(work.Step, "parts["):
		slow := 0.0
		if down(0.35+0.1*w.chance("slow"), 45*time.Second) {
			slow = 0.6
		}
		if luck < 0.08+slow {
			return takes * 10, retryable
		}
	}
	return takes, nil
}

// Commit implements virtualowner.Store.
func (s stored) Commit(d *events.Delta) error { return s.Apply(d, events.Record{Offset: d.Next - 1}) }

// logOf is the log of a world.
type logOf []events.Record

// Bounds implements verify.Log.
func (l logOf) Bounds(context.Context, string) ([]verify.Bounds, error) {
	return []verify.Bounds{{Start: l[0].Offset, End: l[0].Offset + int64(len(l))}}, nil
}

// Read implements verify.Log.
func (l logOf) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	for _, r := range l[s.From-l[0].Offset : s.To-l[0].Offset] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// carryAfter returns the place of a carry in the log, at which it may be cut.
func (w *world) carryAfter(d time.Duration) int {
	w.t.Helper()
	at := slices.IndexFunc(w.Facts, func(f *events.Fact) bool {
		_, carry := f.Body.(*events.CarryBegun)
		return carry && f.Time > began.Add(d)
	})
	require.Positive(w.t, at, "there was a carry")
	return at
}

// ends counts the tasks of a world by how they ended.
func (w *world) ends() map[events.TaskState]int {
	n := map[events.TaskState]int{}
	for i := range w.tasks {
		t, err := w.State.Task(fmt.Sprintf("o-%04d", i))
		require.NoError(w.t, err)
		n[t.State]++
	}
	return n
}
