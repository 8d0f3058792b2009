package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// scribe writes a log of one partition and the ledgers that go with it.
type scribe struct {
	t       *testing.T
	epoch   events.Epoch
	seq     uint64
	time    events.Instant
	records []events.Record
	ledgers map[string][]dronedelivery.Line
	// incarnations are the positions at which the tasks were submitted.
	incarnations map[string]string
	alerts       []alert
	// node is the current owner, which writes.
	node string
	// verified is the result that package verify is assumed to have returned.
	verified verify.Report
}

func newScribe(t *testing.T) *scribe {
	return &scribe{t: t, node: "n", time: 1_000_000, ledgers: map[string][]dronedelivery.Line{}, incarnations: map[string]string{}}
}

func (s *scribe) claim(id, prev string) {
	s.add(&events.Fact{Body: &events.PartitionClaimed{ID: id, Prev: prev, Owner: s.node}})
	if prev == s.epoch.ID {
		s.epoch, s.seq = events.Epoch{N: s.epoch.N + 1, ID: id}, 0
	}
}

func (s *scribe) fact(task string, body events.Body) {
	f := &events.Fact{Epoch: s.epoch, Sequence: s.seq, Task: task, Body: body}
	if _, ok := body.(*events.Submitted); ok && s.incarnations[task] == "" {
		s.incarnations[task] = f.Position().String()
	}
	s.add(f)
	s.seq++
}

func (s *scribe) add(f *events.Fact) {
	s.time++
	f.Time = s.time
	r, err := events.EncodeFact(f, 0, "/sagalog/events/0/"+s.node)
	require.NoError(s.t, err)
	r.Offset = int64(len(s.records))
	s.records = append(s.records, r)
}

// call writes a ledger line of an attempt.
func (s *scribe) call(task, step, method string, attempt, status int, change ...func(*dronedelivery.Line)) {
	op := events.Do
	if method == http.MethodDelete {
		op = events.Undo
	}
	w := events.Work{Task: task, Ticket: s.incarnations[task], Run: 1, Step: step}
	l := dronedelivery.Line{
		Method: method, Path: "/api/" + step + "s/" + url.PathEscape(task), IdempotencyKey: w.Key(uuid.Nil, op),
		Attempt: attempt, Status: status, Applied: status == 201 || status == 204, Task: url.PathEscape(task), Run: 1, Tombstone: status == 204,
	}
	if op == events.Undo {
		l.Undoes = w.Key(uuid.Nil, events.Do)
	}
	for _, c := range change {
		c(&l)
	}
	s.ledgers[step] = append(s.ledgers[step], l)
}

func (s *scribe) step(task, step string, pivot bool) {
	s.fact(task, &events.StepStarted{Step: step, Agent: step, Attempt: 1, Pivot: pivot, Undoable: step == "package"})
	s.call(task, step, http.MethodPut, 1, 201)
	s.fact(task, &events.StepCompleted{Step: step, Attempt: 1})
}

// processed, undone and retried are three complete deliveries.
func (s *scribe) processed(task string) {
	s.fact(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.step(task, "package", false)
	s.fact(task, &events.StepSkipped{Step: "transport", Why: events.SkipCondition})
	s.step(task, "delivery", true)
	s.fact(task, &events.TaskProcessed{})
}

func (s *scribe) undone(task string) {
	s.fact(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.step(task, "package", false)
	s.fact(task, &events.StepStarted{Step: "drone", Agent: "drone", Attempt: 1, Undoable: true})
	s.call(task, "drone", http.MethodPut, 1, 422)
	s.fact(task, &events.StepFailed{Step: "drone", Attempt: 1, Effect: events.EffectNone, Error: events.Error{Code: "http_422"}, Verdict: events.Verdict{Action: events.ActionUndo}})
	s.fact(task, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1})
	s.call(task, "package", http.MethodDelete, 1, 204)
	s.fact(task, &events.Compensated{Step: "package", Attempt: 1})
	s.fact(task, &events.TaskUndone{})
}

func (s *scribe) retried(task string) {
	s.fact(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.fact(task, &events.StepStarted{Step: "package", Agent: "package", Attempt: 1, Undoable: true})
	s.call(task, "package", http.MethodPut, 1, 0, func(l *dronedelivery.Line) { l.Applied, l.Fault = true, dronedelivery.Hang })
	s.fact(task, &events.Timeout{Step: "package", Operation: events.Do, Attempt: 1})
	s.fact(task, &events.StepStarted{Step: "package", Agent: "package", Attempt: 2, Undoable: true})
	s.call(task, "package", http.MethodPut, 2, 200)
	s.call(task, "package", http.MethodPut, 2, 200) // the same request, delivered twice
	s.fact(task, &events.StepCompleted{Step: "package", Attempt: 2})
	s.fact(task, &events.TaskProcessed{})
}

// rerun is a delivery that is processed, and then runs once more from its beginning.
func (s *scribe) rerun(task string) {
	second := func(l *dronedelivery.Line) {
		w := events.Work{Task: task, Ticket: s.incarnations[task], Run: 2, Step: "package"}
		l.Run, l.IdempotencyKey = 2, w.Key(uuid.Nil, events.Do)
	}
	s.fact(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.step(task, "package", false)
	s.fact(task, &events.TaskProcessed{})
	s.fact(task, &events.TaskRerun{Request: "q", Steps: []string{"package"}})
	s.fact(task, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1})
	s.call(task, "package", http.MethodDelete, 1, 204)
	s.fact(task, &events.Compensated{Step: "package", Attempt: 1})
	s.fact(task, &events.RunBegun{Run: 2})
	s.fact(task, &events.StepStarted{Step: "package", Agent: "package", Attempt: 2, Run: 2, Undoable: true})
	s.call(task, "package", http.MethodPut, 2, 201, second)
	s.fact(task, &events.StepCompleted{Step: "package", Attempt: 2})
	s.fact(task, &events.TaskProcessed{})
}

func TestAuditJudgesEachRunByItsOwnCalls(t *testing.T) {
	t.Parallel()
	for says, harm := range map[string]func(l []dronedelivery.Line) []dronedelivery.Line{
		"":                                  func(l []dronedelivery.Line) []dronedelivery.Line { return l },
		"an effect of run 1 remains":        func(l []dronedelivery.Line) []dronedelivery.Line { return l[:1] },
		"the do took effect after its undo": func(l []dronedelivery.Line) []dronedelivery.Line { return []dronedelivery.Line{l[1], l[0], l[2]} },
		"its effect is missing":             func(l []dronedelivery.Line) []dronedelivery.Line { return l[:2] },
		"in run 3 with the identifier":      func(l []dronedelivery.Line) []dronedelivery.Line { l[2].Run = 3; return l },
		"attempt 1 of the do of step package is not in the log": func(l []dronedelivery.Line) []dronedelivery.Line { l[2].Attempt = 1; return l },
	} {
		s := newScribe(t)
		s.claim("a", "")
		s.rerun("d1")
		s.ledgers["package"] = harm(s.ledgers["package"])
		sum, err := s.audit(auditFlags{}, "d1")
		if says == "" {
			require.NoError(t, err, "%+v", sum.First)
			continue
		}
		require.Error(t, err, says)
		require.Contains(t, fmt.Sprint(sum.First), says)
	}
}

// unkindly is a delivery at unkind services: a connection breaks after the effect, the repeat is refused, and the undo is repeated
// too.
func (s *scribe) unkindly(task string) {
	unkind := func(fault dronedelivery.Mode, applied bool) func(*dronedelivery.Line) {
		return func(l *dronedelivery.Line) { l.Unkind, l.Fault, l.Applied, l.Tombstone = true, fault, applied, false }
	}
	s.fact(task, &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.fact(task, &events.StepStarted{Step: "package", Agent: "package", Attempt: 1, Undoable: true})
	s.call(task, "package", http.MethodPut, 1, 0, unkind(dronedelivery.Reset, true))
	s.call(task, "package", http.MethodPut, 1, 409, unkind("", false))
	s.fact(task, &events.StepFailed{Step: "package", Attempt: 1, Effect: events.EffectInDoubt, Error: events.Error{Code: "http_409"}, Verdict: events.Verdict{Action: events.ActionUndo}})
	s.fact(task, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 1})
	s.call(task, "package", http.MethodDelete, 1, 504, unkind(dronedelivery.Late, false))
	s.fact(task, &events.CompensationFailed{Step: "package", Attempt: 1, Error: events.Error{Code: "http_504"}, Verdict: events.Verdict{Action: events.ActionRetry}})
	s.call(task, "package", http.MethodDelete, 1, 0, unkind(dronedelivery.Late, true))
	s.fact(task, &events.CompensationStarted{Step: "package", Agent: "package", Attempt: 2})
	s.call(task, "package", http.MethodDelete, 2, 404, unkind("", false))
	s.fact(task, &events.Compensated{Step: "package", Attempt: 2})
	s.fact(task, &events.TaskUndone{})
}

// audit returns the summary, and whether the audit found a fault.
func (s *scribe) audit(f auditFlags, ids ...string) (report, error) {
	book := newLogBook(f.prefix)
	var rule verify.Rule
	for i := range s.records {
		fact, err := events.DecodeFact(&s.records[i])
		require.NoError(s.t, err)
		book.fact(fact, &s.records[i], rule.Judge(fact) == "")
	}
	var entries []*entry
	for _, service := range slices.Sorted(maps.Keys(s.ledgers)) {
		for i, l := range s.ledgers[service] {
			task, err := url.PathUnescape(l.Task)
			require.NoError(s.t, err)
			entries = append(entries, &entry{Line: l, service: service, number: i + 1, task: task})
		}
	}
	var out bytes.Buffer
	f.show = 20
	err := judge(newComparison(book, entries, s.alerts, &s.verified), ids, f, &out, io.Discard)
	var sum report
	require.NoError(s.t, json.Unmarshal(out.Bytes(), &sum))
	return sum, err
}

func whole(t *testing.T) *scribe {
	s := newScribe(t)
	s.claim("a", "")
	s.processed("d 1/ü")
	s.undone("d2")
	s.retried("d3")
	return s
}

func TestAuditFindsNothingIfEverythingAgrees(t *testing.T) {
	t.Parallel()
	s := whole(t)
	late := s.epoch
	s.claim("b", "a")
	s.claim("late", "a")
	s.epoch, s.seq, late = late, 99, s.epoch
	s.fact("d2", &events.Submitted{Content: "other"}) // by the deposed owner
	s.epoch, s.seq = late, 0
	s.processed("d4")
	sum, err := s.audit(auditFlags{}, "d 1/ü", "d2", "d3", "d4")
	require.NoError(t, err, "%+v", sum.First)
	require.Equal(t, map[string]int{"processed": 3, "undone": 1}, sum.Ends)
	require.Equal(t, 2, sum.Log.Epochs)
	require.Equal(t, 1, sum.Log.Timeouts)
	require.Equal(t, 1, sum.Ledgers["package"].Repeats)
}

func TestAuditJudgesUnkindServicesByTheirEffects(t *testing.T) {
	t.Parallel()
	s := newScribe(t)
	s.claim("a", "")
	s.unkindly("d1")
	sum, err := s.audit(auditFlags{}, "d1")
	require.NoError(t, err, "%+v", sum.First)
	for says, harm := range map[string]func(l []dronedelivery.Line) []dronedelivery.Line{
		"the do took effect after its undo": func(l []dronedelivery.Line) []dronedelivery.Line {
			return append(l, func(l dronedelivery.Line) dronedelivery.Line { l.Fault = dronedelivery.Late; return l }(l[0]))
		},
		"an effect of it remains":            func(l []dronedelivery.Line) []dronedelivery.Line { return slices.Delete(l, 3, 4) },
		"but nothing came before it":         func(l []dronedelivery.Line) []dronedelivery.Line { return l[1:] },
		"took effect twice":                  func(l []dronedelivery.Line) []dronedelivery.Line { return slices.Insert(l, 1, l[0]) },
		"contradicts its fault":              func(l []dronedelivery.Line) []dronedelivery.Line { l[0].Status = 201; return l },
		"found something where nothing was":  func(l []dronedelivery.Line) []dronedelivery.Line { return slices.Insert(l, 4, l[3]) },
		"no call was answered with 2xx or 4": func(l []dronedelivery.Line) []dronedelivery.Line { return l[:4] },
	} {
		s := newScribe(t)
		s.claim("a", "")
		s.unkindly("d1")
		s.ledgers["package"] = harm(s.ledgers["package"])
		sum, err := s.audit(auditFlags{}, "d1")
		require.Error(t, err, says)
		require.Contains(t, fmt.Sprint(sum.First), says)
	}
}

func TestAuditFindsEachDisagreement(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		harm func(s *scribe)
		says string
	}{
		"lost": {func(s *scribe) {}, `task "d9": was submitted, but the log never accepted it`},
		"open": {func(s *scribe) { s.records = s.records[:len(s.records)-1] }, "has not ended"},
		"unknown call": {func(s *scribe) {
			s.call("d2", "transport", http.MethodPut, 1, 201)
		}, "belongs to nothing in the log"},
		"attempt ahead of the log": {func(s *scribe) { s.call("d3", "package", http.MethodPut, 3, 200) }, "attempt 3 of the do of step package is not in the log"},
		"no 2xx":                   {func(s *scribe) { s.ledgers["delivery"] = nil }, "completed, but no call was answered with 2xx"},
		"an undo is missing":       {func(s *scribe) { l := s.ledgers["package"]; s.ledgers["package"] = slices.Delete(l, 2, 3) }, "an effect of it remains"},
		"undo before do": {func(s *scribe) {
			l := s.ledgers["package"]
			l[1], l[2] = l[2], l[1]
		}, "after its undo"},
		"an effect although none was reported": {func(s *scribe) { l := &s.ledgers["drone"][0]; l.Status, l.Applied = 201, true }, "reported that it changed nothing"},
		"other status":                         {func(s *scribe) { s.ledgers["drone"][0].Status = 403 }, "http_422, but no call was answered with that status"},
		"a finding of verify": {func(s *scribe) {
			s.verified.Findings = []verify.Finding{{Check: verify.CheckUndo, Task: "d2", Step: "package", What: "its undo begins too early"}}
		}, `task "d2": step package: undo: its undo begins too early`},
		"an alert without a fact": {func(s *scribe) { s.alerts = []alert{{"a/0 at offset 0", "0/7-x/1"}} }, "which is not an accepted fact that raises an alert"},
		"effect twice":            {func(s *scribe) { l := s.ledgers["package"]; l[4].Applied, l[4].Status = true, 201 }, "took effect twice"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := whole(t)
			tt.harm(s)
			ids := []string{"d 1/ü", "d2", "d3"}
			if name == "lost" {
				ids = append(ids, "d9")
			}
			sum, err := s.audit(auditFlags{}, ids...)
			require.Error(t, err)
			require.Contains(t, fmt.Sprint(sum.First), tt.says)
		})
	}
}

func TestEveryLieIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		sum, err := whole(t).audit(auditFlags{lies: true, lie: seed}, "d 1/ü", "d2", "d3")
		require.Error(t, err, "seed %d: %+v", seed, sum.Lie)
		require.True(t, sum.Lie.Found, "seed %d: %+v %+v", seed, sum.Lie, sum.First)
	}
}

func TestAuditUsage(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"--brokers is missing": {"audit", "--ledgers", "x"},
		"one of --services":    {"audit", "--brokers", "127.0.0.1:1"},
		"exclude each other":   {"audit", "--brokers", "127.0.0.1:1", "--ledgers", "x", "--count", "1", "--ids", "y"},
		"neither a file nor":   {"audit", "--brokers", "127.0.0.1:1", "--services", "{x"},
	} {
		var errs bytes.Buffer
		require.Equal(t, cli.ExitUsage, run(t.Context(), args, io.Discard, &errs), errs.String())
		require.Contains(t, errs.String(), says)
	}
}
