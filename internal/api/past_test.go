package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// pastHome is the partition of the task "x".
var pastHome = events.Home("x", apitest.Partitions)

// chronicle is the log of one partition, folded as a whole, and what each API would say at each offset: it is api.Tasks, as of the moment
// that the test sets, and api.History.
type chronicle struct {
	api.Tasks
	t     *testing.T
	state *events.State
	epoch events.Epoch
	next  uint64
	// begun and now are instants to come, so that waits that a fact began are not over for a reader of the present.
	begun, now events.Instant
	facts      []api.LoggedFact
	// was holds the task "x" after each offset; nil before it was submitted.
	was     []json.RawMessage
	present int
	// trimmed is the first offset that the log still has.
	trimmed int64
}

func (c *chronicle) Task(context.Context, string) (*events.Task, error) {
	if c.was[c.present] == nil {
		return nil, nil
	}
	t := new(events.Task)
	return t, json.Unmarshal(c.was[c.present], t)
}

func (c *chronicle) Keys(context.Context, *events.Task) (events.Keys, error) {
	return events.Keys{}, nil
}

func (c *chronicle) History(_ context.Context, task string, from int64, limit int) (list []api.LoggedFact, err error) {
	if from < 0 || limit < 1 {
		return nil, errors.New("no such page")
	}
	for _, f := range c.facts {
		if r := &f.Record; string(r.Key) == task && r.Offset >= max(from, c.trimmed) && len(list) < limit {
			list = append(list, f)
		}
	}
	return list, nil
}

// write appends a fact a second after the one before.
func (c *chronicle) write(task string, b events.Body) {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	f := &events.Fact{Epoch: c.epoch, Sequence: c.next, Time: c.now, Task: task, Body: b}
	claim, isClaim := b.(*events.PartitionClaimed)
	if isClaim {
		f.Epoch, f.Sequence = events.Epoch{}, 0
	}
	r, err := events.EncodeFact(f, pastHome, "/sagalog/events")
	require.NoError(c.t, err)
	r.Offset = c.state.Next
	fate, err := c.state.Apply(f, r.Offset)
	require.NoError(c.t, err, "%s", b.Name())
	require.Equal(c.t, events.FateAccepted, fate)
	if isClaim {
		c.epoch, c.next = events.Epoch{N: c.epoch.N + 1, ID: claim.ID}, 0
	} else {
		c.next++
	}
	c.facts = append(c.facts, api.LoggedFact{Record: r, Owner: "node-a"})
	x, err := c.state.Task("x")
	require.NoError(c.t, err)
	var encoded json.RawMessage
	if x != nil {
		encoded, err = events.Marshal(x)
		require.NoError(c.t, err)
	}
	c.was = append(c.was, encoded)
}

func (c *chronicle) start(step string, attempt int) {
	c.write("x", &events.StepStarted{Step: step, Agent: "stock", Attempt: attempt, CompleteBy: c.now.Add(30 * time.Second), Undoable: true, Input: json.RawMessage(`{"n":1}`)})
	c.write("", &events.InputsPassed{}) // of other tasks
}

func (c *chronicle) fail(step string, attempt int, action events.Action) {
	c.write("x", &events.StepFailed{
		Step: step, Attempt: attempt, Effect: events.EffectInDoubt, QuietAt: c.now.Add(time.Minute),
		Error:   events.Error{Class: events.ClassRetryable, Code: "http_503", Message: "busy", Detail: json.RawMessage(`{"seen":1}`)},
		Verdict: events.Verdict{Action: action, At: c.now.Add(time.Minute), Reason: "because"},
	})
}

// undone writes the log of a task that is retried, parked, retried by an operator with another input, paused, undone, and rerun.
func undone(t *testing.T) *chronicle {
	c := &chronicle{t: t, state: events.NewState(pastHome, nil), now: events.At(time.Now().Add(time.Hour).Truncate(time.Second))}
	c.begun = c.now
	c.write("", &events.PartitionClaimed{ID: "a", Owner: "node-a", Reader: events.FormatVersion})
	c.write("x", &events.RequestHeld{Request: events.Request{ID: "s-1", Kind: events.RequestSignal, Task: "x", Signal: "go"}, ExpiresAt: c.now.Add(time.Hour)})
	c.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	c.write("x", &events.Submitted{Workflow: "order", Version: 1, Hash: "hash-order-1", Input: json.RawMessage(`{"item":"lamp"}`), Content: "c", Deadline: c.now.Add(time.Hour)})
	c.write("x", &events.SignalReceived{Request: "s-1", Signal: "go", Payload: json.RawMessage(`1`)})
	c.start("reserve", 1)
	c.fail("reserve", 1, events.ActionRetry)
	c.start("reserve", 2)
	c.write("x", &events.StepCompleted{Step: "reserve", Attempt: 2, Output: json.RawMessage(`{"place":7}`)})
	c.start("charge", 1)
	c.fail("charge", 1, events.ActionPark)
	c.write("x", &events.TaskParked{Step: "charge", Reason: "because"})
	c.write("", &events.PartitionClaimed{ID: "b", Prev: "a", Owner: "node-a", Reader: events.FormatVersion})
	c.write("x", &events.TaskReopened{Request: "q-1", Steps: []string{"charge"}, With: json.RawMessage(`{"n":2}`), By: "ada"})
	c.write("x", &events.TaskPaused{Request: "q-2", By: "ada", Reason: "lunch"})
	c.write("x", &events.TaskResumed{Request: "q-3"})
	c.start("charge", 2)
	c.fail("charge", 2, events.ActionUndo)
	c.write("x", &events.CompensationStarted{Step: "charge", Agent: "bank", Attempt: 1, CompleteBy: c.now.Add(30 * time.Second)})
	c.write("x", &events.CompensationFailed{
		Step: "charge", Attempt: 1, Error: events.Error{Class: events.ClassRetryable, Message: "no"},
		Verdict: events.Verdict{Action: events.ActionRetry, At: c.now.Add(time.Minute)},
	})
	c.write("x", &events.CompensationStarted{Step: "charge", Agent: "bank", Attempt: 2, CompleteBy: c.now.Add(30 * time.Second)})
	c.write("x", &events.Compensated{Step: "charge", Attempt: 2})
	c.write("x", &events.CompensationStarted{Step: "reserve", Agent: "stock", Attempt: 1, CompleteBy: c.now.Add(30 * time.Second)})
	c.write("x", &events.Compensated{Step: "reserve", Attempt: 1})
	c.write("x", &events.TaskUndone{Reason: "because"})
	return c
}

// chronicled serves the API of a log.
func chronicled(t *testing.T) (*world, *chronicle) {
	c := undone(t)
	return setup(t, func(cfg *api.Config) { c.Tasks, cfg.Tasks, cfg.History = cfg.Tasks, c, c }), c
}

// At each offset of the log, and at the instant of each record, the answer is what a reader of the task would have got then.
func TestATaskIsShownAsItWas(t *testing.T) {
	t.Parallel()
	w, c := chronicled(t)
	var last *api.LoggedFact
	for n := range c.was {
		if f := &c.facts[n]; string(f.Record.Key) == "x" {
			last = f
		}
		c.present = n
		then := w.do("GET", "/v1/tasks/x", "")
		c.present = len(c.was) - 1
		for _, at := range []string{fmt.Sprintf("%d@%d", pastHome, n), api.EventOf(c.facts[n]).Time.String()} {
			past := w.do("GET", "/v1/tasks/x?at="+url.QueryEscape(at), "")
			if c.was[n] == nil {
				require.Equal(t, 404, then.status)
				require.Equal(t, 410, past.status, past.body)
				require.Equal(t, "before-log-start", past.problem(t).Code())
				require.Contains(t, past.problem(t).Detail, fmt.Sprintf("submitted at %s (%d@3)", c.begun.Add(4*time.Second), pastHome))
				continue
			}
			require.Equal(t, 200, past.status, past.body)
			doc := past.json(t)
			e := api.EventOf(*last)
			require.Equal(t, map[string]any{"partition": float64(e.Partition), "offset": float64(e.Offset), "time": e.Time.String()}, doc["at"])
			delete(doc, "at")
			require.Equal(t, withoutOver(then.json(t), e.Time), doc, "as of %s, after %s", at, e.Type)
		}
	}
	end := w.do("GET", fmt.Sprintf("/v1/tasks/x?at=%d@%d", pastHome, 1<<40), "").json(t)
	require.Equal(t, "undone", end["state"], "an offset that is still to come means the last fact")
	require.Equal(t, 410, w.do("GET", "/v1/tasks/x?at=2020-01-01T00:00:00Z", "").status)
	require.Equal(t, 404, w.do("GET", "/v1/tasks/unknown?at=2020-01-01T00:00:00Z", "").status)
}

// withoutOver drops waits that were over at that instant: the log is of a time to come, so that a reader of the present takes no wait for over.
func withoutOver(doc map[string]any, at events.Instant) map[string]any {
	waits, _ := doc["waiting_for"].([]any)
	waits = slices.DeleteFunc(waits, func(w any) bool {
		until, _ := w.(map[string]any)["until"].(string)
		i, err := events.ParseInstant(until)
		return err == nil && i <= at
	})
	if doc["waiting_for"] = waits; len(waits) == 0 {
		delete(doc, "waiting_for")
	}
	return doc
}

func TestAnAtThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	w, _ := chronicled(t)
	home, other := pastHome, (pastHome+1)%apitest.Partitions
	for query, says := range map[string]string{
		"at=yesterday":                       "neither an instant",
		"at=2026-11-21":                      "neither an instant",
		"at=3@x":                             "is not partition@offset",
		"at=-1@5":                            "is not partition@offset",
		fmt.Sprintf("at=%d@-1", home):        "is not partition@offset",
		fmt.Sprintf("at=%d@5", other):        fmt.Sprintf("in partition %d: write %d@5", home, home),
		fmt.Sprintf("at=%d@4&wait=1s", home): "leave out wait and token",
		fmt.Sprintf("at=%d@4&token=z", home): "leave out wait and token",
	} {
		r := w.do("GET", "/v1/tasks/x?"+query, "")
		require.Equal(t, 422, r.status, query)
		require.Equal(t, "at", r.problem(t).Errors[0].Parameter, query)
		require.Contains(t, r.problem(t).Errors[0].Message, says, query)
	}
}

// Without the first facts of a task nothing is known of its past, and the answer says from where the log goes on.
func TestThePastOfATaskWithoutItsFirstFactsIsGone(t *testing.T) {
	t.Parallel()
	w, c := chronicled(t)
	c.trimmed = 6
	r := w.do("GET", fmt.Sprintf("/v1/tasks/x?at=%d@20", pastHome), "")
	require.Equal(t, 410, r.status, r.body)
	require.Equal(t, "before-log-start", r.problem(t).Code())
	var first api.LoggedFact
	for _, f := range c.facts {
		if string(f.Record.Key) == "x" && f.Record.Offset >= c.trimmed {
			first = f
			break
		}
	}
	e := api.EventOf(first)
	require.Contains(t, r.problem(t).Detail, fmt.Sprintf("before %s (%d@%d) were trimmed", e.Time, e.Partition, e.Offset))
}

// A long history is read in pages.
func TestALongPastIsReadInPages(t *testing.T) {
	t.Parallel()
	w, c := chronicled(t)
	c.write("x", &events.TaskRerun{Request: "again"})
	for range 250 {
		c.write("x", &events.RequestRefused{Request: fmt.Sprint("r-", c.next), Verb: events.RequestRetry, Reason: "no"})
	}
	c.present = len(c.was) - 1
	doc := w.do("GET", fmt.Sprintf("/v1/tasks/x?at=%d@%d", pastHome, c.present), "").json(t)
	require.Equal(t, strings.TrimSpace(w.do("GET", "/v1/tasks/x", "").json(t)["updated_at"].(string)), doc["updated_at"])
	require.EqualValues(t, c.present, doc["at"].(map[string]any)["offset"])
}

// The node that owns the task answers, whichever is asked.
func TestThePastIsReadThroughAnyNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	for _, id := range []string{"x", "a/b"} {
		n.members[0].submit(id)
		for _, reader := range n.members {
			r := reader.do("GET", fmt.Sprintf("%s?at=%d@100", path(id), events.Home(id, apitest.Partitions)), "")
			require.Equal(t, 200, r.status, r.body)
			require.Equal(t, "pending", r.json(t)["state"])
			require.NotEmpty(t, r.json(t)["at"])
		}
	}
}

// lateHistory answers after what another node waits for an owner otherwise.
type lateHistory struct{ of api.History }

func (h lateHistory) History(ctx context.Context, id string, from int64, limit int) ([]api.LoggedFact, error) {
	<-time.After(proxy.AnswerWithin + 100*time.Millisecond)
	return h.of.History(ctx, id, from, limit)
}

// A past that is long to read is answered through any node.
func TestALongPastIsAwaitedAtAnyNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t)
	a, b := n.join("a"), n.join("b", func(c *api.Config) { c.History = lateHistory{c.History} })
	for p := range int32(apitest.Partitions) {
		n.move(p, b)
	}
	a.submit("x")
	r := a.do("GET", fmt.Sprintf("%s?at=%d@100", path("x"), events.Home("x", apitest.Partitions)), "")
	require.Equal(t, 200, r.status, r.body)
	require.NotEmpty(t, r.json(t)["at"])
}
