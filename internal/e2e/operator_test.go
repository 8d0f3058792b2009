package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// These tests do what an operator does over the API while services are broken: cancel, retry, watch an undo.

// broken makes a service of a fleet fail until it is fixed.
func (f *fleet) broken(t *testing.T, service string, fault dronedelivery.Fault) {
	t.Helper()
	require.NoError(t, dronedelivery.Break(t.Context(), f.urls[service], fault))
}

func (f *fleet) fix(t *testing.T, service string) {
	t.Helper()
	require.NoError(t, dronedelivery.Fix(t.Context(), f.urls[service]))
}

// request sends a cancel or a retry and returns its token.
func (e *engine) request(id, kind string, headers ...string) string {
	e.t.Helper()
	var receipt struct{ Token string }
	requireJSON(e.t, e.ask(202, "POST", taskPath(id)+"/"+kind, []byte(`{"reason":"the test says so"}`), headers...), &receipt)
	require.NotEmpty(e.t, receipt.Token)
	return receipt.Token
}

// facts counts the facts of a kind in a task's history. It returns 0 while the task is unknown.
func (e *engine) facts(id, kind string) int {
	e.t.Helper()
	status, b, err := e.try("GET", taskPath(id)+"/history?limit=1000", nil)
	if err != nil || status != 200 {
		return 0
	}
	var page struct{ Events []fact }
	requireJSON(e.t, b, &page)
	return count(page.Events, kind)
}

// effects returns a task's effects that are in force at the services that support undo.
func (f *fleet) effects(t *testing.T, id string) []string {
	t.Helper()
	var left []string
	for service, path := range map[string]string{"package": "/api/packages/", "transport": "/api/transports/", "drone": "/api/drones/", "delivery": "/api/deliveries/"} {
		res, err := web.Get(f.urls[service] + path + id)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if res.StatusCode == http.StatusOK {
			left = append(left, service)
		}
	}
	return left
}

func TestCancel(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	cancelEarly(t, e, f)
	cancelLate(t, e, f)
	e.stop()
}

// cancelEarly makes the cancel arrive before the submission.
func cancelEarly(t *testing.T, e *engine, f *fleet) {
	t.Helper()
	c := newClient(t, e.cluster())
	r, err := events.EncodeRequest(events.Request{ID: "early-1", Kind: events.RequestCancel, Task: "early"}, events.Subject{ID: "early-1", Source: "/e2e", Time: events.At(time.Now())})
	require.NoError(t, err)
	r.Topic, r.Partition = topics.Reports(), events.Home("early", 8)
	require.NoError(t, c.send(t.Context(), r))
	require.NoError(t, c.send(t.Context(), r), "a repeat")
	eventually(t, patience, "the request is held", func() bool {
		held := 0
		records(t, e.cluster(), topics.Events(), func(r events.Record) {
			if r.Header(events.HeaderType) == events.TypePrefix+string(events.NameRequestHeld) {
				held++
			}
		})
		require.LessOrEqual(t, held, 1)
		return held == 1
	})
	e.submit("early", delivery("early", 1))
	require.Equal(t, "undone", e.settled("early").State)
	require.Zero(t, count(e.history("early"), "StepStarted"), "a cancelled task never starts")
	require.Empty(t, f.ledger(t, "account", "early"))
}

// cancelLate cancels in the middle, after the end, and past the pivot.
func cancelLate(t *testing.T, e *engine, f *fleet) {
	t.Helper()
	// In the middle: the engine stops the running step, which may have had its effect, and undoes it.
	f.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Hang})
	e.submit("middle", delivery("middle", 1))
	eventually(t, patience, "the drone is requested", func() bool { return len(f.ledger(t, "drone", "middle")) > 0 })
	token := e.request("middle", "cancel", "Idempotency-Key", "cancel-1")
	e.ask(200, "GET", taskPath("middle")+"?token="+token, nil)
	e.ask(200, "POST", taskPath("middle")+"/cancel", nil, "Idempotency-Key", "cancel-1")
	f.fix(t, "drone")
	got := e.settled("middle")
	require.Equal(t, "undone", got.State)
	require.Equal(t, "undone", got.step("drone"))
	require.Empty(t, f.effects(t, "middle"))
	require.Equal(t, 1, count(e.history("middle"), "CancelRequested"))
	undoOrder(t, e, "middle")

	// Late: there is nothing left to cancel.
	e.submit("late", delivery("late", 3))
	require.Equal(t, "processed", e.settled("late").State)
	refused := e.ask(409, "POST", taskPath("late")+"/cancel", nil)
	t.Logf("late cancel: %s", refused)
	require.Len(t, f.effects(t, "late"), 3+len(f.ledger(t, "transport", "late")))
	e.ask(404, "POST", taskPath("nobody")+"/cancel", nil)

	// Past the pivot.
	f.broken(t, "delivery", dronedelivery.Fault{Mode: dronedelivery.Hang})
	e.submit("pivot", delivery("pivot", 4))
	eventually(t, patience, "the pivot is under way", func() bool { return len(f.ledger(t, "delivery", "pivot")) > 0 })
	token = e.request("pivot", "cancel")
	status, b, err := e.try("GET", taskPath("pivot")+"?token="+token, nil)
	require.NoError(t, err)
	require.Equal(t, 409, status, "%s", b)
	require.Contains(t, string(b), "point of no return")
	f.fix(t, "delivery")
	require.Equal(t, "processed", e.settled("pivot").State)
}

// undoOrder checks that the undos of a task began in the reverse order of the completions, after those of the steps that may have had an
// effect and did not complete: a cancel stops the running attempts.
func undoOrder(t *testing.T, e *engine, id string) {
	t.Helper()
	var done, undone []string
	for _, h := range e.history(id) {
		switch h.Type {
		case "StepCompleted":
			if h.Step != "account" {
				done = append([]string{h.Step}, done...)
			}
		case "Compensated":
			undone = append(undone, h.Step)
		}
	}
	first := len(undone) - len(done)
	require.GreaterOrEqual(t, first, 0)
	require.Equal(t, done, undone[first:])
	for _, step := range undone[:first] {
		require.NotContains(t, done, step)
	}
}

// pivotBreaker is an engine whose pivot can be broken and fixed. At full size it is the example, broken by `sagalog
// demo`, with the circuit breaker that makes each attempt wait. Otherwise it has no circuit breaker and takes seconds.
type pivotBreaker struct {
	*engine
	broken, fix func()
	ledger      func() []dronedelivery.Line
}

func newPivotBreaker(t *testing.T) *pivotBreaker {
	t.Helper()
	work := workDir(t)
	if full {
		e := newEngine(t, work)
		e.start()
		return &pivotBreaker{
			engine: e,
			broken: func() { paste(t, program("sagalog")+" demo break delivery --mode fail --for 10m --api "+e.HTTP) },
			fix:    func() { paste(t, program("sagalog")+" demo fix delivery --api "+e.HTTP) },
			ledger: func() []dronedelivery.Line { return ledgerOf(t, e.Services["delivery"], "parked") },
		}
	}
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	binding := filepath.Join(work, "files", "agents", "delivery.yaml")
	plain := strings.Replace(read(t, binding), "failures: 0.5", "calls: 1000", 1)
	require.Contains(t, plain, "calls:")
	require.NoError(t, os.WriteFile(binding, []byte(plain), 0o600))
	e.start()
	return &pivotBreaker{
		engine: e,
		broken: func() { f.broken(t, "delivery", dronedelivery.Fault{Mode: dronedelivery.Fail}) },
		fix:    func() { f.fix(t, "delivery") },
		ledger: func() []dronedelivery.Line { return f.ledger(t, "delivery", "parked") },
	}
}

func TestRetryOfAParkedTask(t *testing.T) {
	t.Parallel()
	e := newPivotBreaker(t)
	// The pivot fails permanently: the task is parked, and is not undone.
	e.broken()
	e.submit("parked", delivery("parked", 1))
	got := e.settled("parked")
	require.Equal(t, "error", got.State)
	require.Equal(t, "failed", got.step("delivery"))
	require.Equal(t, 5, count(e.history("parked"), "StepFailed"), "as many attempts as the definition says")
	t.Logf("parked: %s", got.Reason)
	require.NotEmpty(t, e.list("state=error"))

	// A retry while it is still broken parks it again.
	before := count(e.history("parked"), "TaskParked")
	token := e.request("parked", "retry")
	e.ask(200, "GET", taskPath("parked")+"?token="+token, nil)
	eventually(t, patience, "it is parked again", func() bool { return count(e.history("parked"), "TaskParked") == before+1 })

	e.fix()
	key := "retry-of-the-test"
	e.request("parked", "retry", "Idempotency-Key", key)
	eventually(t, patience, "it is processed", func() bool { return e.settled("parked").State == "processed" })
	e.ask(200, "POST", taskPath("parked")+"/retry", nil, "Idempotency-Key", key)
	e.ask(409, "POST", taskPath("parked")+"/retry", nil)
	lines := e.ledger()
	for _, l := range lines {
		require.Equal(t, lines[0].IdempotencyKey, l.IdempotencyKey, "the same key for all attempts, also after a retry")
	}
	require.True(t, lines[len(lines)-1].Applied)

	// All of this survives a kill.
	e.kill()
	e.start()
	require.Equal(t, "processed", e.settled("parked").State)
	e.stop()
}

func TestUndoWithBrokenServices(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	// The drone is refused, and the undo of the package fails at first.
	f.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Refuse})
	f.broken(t, "package", dronedelivery.Fault{Mode: dronedelivery.Fail, Operation: "undo"})
	e.submit("u1", delivery("u1", 1))
	eventually(t, patience, "an undo fails", func() bool { return e.facts("u1", "CompensationFailed") >= 2 })
	require.Contains(t, f.effects(t, "u1"), "package")
	e.kill() // while it undoes
	f.fix(t, "package")
	e.start()
	got := e.settled("u1")
	require.Equal(t, "undone", got.State, got.Reason)
	require.Empty(t, f.effects(t, "u1"))
	undoOrder(t, e, "u1")

	// A service hangs after its effect. The outcome is unknown, so the step is undone too. The service does not answer,
	// so the undo waits until it is fixed.
	f.fix(t, "drone")
	f.broken(t, "transport", dronedelivery.Fault{Mode: dronedelivery.Hang, Operation: "do"})
	id := crossing(t)
	e.submit(id, delivery(id, crossingNumber))
	eventually(t, patience, "the transport is booked", func() bool { return len(f.ledger(t, "transport", id)) > 0 })
	e.request(id, "cancel")
	f.fix(t, "transport")
	got = e.settled(id)
	require.Equal(t, "undone", got.State, got.Reason)
	require.Empty(t, f.effects(t, id))

	// An undo that is refused permanently parks the task for an operator. A retry then resumes the undo.
	f.broken(t, "drone", dronedelivery.Fault{Mode: dronedelivery.Refuse})
	f.broken(t, "package", dronedelivery.Fault{Mode: dronedelivery.Refuse, Operation: "undo"})
	e.submit("u3", delivery("u3", 1))
	got = e.settled("u3")
	require.Equal(t, "error", got.State)
	require.Equal(t, "undo_failed", got.step("package"))
	t.Logf("parked: %s", got.Reason)
	f.fix(t, "package")
	e.request("u3", "retry")
	eventually(t, patience, "it is undone", func() bool { return e.settled("u3").State == "undone" })
	require.Empty(t, f.effects(t, "u3"))
	e.stop()
}

// crossingNumber is the number of a delivery between two regions, which needs transport.
const crossingNumber = 2

func crossing(t *testing.T) string {
	t.Helper()
	in := dronedelivery.Submission(crossingNumber, 1).Input
	require.NotEqual(t, in.Pickup.Region, in.Dropoff.Region, "choose another number")
	return "u2"
}

// A dead letter can be redriven once its error is fixed.
func TestRedrive(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	c := newClient(t, e.cluster())
	require.NoError(t, c.send(t.Context(), submission(otherPartition("r1"), "r1", []byte(`{"workflow":"not-yet","input":{"n":12345678901234567890}}`))))
	var list struct {
		DeadLetters []struct{ ID, Reason, Key, Value string } `json:"dead_letters"`
	}
	eventually(t, patience, "it is a dead letter", func() bool {
		requireJSON(t, e.ask(200, "GET", "/v1/dead-letters", nil), &list)
		return len(list.DeadLetters) == 1
	})
	dead := list.DeadLetters[0]
	require.Equal(t, "r1", dead.Key)
	require.Contains(t, dead.Value, "12345678901234567890")
	e.ask(404, "POST", "/v1/dead-letters/"+dead.ID+"/redrive", nil)
	e.ask(200, "PUT", "/v1/workflows/not-yet", []byte("workflow: not-yet\nsteps:\n  package:\n    agent: package\n    with: {id: \"${ task.id }\", package: {size: s, weight: 1}}\n"), "Content-Type", "application/yaml")
	e.ask(202, "POST", "/v1/dead-letters/"+dead.ID+"/redrive", nil)
	got := e.settled("r1")
	require.Equal(t, "processed", got.State)
	require.True(t, strings.Contains(string(got.Input), "12345678901234567890"), "%s", got.Input)
	e.ask(200, "POST", "/v1/dead-letters/"+dead.ID+"/redrive", nil)
	require.Equal(t, 1, count(e.history("r1"), "Submitted"))
	e.stop()
}
