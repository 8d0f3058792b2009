package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// small is a run that takes about a second.
func small(t *testing.T) Config {
	return Config{Dir: t.TempDir(), Duration: 500 * time.Millisecond, Latency: Latency{Fixed: time.Millisecond}, Partitions: 4}
}

// counted is a small run that ends after a number of tasks, however busy the machine is.
func counted(t *testing.T) Config {
	c := small(t)
	c.Duration = longEnough
	return c
}

// longEnough is more than any run takes that ends after a number of tasks.
const longEnough = 10 * time.Minute

// members returns what -o json prints.
func members(t *testing.T, r *Result) map[string]any {
	t.Helper()
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(b, &m))
	return m
}

func requireMembers(t *testing.T, r *Result, names ...string) {
	t.Helper()
	m := members(t, r)
	for _, n := range names {
		require.Contains(t, m, n)
	}
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Contains(t, table.String(), "0 lost, 0 doubled")
}

// requireP99 checks a figure that needs a number of samples, which depends on the speed of the machine.
func requireP99(t *testing.T, r *Result, name string, samples *int64) {
	t.Helper()
	require.NotNil(t, samples)
	if m := members(t, r); *samples < leastForP99 {
		require.NotContains(t, m, name)
	} else {
		require.Contains(t, m, name)
	}
}

func TestTasksInAClosedLoopAreAllAccountedFor(t *testing.T) {
	t.Parallel()
	var r *Result
	for range 5 { // a machine that is busy with other work may end no task in the measured second
		var err error
		r, err = Tasks(t.Context(), &TasksConfig{Config: small(t), Outstanding: 20})
		require.NoError(t, err)
		if r.Tasks > 0 {
			break
		}
	}
	require.Positive(t, r.Checked)
	require.EqualValues(t, r.Checked*int64(len(steps)), r.Calls)
	require.LessOrEqual(t, r.Tasks, r.Checked)
	require.EqualValues(t, 0, r.Backlog)
	requireMembers(t, r, "tasks_per_second", "cpu_us_per_task", "steps_per_second", "cpu_us_per_step", "e2e_samples", "e2e_p50_ms", "e2e_max_ms", "submit_p50_ms", "ack_p50_ms",
		"ack_samples", "ack_max_ms", "facts_per_second", "log_bytes_per_task", "state_bytes_per_task", "broker_bytes_per_task",
		"allocations_per_task", "lost", "doubled", "unfinished", "timeouts", "dropped", "durability", "disturbed", "disturbed_share", "seconds", "samples")
	requireP99(t, r, "e2e_p99_ms", r.E2ESamples)
	requireP99(t, r, "ack_p99_ms", r.AckSamples)
}

func TestTasksInAnOpenLoopWithATailAndSlowBackends(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.Duration = time.Second
	c.Latency = Latency{TailShare: 0.2, Tail: 20 * time.Millisecond, SlowAfter: 500 * time.Millisecond, SlowFactor: 2}
	r, err := Tasks(t.Context(), &TasksConfig{Config: c, Rate: 100})
	require.NoError(t, err)
	require.Zero(t, r.Lost+r.Doubled+r.Unfinished)
	requireMembers(t, r, "e2e_without_tail_p50_ms", "e2e_without_tail_max_ms", "rate_asked_per_second", "rate_sent_per_second", "rate_reached")
	require.NotContains(t, members(t, r), "e2e_without_tail_p99_ms", "it would be about only 33 tasks")
	require.Contains(t, strings.Join(r.Notes, "\n"), "end to end of tasks that met no tail p99: left out")
}

func TestTasksWithPermitsAskForOneEach(t *testing.T) {
	t.Parallel()
	const tasks = 50
	c := counted(t)
	r, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 10, Tasks: tasks, Permits: true})
	require.NoError(t, err)
	require.EqualValues(t, tasks, r.Checked)
	require.Contains(t, r.Load, "each task with a permit")
	require.GreaterOrEqual(t, r.Facts, int64(tasks*(factsOfTask+2)), "each asks for a permit, and the limit decides")
}

// The check of a run of tasks with items counts calls, attempts and completions by item.
func TestTheItemsOfTasksAreAllAccountedFor(t *testing.T) {
	t.Parallel()
	const tasks, items = 6, 30
	r, err := Tasks(t.Context(), &TasksConfig{Config: counted(t), Tasks: tasks, Items: items})
	require.NoError(t, err)
	require.EqualValues(t, tasks, r.Checked)
	require.EqualValues(t, tasks*items, r.Calls)
	require.Contains(t, r.Load, "33 tasks outstanding, each task with 30 items")
	requireMembers(t, r, "log_bytes_per_item")
	require.Greater(t, r.ItemBytes, 400.0, "an item starts and completes")
	require.Less(t, r.ItemBytes*items, r.LogBytes, "the task has facts too")
}

func TestARunEndsAfterTheAskedTasks(t *testing.T) {
	t.Parallel()
	c := counted(t)
	r, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 10, Tasks: 50})
	require.NoError(t, err)
	require.EqualValues(t, 50, r.Checked)
}

// The figures of a run do not include those of an earlier run in the same data.
func TestAnEarlierRunInTheSameDataIsNotCounted(t *testing.T) {
	t.Parallel()
	c := counted(t)
	const tasks = 100
	first, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 20, Tasks: tasks})
	require.NoError(t, err)
	require.Zero(t, first.RecordsBefore)
	again, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 20, Tasks: tasks})
	require.NoError(t, err)
	require.GreaterOrEqual(t, again.RecordsBefore, int64(tasks*factsOfTask))
	require.InEpsilon(t, first.Facts, again.Facts, 0.05)
	require.InEpsilon(t, first.LogBytes, again.LogBytes, 0.05)
	require.InEpsilon(t, first.BrokerBytes, again.BrokerBytes, 0.3, "the more tasks there are, the smaller is the fixed part")
	require.Contains(t, strings.Join(again.Notes, "\n"), "an earlier log was there")
}

func TestARateThatIsNotReachedIsReported(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.Latency, c.Concurrency = Latency{Fixed: 20 * time.Millisecond}, 1
	r, err := Tasks(t.Context(), &TasksConfig{Config: c, Rate: 400})
	require.NoError(t, err)
	require.NotNil(t, r.RateReached)
	require.False(t, *r.RateReached)
	require.InDelta(t, 400, r.RateAsked, 0)
	require.Positive(t, *r.E2ESamples)
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Contains(t, table.String(), "the rate was NOT REACHED")
}

func TestARateIsReachedWithoutTasksStillUnderWay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		acked, ended int64
		reached      bool
	}{{1000, 1000, true}, {930, 930, true}, {920, 1000, false}, {1000, 920, false}, {0, 0, false}} {
		b := &bench{rate: 100, acked: tt.acked}
		b.result.Seconds = 10
		b.fillRate(&tt.ended)
		require.Equal(t, tt.reached, *b.result.RateReached, tt)
		require.Equal(t, !tt.reached, len(b.result.Notes) == 1, tt)
	}
	closed := new(bench)
	closed.result.Seconds = 10
	closed.fillRate(nil)
	require.Nil(t, closed.result.RateReached, "a closed loop has no target rate")
}

func TestAFigureWithoutSamplesSaysWhy(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "end to end: left out", 99: "end to end p99: left out; there are 99 samples", 100: ""} {
		b := &bench{system: &system{cfg: new(Config)}, due: new(table[int64])}
		b.load, b.watch = newLoad(b.names, time.Now()), newWatcher(b.names, time.Now(), b.due)
		for range n {
			b.watch.latency.add(time.Second)
		}
		b.fillLatencies(evidence{ends: true})
		require.EqualValues(t, n, *b.result.E2ESamples)
		require.Equal(t, n >= 100, b.result.E2EP99 > 0)
		require.Equal(t, n > 0, b.result.E2EMax > 0)
		require.Contains(t, strings.Join(b.result.Notes, "\n"), want)
		require.Equal(t, want == "", len(b.result.Notes) == 0)
		require.Contains(t, members(t, &b.result), "e2e_samples")
	}
}

func TestCtrlCPrintsTheFiguresSoFar(t *testing.T) {
	t.Parallel()
	c := small(t)
	c.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = afterWrites(2, cancel)
	r, err := Tasks(ctx, &TasksConfig{Config: c, Outstanding: 5})
	require.NoError(t, err)
	require.True(t, r.Interrupted)
	require.Positive(t, r.Checked)
	require.Zero(t, r.Lost+r.Doubled+r.Unfinished)
}

// afterWrites calls f after n lines of progress.
func afterWrites(n int, f func()) writes { return writes{left: &n, f: f} }

type writes struct {
	left *int
	f    func()
}

func (w writes) Write(p []byte) (int, error) {
	if *w.left--; *w.left == 0 {
		w.f()
	}
	return len(p), nil
}

func TestTemporaryDataIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	c := small(t)
	c.Dir = ""
	_, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 5})
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A directory that someone else uses is left unchanged.
func TestADirectoryOfOthersIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	c := small(t)
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "LOCK"), []byte("mine"), 0o600))
	_, err := Tasks(t.Context(), &TasksConfig{Config: c, Tasks: 1})
	require.ErrorIs(t, err, errForeign)
	require.ErrorContains(t, err, "--data "+c.Dir)
	_, err = Replay(t.Context(), &ReplayConfig{Config: c, Facts: 600})
	require.ErrorContains(t, err, "--copy")
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	text, err := os.ReadFile(filepath.Join(c.Dir, "LOCK"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

// others creates a namespace with someone else's workflow on a broker, and returns how to reach the broker.
func others(t *testing.T, namespace, workflow string) (reach kafka.ClusterConfig, facts func() kafka.Offsets) {
	t.Helper()
	broker, err := embedded.Open(embedded.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	cluster, err := kafka.Connect(broker.ClusterConfig())
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	n, err := node.Open(t.Context(), node.Config{Cluster: cluster, Namespace: namespace, Name: "theirs", Dir: t.TempDir(), Partitions: 1})
	require.NoError(t, err)
	if workflow != "" {
		_, faults, err := n.ApplyFile(t.Context(), "theirs.yaml", []byte("workflow: "+workflow+"\nsteps: {one: {agent: one}}\n"), nil)
		require.NoError(t, err)
		require.Empty(t, faults)
	}
	require.NoError(t, n.Close())
	return broker.ClusterConfig(), func() kafka.Offsets {
		ends, err := cluster.EndOffsets(t.Context(), kafka.Partitions{namespace + ".events": {0}, namespace + ".definitions": {0}, namespace + ".submissions": {0}})
		require.NoError(t, err)
		return ends
	}
}

func TestANamespaceOfOthersIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	for _, workflow := range []string{"orders", "bench", ""} {
		t.Run(workflow, func(t *testing.T) {
			t.Parallel()
			reach, ends := others(t, "prod", workflow)
			before := ends()
			c := small(t)
			c.Cluster, c.Namespace = &reach, "prod"
			_, err := Tasks(t.Context(), &TasksConfig{Config: c, Tasks: 1})
			require.ErrorIs(t, err, errForeign)
			require.ErrorContains(t, err, "--namespace prod")
			_, err = Replay(t.Context(), &ReplayConfig{Config: c, Facts: 600})
			require.ErrorContains(t, err, "--copy")
			ours, err := agentsIn(t, reach, "prod")
			require.False(t, ours, "agents wait")
			if workflow != "" {
				require.ErrorIs(t, err, errForeign)
			}
			ours, err = agentsIn(t, reach, "not-there")
			require.False(t, ours)
			require.NoError(t, err)
			require.Equal(t, before, ends())
		})
	}
}

func TestANamespaceOfABenchmarkIsTakenAgain(t *testing.T) {
	t.Parallel()
	reach, _ := others(t, "prod", "orders")
	for range 2 {
		c := small(t)
		c.Cluster, c.Namespace, c.Duration = &reach, "bench-1", longEnough
		r, err := Tasks(t.Context(), &TasksConfig{Config: c, Outstanding: 5, Tasks: 20})
		require.NoError(t, err)
		require.EqualValues(t, 20, r.Checked)
	}
	ours, err := agentsIn(t, reach, "bench-1")
	require.True(t, ours)
	require.NoError(t, err)
}

// agentsIn says whether agents would work for a namespace.
func agentsIn(t *testing.T, reach kafka.ClusterConfig, namespace string) (bool, error) {
	c, err := kafka.Connect(reach)
	require.NoError(t, err)
	defer c.Close()
	return refuseForeign(t.Context(), c, namespace)
}

func TestEachWayOfSubmittingIsAccountedFor(t *testing.T) {
	t.Parallel()
	for _, via := range Vias {
		for _, rate := range []float64{0, 300} {
			t.Run(via, func(t *testing.T) {
				t.Parallel()
				r := submitted(t, SubmitConfig{Via: via, Rate: rate, Closed: true, Outstanding: 100, Connections: 2})
				require.GreaterOrEqual(t, r.Checked, r.Submissions)
				require.Zero(t, r.Dropped)
				require.Equal(t, r.Checked, r.Backlog, "no task ends while admission is closed")
				requireMembers(t, r, "submissions_per_second", "dropped", "lost", "doubled")
				if rate == 0 { // at a rate, all submissions that are due in so short a time may be answered after it
					requireMembers(t, r, "ack_p50_ms", "ack_max_ms")
					requireP99(t, r, "ack_p99_ms", r.AckSamples)
				}
			})
		}
	}
}

// submitted runs a benchmark of submissions. A process with too little CPU may get no answer within the measured time,
// so it is then run again for longer.
func submitted(t *testing.T, c SubmitConfig) *Result {
	t.Helper()
	for d := small(t).Duration; ; d *= 8 {
		c.Config = small(t)
		c.Duration = d
		r, err := Submit(t.Context(), &c)
		require.NoError(t, err)
		if r.Submissions > 0 {
			return r
		}
		require.Less(t, d, time.Minute, "no submission was acknowledged")
	}
}

func TestABurstWhileTasksRunIsAccountedFor(t *testing.T) {
	t.Parallel()
	r, err := Submit(t.Context(), &SubmitConfig{Config: small(t), Via: ViaKafka, Rate: 1000, Burst: 300 * time.Millisecond, Outstanding: 10})
	require.NoError(t, err)
	require.Positive(t, r.Submissions)
	require.Zero(t, r.Dropped+r.Lost+r.Doubled)
}

func TestABacklogIsAccountedFor(t *testing.T) {
	t.Parallel()
	c := small(t)
	r, err := Backlog(t.Context(), &BacklogConfig{Config: c, Tasks: 1200})
	require.NoError(t, err)
	require.EqualValues(t, 1200, r.Checked)
	require.EqualValues(t, 1200, r.Backlog)
	requireMembers(t, r, "backlog_tasks", "heap_live_mib", "samples")
	require.Contains(t, strings.Join(r.Notes, "\n"), "rise of the memory: left out")

	again, err := Backlog(t.Context(), &BacklogConfig{Config: c, Tasks: 1500})
	require.NoError(t, err)
	require.EqualValues(t, 1500, again.Backlog, "the backlog of the earlier run does not count")
}

func TestALogIsReplayedToTheSameState(t *testing.T) {
	t.Parallel()
	c := small(t)
	r, err := Replay(t.Context(), &ReplayConfig{Config: c, Facts: 600})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Facts, int64(600), "all facts in the log")
	require.Positive(t, r.Folded, "the last facts may not be in the state")
	if r.Folded < r.Facts {
		require.Contains(t, strings.Join(r.Notes, "\n"), fmt.Sprintf("%d facts at the end of the log", r.Facts-r.Folded))
	}
	require.EqualValues(t, 4, r.HashesEqual)
	requireMembers(t, r, "fold_facts_per_second", "rebuild_facts_per_second", "ready_from_nothing_ms", "ready_from_checkpoint_ms")

	again, err := Replay(t.Context(), &ReplayConfig{Config: c, Facts: 600})
	require.NoError(t, err)
	require.Positive(t, again.Facts)
	require.Nil(t, again.Verdict, "this run does not know what was submitted")
	b, err := json.Marshal(again)
	require.NoError(t, err)
	require.NotContains(t, string(b), "lost")
	require.NoError(t, again.Print(io.Discard))
	require.EqualValues(t, 4, again.HashesEqual, "an existing log is used")
}

func TestWrongConfigurationsAreRefusedAllAtOnce(t *testing.T) {
	t.Parallel()
	err := (&TasksConfig{Config: Config{Agents: AgentsRunning, Partitions: 2000}, Outstanding: 1, Rate: 1}).Validate()
	for _, part := range []string{"--partitions", "--brokers", "--outstanding"} {
		require.ErrorContains(t, err, part)
	}
	require.ErrorContains(t, (&SubmitConfig{Via: "fax"}).Validate(), "fax")
	require.ErrorContains(t, (&SubmitConfig{Via: ViaKafka, Burst: time.Second}).Validate(), "--burst")
	require.ErrorContains(t, (&BacklogConfig{}).Validate(), "--tasks")
	require.ErrorContains(t, (&ReplayConfig{}).Validate(), "--facts")
	require.ErrorContains(t, (&TakeoverConfig{Config: Config{Partitions: 1}, Rate: 1, Kills: 1}).Validate(), "--partitions")
	require.NoError(t, (&TasksConfig{}).Validate())
}
