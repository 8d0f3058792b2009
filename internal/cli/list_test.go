package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestListingTasksOfSeveralStates(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"waits", "done", "stuck"} {
		e.submit(t, id)
	}
	e.Finish("done")
	e.Park("stuck", "no lamp")
	e.Change("done", &events.ChildAnswered{}, func(t *events.Task) {
		t.Parent = &events.Parent{ParentLink: events.ParentLink{Link: events.Link{Task: "waits"}}}
	})
	for args, want := range map[string]string{
		"--state parked": "stuck", "--state error": "stuck", "--state parked --state processed": "stuck done",
		"--state pending,processed": "done waits", "": "stuck done waits", "--waiting-for operator": "stuck", "--waiting-for signal": "", "--agent nobody": "",
		"--parent waits": "done", "--parent done": "",
	} {
		r := e.run(append([]string{"task", "list", "-o", "jsonl"}, strings.Fields(args)...)...)
		require.Equal(t, 0, r.code, r.err)
		var ids []string
		for line := range strings.Lines(r.out) {
			var task api.TaskDocument
			require.NoError(t, json.Unmarshal([]byte(line), &task))
			ids = append(ids, task.ID)
		}
		require.Equal(t, want, strings.Join(ids, " "), args)
	}
}

// A list without items says so on standard error. Programs get an empty array, or no lines.
func TestAnEmptyListSaysThatItIsEmpty(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for args, want := range map[string]string{
		"task list": "there are no tasks", "task list --state error": "no task matches", "task list --parent x": "no task matches", "alert list": "no alert is open", "alert list --kind parked": "no alert of the kind parked is open",
		"alert list --open=false": "the topic of alerts holds no alert", "dlq list": "there are no dead letters", "job list": "there are no jobs", "schedule list": "there are no schedules",
		"limit list": "there are no named limits, and no task waits for a permit", "limit list --all": "there are no limits",
		"partitions takeovers 1": "partition 1 was never taken over, as far as the node that answers knows",
	} {
		r := e.run(strings.Fields(args)...)
		require.Equal(t, 0, r.code, r.err)
		require.Empty(t, r.out, args)
		require.Equal(t, want+"\n", r.err, args)
		r = e.run(strings.Fields(args + " -o json")...)
		require.Equal(t, "[]\n", r.out, args)
		require.Empty(t, r.err, args)
		r = e.run(strings.Fields(args + " -o jsonl")...)
		require.Empty(t, r.out+r.err, args)
	}
}

func TestAListShowsWhatIsPaused(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "held")
	e.submit(t, "free")
	e.Change("held", &events.TaskPaused{}, func(t *events.Task) { t.Paused = &events.Paused{By: "ada", Since: t.UpdatedAt} })
	r := e.run("task", "list")
	require.Regexp(t, `held +order v1 +pending, paused +0 .* waits: paused \(ada\)`, r.out)
	require.Regexp(t, `free +order v1 +pending +0`, r.out)
}

func TestAListSaysWhatTasksWaitFor(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"one", "two", "back", "key", "stuck", "runs", "done"} {
		e.submit(t, id)
	}
	running := func(steps ...*events.Step) func(*events.Task) {
		return func(t *events.Task) { t.State, t.Steps = events.TaskStateProcessing, steps }
	}
	const later = events.Instant(4_000_000_000_000)
	e.Change("one", &events.StepStarted{}, running())
	e.Waiting = map[string][]events.ReadyKey{"one": {{Agent: "stock", Path: "reserve", Operation: events.Do}}}
	e.Gone = []events.Missing{{Agent: "stock", Operation: events.Do, Since: 5}}
	e.Change("two", &events.StepStarted{}, running(&events.Step{Path: "nap", State: events.StepStateWaiting, Wait: &events.Wait{Until: later}},
		&events.Step{Path: "ask", State: events.StepStateWaiting, Wait: &events.Wait{Signals: []string{"yes"}}}))
	e.Change("back", &events.CancelRequested{}, func(t *events.Task) {
		t.State, t.Reason, t.QuietAt = events.TaskStateUndoing, "cancelled", later
		t.Steps = []*events.Step{{Path: "reserve", State: events.StepStateTimedOut}}
	})
	e.PutLimit(t, "concurrency/payment/c-17", 1, events.Permit{GrantedAt: 1, Link: events.Link{Task: "runs", Run: 1, N: 1}})
	e.Change("key", &events.PermitAsked{}, func(t *events.Task) {
		t.Permit = &events.TaskPermit{Concurrency: events.Concurrency{Limit: "concurrency/payment/c-17", Max: 1}, N: 1, State: events.PermitStateAsked}
	})
	e.Park("stuck", "no lamp")
	e.Change("runs", &events.StepStarted{}, running(&events.Step{Path: "reserve", State: events.StepStateRunning}))
	e.Finish("done")
	r := e.run("task", "list")
	require.Equal(t, 0, r.code, r.err)
	for id, want := range map[string]string{
		"one": `waits: reserve: agent \(do of agent stock: no live instance offers it\)`, "two": `waits: nap: sleep until 2096-10-02T07:06:40.000Z, and 1 more`,
		"back": `cancelled; waits: quiet until 2096-10-02T07:06:40.000Z`, "key": `waits: concurrency \(payment/c-17\)`, "stuck": "no lamp", "runs": "", "done": "",
	} {
		require.Regexp(t, `(?m)^`+id+` .*Z *`+want+` *$`, r.out)
	}
	require.NotContains(t, e.run("task", "list", "-o", "json").out, "waiting_for", "it is answered only to who asks")
}

// Each second cell begins at the same column of the terminal: the first one and its spaces are 8 columns wide.
func TestTablesAlignWideCharacters(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"order-", "注文", "ｱ\u3099bｶ\u3099", "🚀", "é", "e\u0301", "❤\ufe0f", "👨\u200d👩"} {
		e.submit(t, id)
	}
	r := e.run("task", "list")
	require.Equal(t, 0, r.code, r.err)
	for id, spaces := range map[string]int{"order-": 2, "注文": 4, "ｱ\u3099bｶ\u3099": 5, "🚀": 6, "é": 7, "e\u0301": 7, "❤\ufe0f": 6, "👨\u200d👩": 4, "ID": 6} {
		found := false
		for line := range strings.Lines(r.out) {
			if rest, ok := strings.CutPrefix(line, id); ok {
				found = true
				require.Equal(t, spaces, len(rest)-len(strings.TrimLeft(rest, " ")), "%q in\n%s", id, r.out)
			}
		}
		require.True(t, found, id)
	}
}

// A table asks for the members that it shows, so that the engine does not read large tasks. JSON is the whole document.
func TestATableAsksForTheBriefForm(t *testing.T) {
	t.Parallel()
	var asked []string
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("fields"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.HeaderAPI, "v1")
		_, _ = w.Write([]byte(`{"tasks":[]}`))
	}))
	defer engine.Close()
	for _, format := range []string{"table", "json"} {
		r := run("task", "list", "--api", engine.URL, "-o", format)
		require.Equal(t, 0, r.code, r.err)
	}
	require.Equal(t, []string{"id,workflow,version,state,failure_count,submitted_at,updated_at,reason,paused,waiting_for,left", ""}, asked)
}

// A list that lacks a partition is printed, and does not look complete: a warning names the partition, and the exit code is 7.
// With --all, the command stops when only missing partitions are left.
func TestAnIncompleteListSaysSo(t *testing.T) {
	t.Parallel()
	var back bool
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(api.HeaderAPI, "v1")
		switch cursor := r.URL.Query().Get("cursor"); {
		case cursor == "":
			_, _ = w.Write([]byte(`{"tasks":[{"id":"x"}],"next":".~1.2~","missing":[{"partition":1,"reason":"taking-over"},{"partition":2,"reason":"stopped","detail":"a gap"}]}`))
		case back:
			_, _ = w.Write([]byte(`{"tasks":[{"id":"y"}]}`))
		default:
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"status":503,"detail":"Ask again."}`))
		}
	}))
	defer engine.Close()
	for _, args := range []string{"", "--all"} {
		for _, format := range []string{"table", "json", "jsonl"} {
			r := run(append(strings.Fields("task list -o "+format+" --api "+engine.URL), strings.Fields(args)...)...)
			require.Equal(t, 7, r.code, "%s %s", format, args)
			require.Contains(t, r.out, "x")
			require.Contains(t, r.err, "partition 1 (taking-over), partition 2 (stopped: a gap); continue later with --cursor .~1.2~")
		}
	}
	back = true
	r := run("task", "list", "--all", "-o", "jsonl", "--api", engine.URL)
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "{\"id\":\"x\"}\n{\"id\":\"y\"}\n", r.out)
}

// task get says how the child stands for which a task waits, and names it alone if it cannot be read.
func TestATaskThatWaitsForAChildShowsHowThatStands(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, id := range []string{"trip", "trip/hotel"} {
		e.submit(t, id)
	}
	waits := func(child string) func(t *events.Task) {
		return func(t *events.Task) {
			t.Steps = []*events.Step{{Path: "hotel", State: events.StepStateRunning, Attempt: 1, ByChild: &events.ChildState{Tries: []events.ChildTry{{Task: child, N: 1}}, AskedAt: 1000}}}
		}
	}
	e.Change("trip", &events.StepStarted{Step: "hotel"}, waits("trip/hotel"))
	e.Park("trip/hotel", "the hotel is closed")
	require.Contains(t, e.run("task", "get", "trip").out, "(trip/hotel, which is parked: the hotel is closed)")
	e.Change("trip", &events.StepStarted{Step: "hotel"}, waits("gone"))
	require.Contains(t, e.run("task", "get", "trip").out, "(gone)")
}

// An undone task of which an operator left something is not undone altogether, so the list says so as `task get` does.
func TestAListMarksATaskWithAnEffectLeft(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for id, left := range map[string]bool{"kept": true, "clean": false} {
		e.submit(t, id)
		e.Change(id, &events.TaskUndone{}, func(t *events.Task) {
			t.State = events.TaskStateUndone
			t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateUndone, Attempt: 1, Left: left,
				Undo: &events.UndoState{State: events.StepStateUndone, Attempt: 1, Skipped: left}}}
		})
	}
	r := e.run("task", "list")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?m)^kept +order v1 +undone \(effect left\) `, r.out)
	require.Regexp(t, `(?m)^clean +order v1 +undone  `, r.out)
	require.Contains(t, e.run("task", "get", "kept").out, "(effect left)")
	require.Contains(t, e.run("task", "list", "-o", "jsonl").out, `"left":true`)
}
