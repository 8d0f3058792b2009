package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// twoStops matches a sentence that ends twice. Every test of the command line looks for it.
var twoStops = regexp.MustCompile(`[^.][.?!]\.(\s|$)`)

type result struct {
	code     int
	out, err string
}

// deps validates like a scheduler: "bad" is a fault, and "unfit" one that only the engine finds.
var deps = cli.Deps{Version: "1.2.3", Commit: "c0ffee", Load: func(file string, data []byte) (*scheduler.Source, []scheduler.Fault) {
	if strings.Contains(string(data), "bad") {
		return nil, []scheduler.Fault{
			{File: file, Line: 3, Column: 5, Path: "steps.a", Message: "has no agent"},
			{File: file, Line: 9, Column: 1, Message: "is odd", Warning: true},
		}
	}
	if strings.Contains(string(data), "odd") {
		return &scheduler.Source{}, []scheduler.Fault{{File: file, Line: 1, Column: 1, Message: "is odd", Warning: true}}
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(string(data), "workflow: "), "\n")
	return &scheduler.Source{Workflow: name, Body: bytes.ReplaceAll(data, []byte("unfit"), []byte("bad"))}, nil
}, LoadAgents: func(file string, data []byte) ([]string, []scheduler.Fault) {
	if string(data) == "bad" {
		return nil, []scheduler.Fault{{File: file, Line: 3, Column: 1, Message: "has no kind"}}
	}
	return []string{"bank"}, nil
}}

func runContext(ctx context.Context, stdin string, args ...string) result {
	var out, err bytes.Buffer
	root := &cobra.Command{Use: "sagalog", Short: "An engine"}
	root.AddCommand(cli.Commands(deps)...)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&err)
	code := cli.Execute(ctx, root, args)
	if twoStops.MatchString(err.String()) {
		panic("a message ends with two full stops: " + err.String())
	}
	return result{code, out.String(), err.String()}
}

func run(args ...string) result { return runContext(context.Background(), "", args...) }

// engine is an engine behind a socket; its call adds --api.
type engine struct {
	*apitest.Engine
	url string
}

func setup(t *testing.T, change ...func(*api.Config)) *engine {
	e := apitest.New()
	return &engine{e, e.Serve(t, change...)}
}

func (e *engine) run(args ...string) result { return run(append(args, "--api", e.url)...) }

func (e *engine) pipe(stdin string, args ...string) result {
	return runContext(context.Background(), stdin, append(args, "--api", e.url)...)
}

func (e *engine) submit(t *testing.T, id string) {
	t.Helper()
	r := e.run("task", "submit", "-w", "order", "--id", id, "--input", `{"item":"lamp"}`)
	require.Equal(t, 0, r.code, r.err)
}

func TestAWrongCallIsNamedAndExits2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		says string
	}{
		{"taks", `unknown command "taks" for "sagalog"; did you mean "task"?`},
		{"taks list --state x", `unknown command "taks" for "sagalog"; did you mean "task"?`},
		{"task lst", `unknown command "lst" for "sagalog task"; did you mean "list"?`},
		{"task sbmit --id x", `did you mean "submit"?`},
		{"task --api http://x lst", `unknown command "lst" for "sagalog task"`},
		{"workflow aply", `did you mean "apply"?`},
		{"dlq redive", `did you mean "redrive"?`},
		{"demo brk", `unknown command "brk" for "sagalog demo"; did you mean "break"?`},
		{"help taks", `unknown command "taks"`},
		{"completion bsh", `did you mean "bash"?`},
		{"task", "Available Commands"},
		{"task list --stat error", `unknown flag --stat for "sagalog task list"; did you mean "--state"?`},
		{"task list -q", `unknown flag -q for "sagalog task list"`},
		{"task list --limit x", `sagalog task list: --limit "x" is not possible: give a whole number, such as 10`},
		{"task list --limit 99999999999999999999", `--limit "99999999999999999999" is not possible: give a whole number`},
		{"task list --workflow order@7", `"order@7" is not the name of a workflow: the name is order; where a version counts, give --version 7`},
		{"task submit --workflow order@7", "give --version 7"},
		{"workflow show order@7", "give --version 7"},
		{"workflow preview order@7", "give --version 7"},
		{"task get", "accepts 1 arg"},
		{"task list extra", "unknown command"},
		{"task list -o jso", `did you mean "json"?`},
		{"task list --api ftp://x", "is not a URL"},
		{"task submit", "--workflow is required"},
		{"task submit -w order --input {", "--input is not JSON: unexpected"},
		{"task signal x go --payload {", "--payload is not JSON: unexpected"},
		{"task complete x --step a --result tru", "--result is not JSON: "},
		{"task submit -w order --input @/dev/null", "/dev/null is empty"},
		{"task submit -w order --label x", "is not key:value"},
		{"task submit -w order --id ..", "cannot be used in a URL"},
		{"task submit --from x --wait", "--wait cannot be combined with it"},
		{"task get x --wait --timeout 0s", "--timeout must be positive"},
		{"demo break drone --mode hung", `did you mean "hang"?`},
		{"--nope", "unknown flag --nope"},
	} {
		r := run(strings.Fields(c.args)...)
		require.Equal(t, 2, r.code, c.args)
		require.Contains(t, r.err, c.says, c.args)
		require.Empty(t, r.out, c.args)
	}
	r := run("task", "lst")
	require.Contains(t, r.err, "Run 'sagalog task --help'")
	require.Equal(t, 0, run().code)
	require.Contains(t, run().out, "Available Commands")
	require.Equal(t, 0, run("help", "task", "submit").code)
	require.Contains(t, run("task", "submit", "--help").out, "[$SAGALOG_RETRY_FOR]")
	require.Contains(t, run("__complete", "task", "list", "--state", "").out, "processing")
	require.Contains(t, run("completion", "bash").out, "bash completion")
}

func TestAnAPIThatDoesNotAnswerIsReported(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String()
	l.Close()
	for _, args := range [][]string{{"task", "list"}, {"task", "get", "x"}, {"task", "watch", "x"}, {"task", "submit", "--from", "-", "--retry-for", "1ms"}} {
		r := runContext(context.Background(), `{"workflow":"order"}`, append(args, "--api", url)...)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, "no engine answers at "+url+": is its node running there, and is --api its address? `sagalog serve --brokers HOST:PORT` starts a node (")
		require.NotContains(t, r.err, "sagalog dev", "an empty engine must not take what was meant for another one")
	}
}

func TestEveryFlagHasAVariable(t *testing.T) {
	e := apitest.New()
	t.Setenv("SAGALOG_API", e.Serve(t))
	t.Setenv("SAGALOG_OUTPUT", "jsonl")
	r := run("task", "list")
	require.Equal(t, 0, r.code, r.err)
	require.Empty(t, r.out)
	r = run("task", "list", "-o", "json")
	require.Equal(t, "[]\n", r.out, "an explicit flag wins")
	t.Setenv("SAGALOG_LIMIT", "many")
	r = run("task", "list")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `SAGALOG_LIMIT="many"`)
}

func TestSubmittingATask(t *testing.T) {
	t.Parallel()
	e := setup(t)
	file := filepath.Join(t.TempDir(), "in.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"item":"lamp"}`), 0o600))
	args := []string{"task", "submit", "-w", "order", "--id", "a/b c", "--input", "@" + file, "--label", "region=north", "--label", "k:v", "--priority", "3", "--deadline", "10m", "--version", "1"}
	r := e.run(append(args, "-o", "jsonl")...)
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^{"id":"a/b c","partition":\d,"offset":0,"token":"[\w-]+"}\n$`, r.out)
	in := e.Inputs(events.Submissions)
	require.JSONEq(t, `{"id":"a/b c","workflow":"order","version":1,"input":{"item":"lamp"},"priority":3,"labels":{"region":"north","k":"v"},"deadline":"10m"}`, string(in[0].Value))
	r = e.run(args...)
	require.Equal(t, 0, r.code, "a repeat succeeds")
	require.Contains(t, r.out, "known")
	r = e.run("task", "submit", "-w", "order", "--id", "a/b c", "--input", `{"item":"desk"}`)
	require.Equal(t, 4, r.code)
	r = e.pipe(`{"item":"x"}`, "task", "submit", "-w", "order", "--input", "-")
	require.Equal(t, 0, r.code, r.err)
	r = e.run("task", "submit", "-w", "ordr")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, `did you mean "order"?`)
	r = e.run("task", "submit", "-w", "order", "--input", `{"item":5}`)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "/input/item: must be a text")
}

func TestWaitingForTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, state string
		code        int
		end         func(e *engine)
	}{
		{"processed", "processed", 0, func(e *engine) { e.Finish("x") }},
		{"parked", "error", 6, func(e *engine) { e.Park("x", "drone broken") }},
		{"undone", "undone", 6, func(e *engine) {
			e.Change("x", &events.TaskUndone{}, func(t *events.Task) { t.State = events.TaskStateUndone })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			got := make(chan result)
			watched := e.Watched()
			go func() {
				got <- e.run("task", "submit", "-w", "order", "--id", "x", "--input", `{"item":"x"}`, "--wait", "-o", "json")
			}()
			<-watched
			c.end(e)
			r := <-got
			require.Equal(t, c.code, r.code, r.err)
			require.Contains(t, r.out, fmt.Sprintf(`"state": %q`, c.state))
		})
	}
	e := setup(t)
	e.submit(t, "x")
	r := e.run("task", "get", "x", "--wait", "--timeout", "50ms")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.out, "pending")
	require.Contains(t, r.err, "still pending")
	require.Equal(t, 3, e.run("task", "get", "nope").code)

	slow := setup(t)
	slow.Manual = true
	r = slow.run("task", "submit", "-w", "order", "--id", "x", "--input", `{"item":"x"}`, "--wait", "--timeout", "100ms")
	require.Equal(t, 5, r.code, r.err)
}

func TestTheTablesAreAsInTheGoldenFile(t *testing.T) {
	t.Parallel()
	e := setup(t, func(c *api.Config) { c.Node = "node-a" })
	for _, id := range []string{"a", "b", "c"} {
		e.submit(t, id)
	}
	e.Change("b", &events.StepFailed{Step: "reserve", Attempt: 1, Error: events.Error{Message: "busy"}, Verdict: events.Verdict{Action: events.ActionRetry, Reason: "attempt 1 of 5 failed: busy"}},
		func(t *events.Task) {
			t.State, t.FailureCount = events.TaskStateProcessing, 1
			t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateWaiting, Attempt: 1, FailureCount: 1,
				Error: &events.Error{Class: events.ClassRetryable, Message: "busy\x1b[31m"}}}
		})
	e.Change("b", &events.InputRejected{Reason: events.RejectRefused, Detail: "nothing can be retried"}, func(*events.Task) {})
	e.Park("b", "no lamp")
	deadline := events.At(time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC))
	e.Change("b", &events.DeadlinePassed{Deadline: deadline, Action: events.DeadlineAlert}, func(t *events.Task) { t.Deadline = deadline })
	e.Finish("c")
	e.submit(t, "d")
	e.Change("d", &events.TaskUndone{}, func(t *events.Task) {
		t.State = events.TaskStateUndone
		t.Steps = []*events.Step{{Path: "reserve", Agent: "stock", State: events.StepStateUndone, Attempt: 1, Left: true, Undo: &events.UndoState{State: events.StepStateUndone, Attempt: 1, Skipped: true}}}
	})
	e.Bury(events.Submissions, events.Record{Partition: 2, Offset: 9, Key: []byte("z"), Value: []byte(`{"workflow":"x"}`), Headers: []events.Header{{Key: "team", Value: []byte("red")}}}, "unknown_workflow")
	e.SetAlerts([]api.Alert{late, missingBank}, []events.Record{
		record(0, supervisor.Alert{Kind: supervisor.AlertUndone, Task: "y", Reason: "no lamp", Time: deadline}), record(1, supervisor.Alert{Kind: supervisor.AlertMissing, Agent: "bank", Operation: events.Do, Time: deadline}),
	})
	var all strings.Builder
	for _, args := range []string{
		"task list", "task list --limit 1", "task list --state error -o jsonl", "task get b", "task history b", "task get a --at 0@0", "workflow list", "workflow show order", "agents list",
		"partitions list", "partitions takeovers 0", "nodes list", "task count --by reason --state parked", "dlq list", "dlq show submissions-2-0", "task list --limit 2 --all --label x=y -o json",
		"alert ack " + missingBank.ID + " --by ada", "alert list --kind agent_missing", "alert list --kind deadline_passed", "alert list --open=false", "alert list --open=false --kind undone -o jsonl",
	} {
		r := e.run(strings.Fields(args)...)
		require.Equal(t, 0, r.code, r.err)
		fmt.Fprintf(&all, "$ sagalog %s\n%s%s\n", args, r.out, r.err)
	}
	golden(t, "tables", all.String())
}

func golden(t *testing.T, name, got string) {
	file := filepath.Join("testdata", name+".golden")
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestWatchingATask(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	got := make(chan result)
	watched := e.Watched()
	go func() { got <- e.run("task", "watch", "x") }()
	<-watched
	e.Change("x", &events.StepStarted{Step: "reserve", Attempt: 1}, func(t *events.Task) { t.State = events.TaskStateProcessing })
	e.Finish("x")
	r := <-got
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?s)Submitted.*StepStarted +reserve +1.*TaskProcessed`, r.out)
	require.Equal(t, 3, e.run("task", "watch", "nope").code)

	e.submit(t, "y")
	// On a slow machine the connection alone may use up the time, so the time is doubled until the event arrives in it.
	for limit := 50 * time.Millisecond; ; limit *= 2 {
		r = e.run("task", "watch", "y", "--timeout", limit.String(), "-o", "jsonl")
		require.Equal(t, 5, r.code)
		if strings.Contains(r.out, `"type":"Submitted"`) {
			break
		}
		require.Less(t, limit, 30*time.Second, "earlier events are shown")
	}

	ctx, interrupt := context.WithCancel(context.Background())
	watched = e.Watched()
	go func() { got <- runContext(ctx, "", "task", "watch", "y", "--api", e.url) }()
	<-watched
	interrupt()
	r = <-got
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "stopped watching")
}

func TestAWatchContinuesWhereItBroke(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	url, stop := e.Start(t)
	addr := strings.TrimPrefix(url, "http://")
	x := &engine{e, url}
	x.submit(t, "x")
	got := make(chan result)
	watched := e.Watched()
	go func() { got <- x.run("task", "watch", "x", "-o", "jsonl") }()
	<-watched
	stop()
	_, again := e.Start(t, func(c *api.Config) { c.Addr = addr })
	defer again()
	e.Finish("x")
	r := <-got
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, 1, strings.Count(r.out, `"type":"Submitted"`), "nothing twice")
	require.Equal(t, 1, strings.Count(r.out, `"type":"TaskProcessed"`))
}

func TestApplyingAndValidatingWorkflows(t *testing.T) {
	t.Parallel()
	e := setup(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	fine, bad := write("fine.yaml", "workflow: fine\n"), write("bad.yaml", "bad")
	r := run("workflow", "validate", bad, fine)
	require.Equal(t, 1, r.code)
	require.Equal(t, bad+":3:5: steps.a: has no agent\n"+bad+":9:1: warning: is odd\n", r.out)
	require.Contains(t, r.err, "1 fault")
	r = run("workflow", "validate", bad, "-o", "jsonl")
	require.Contains(t, r.out, `"line":3,"column":5`)
	r = runContext(context.Background(), "workflow: x\n", "workflow", "validate", "-")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.err, "valid: -")
	require.Equal(t, 1, run("workflow", "validate", "/nope").code)

	r = e.run("workflow", "apply", fine, bad)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "nothing is applied: 1 fault")
	require.Equal(t, 3, e.run("workflow", "show", "fine").code)
	r = e.run("workflow", "apply", "--dry-run", fine)
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, 3, e.run("workflow", "show", "fine").code)
	r = e.run("workflow", "apply", fine)
	require.Equal(t, "WORKFLOW  VERSION  CHANGED\nfine      1        yes\n", r.out)
	require.Contains(t, e.run("workflow", "apply", fine).out, "no")
	require.Equal(t, 2, e.run("workflow", "delete", "fine@x").code)
	require.Equal(t, 3, e.run("workflow", "delete", "fine@2").code)
	require.Equal(t, "WORKFLOW  DELETED VERSIONS\nfine      1\n", e.run("workflow", "delete", "fine@1", "-y").out)
	require.Equal(t, 3, e.run("workflow", "delete", "fine").code)
}

func TestDeadLettersAndTheExample(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.Bury(events.Submissions, events.Record{Partition: 2, Key: []byte("z"), Value: []byte(`{"workflow":"order","input":{"item":"x"}}`)}, "unknown_workflow")
	refused := e.run("dlq", "redrive", "submissions-2-9")
	require.Empty(t, refused.out, "no table without a row")
	require.Equal(t, 3, refused.code, refused.err)

	r := e.run("dlq", "redrive", "submissions-2-0", "submissions-2-9")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.out, "z ")
	require.Contains(t, r.err, "submissions-2-9")
	r = e.run("demo", "break", "drone", "--mode", "hang", "--for", "5s")
	require.Equal(t, 0, r.code, r.err)
	b, _ := e.Broken("drone")
	require.Equal(t, api.Breakage{Service: "drone", Mode: "hang", For: 5 * time.Second}, b)
	require.Equal(t, 0, e.run("demo", "fix").code)
	require.Equal(t, 2, e.run("demo", "break", "dron").code)
	none := setup(t, func(c *api.Config) { c.Demo = nil })
	require.Contains(t, none.run("demo", "fix").err, "runs no example")
	require.Contains(t, run("version").out, "sagalog 1.2.3 (commit c0ffee, go")
	require.Contains(t, run("version", "-o", "json").out, "\"version\": \"1.2.3\",\n  \"commit\": \"c0ffee\"")
}
