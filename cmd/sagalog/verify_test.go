package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

func reportOf(t *testing.T, p *program) verify.Report {
	t.Helper()
	var r verify.Report
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &r), p.out.String())
	return r
}

// A running engine is verified from its brokers, and a stopped one from its data directory. If a record is lost, the
// verdict is "refuted". If a part cannot be read, nothing is proved.
func TestVerifyOfARunningAndAStoppedEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	at := place{dir: t.TempDir()}
	dev := at.start(t, "dev", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--partitions", "2", "--quiet")
	data := filepath.Join(at.dir, "sagalog-data")
	e := dev.endpoints(data)
	var page struct {
		Tasks []struct {
			ID string `json:"id"`
		} `json:"tasks"`
	}
	dev.eventually("a task of the example is processed", func() bool {
		return get(t, e.HTTP+"/v1/tasks?state=processed", &page) == http.StatusOK && len(page.Tasks) > 0
	})
	task := page.Tasks[0].ID

	running := at.run(t, "verify", "--brokers", e.Kafka, "--api", e.HTTP, "-o", "json")
	require.Equal(t, 0, running.code(), running.out.String())
	r := reportOf(t, running)
	require.Equal(t, verify.Proved, r.Verdict)
	require.Equal(t, 2, r.Counts.Stores)
	require.Positive(t, r.Counts.Work.Records)

	verifyBesideIt(t, at, data, e)
	asked := at.run(t, "task", "history", task, "-o", "json", "--api", e.HTTP)
	require.Equal(t, 0, asked.code(), asked.err.String())
	require.Equal(t, 0, dev.stop())
	historyFromLog(t, at, data, task, asked.out.String())

	ledgers := filepath.Join(data, "demo")
	stopped := at.run(t, "verify", "--data", data, "--ledgers", ledgers, "-o", "json")
	require.Equal(t, 0, stopped.code(), stopped.out.String())
	require.Positive(t, reportOf(t, stopped).Counts.Ledgers.Calls)

	story := at.run(t, "verify", "--data", data, "--task", task)
	require.Equal(t, 0, story.code())
	for _, says := range []string{"Submitted", "StepCompleted", "TaskProcessed", "it ended at", "proved     undo"} {
		require.Contains(t, story.out.String(), says)
	}

	acks := filepath.Join(at.dir, "acks.ndjson")
	require.NoError(t, os.WriteFile(acks, []byte(task+"\n{\"id\":\"lost-1\",\"partition\":0,\"offset\":4000}\n"), 0o600))
	lost := at.run(t, "verify", "--data", data, "--acknowledged", acks)
	require.Equal(t, 1, lost.code())
	require.Contains(t, lost.out.String(), `sagalog.submissions/0@4000: task "lost-1": the submission was acknowledged at this place, but the topic ends at offset`)
	require.Contains(t, lost.err.String(), "refuted: 1 finding")

	rotten := filepath.Join(at.dir, "rotten")
	require.NoError(t, os.CopyFS(rotten, os.DirFS(data)))
	table := rot(t, filepath.Join(rotten, "state"))
	damaged := at.run(t, "verify", "--data", rotten)
	require.Equal(t, 1, damaged.code(), damaged.err.String())
	require.Contains(t, damaged.out.String(), table)
	hash := at.run(t, "state", "hash", "--data", rotten)
	require.Equal(t, 1, hash.code())
	require.Contains(t, hash.err.String(), table)
	require.NoFileExists(t, filepath.Join(rotten, "state", "DAMAGED"))

	verifyFinds(t, at, data, ledgers)
}

// verifyBesideIt verifies while the engine runs, at the right and at the wrong place.
func verifyBesideIt(t *testing.T, at place, data string, e endpoints) {
	t.Helper()
	held := at.run(t, "verify", "--data", data)
	require.Equal(t, 2, held.code())
	require.Contains(t, held.err.String(), "the data directory is in use by process")
	require.Contains(t, held.err.String(), "or give the `--brokers` of it")
	require.NotContains(t, held.err.String(), "for usage")
	other := place{dir: at.dir, env: []string{"SAGALOG_API=http://127.0.0.1:1"}}.run(t, "verify", "--brokers", e.Kafka)
	require.Equal(t, 0, other.code(), "%s", other.err.String())
	require.Contains(t, other.out.String(), "no store was compared")
	other = at.run(t, "verify", "--brokers", e.Kafka, "--namespace", "foo")
	require.Equal(t, 2, other.code())
	require.Contains(t, other.err.String(), `there is no namespace "foo"`)
}

// historyFromLog reads in the data directory of a stopped engine what the engine answered about an ended task.
func historyFromLog(t *testing.T, at place, data, task, answered string) {
	t.Helper()
	read := at.run(t, "task", "history", task, "--from-log", "--data", data, "-o", "json")
	require.Equal(t, 0, read.code(), read.err.String())
	require.JSONEq(t, answered, read.out.String())
	unknown := at.run(t, "task", "history", "nope", "--from-log", "--data", data)
	require.Equal(t, 3, unknown.code())
	require.Regexp(t, `there is no task "nope" in the log from offset 0 of sagalog.events/[01] on`, unknown.err.String())
	nowhere := at.run(t, "task", "history", task, "--from-log")
	require.Equal(t, 2, nowhere.code())
	require.Contains(t, nowhere.err.String(), "give the place of the log: --data or --brokers")
}

// verifyFinds asks for a task that does not exist, and takes a call out of a ledger.
func verifyFinds(t *testing.T, at place, data, ledgers string) {
	t.Helper()
	unknown := at.run(t, "verify", "--data", data, "--task", "nope")
	require.Equal(t, 2, unknown.code(), unknown.out.String())
	require.Contains(t, unknown.err.String(), `--task: the log has no task "nope"`)

	cut(t, filepath.Join(ledgers, "account.ndjson"))
	cutOff := at.run(t, "verify", "--data", data, "--ledgers", ledgers)
	require.Equal(t, 1, cutOff.code())
	require.Contains(t, cutOff.out.String(), "no ledger holds a call of it that succeeded")
}

// rot flips a bit in the middle of a table of a store and returns its name.
func rot(t *testing.T, dir string) string {
	t.Helper()
	ns, err := projector.Inspect(dir)
	require.NoError(t, err)
	s, err := projector.Open(dir, projector.Options{Namespace: ns}) // this moves the contents of its write-ahead log into a table
	require.NoError(t, err)
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	b, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(tables[0], b, 0o600))
	return filepath.Base(tables[0])
}

// cut removes the first line of a file.
func cut(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), "\n")
	require.True(t, ok)
	require.NoError(t, os.WriteFile(file, []byte(rest), 0o600))
}

func TestVerifyRefusesAWrongCall(t *testing.T) {
	startsMany(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(at.dir, "stopped", "broker"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(at.dir, "stopped", "state"), 0o755))
	for says, args := range map[string][]string{
		"give the place of the log: --data or --brokers": {},
		"holds no state (--store): give the --data of":   {"--brokers", "127.0.0.1:1", "--store", "stopped/state"},
		"compares the state in stopped already":          {"--data", "stopped", "--store", "./stopped"},
		"--brokers (SAGALOG_BROKERS), not both":          {"--data", "x", "--brokers", "127.0.0.1:1"},
		"nowhere does not exist (--data)":                {"--data", "nowhere"},
		"nowhere does not exist (--store)":               {"--brokers", "127.0.0.1:1", "--store", "nowhere"},
		"does not hold a log (--data)":                   {"--data", "."},
		"nothing listens there (connection refused)":     {"--brokers", "127.0.0.1:1"},
		`-o "yaml" is not known`:                         {"--brokers", "127.0.0.1:1", "-o", "yaml"},
		"--ledgers: stat nowhere: no such file":          {"--brokers", "127.0.0.1:1", "--ledgers", "nowhere"},
		"--show must be at least 1":                      {"--brokers", "127.0.0.1:1", "--show", "0"},
	} {
		p := at.run(t, append([]string{"verify"}, args...)...)
		require.Equal(t, 2, p.code(), args)
		require.Contains(t, p.err.String(), says, args)
		wrongly := !strings.Contains(says, "listens") && !strings.Contains(says, "no such")
		require.Equal(t, wrongly, strings.Contains(p.err.String(), "--help' for usage"), says)
		require.NoDirExists(t, filepath.Join(at.dir, "nowhere"))
	}
}

// A log that is cut while it is read is read again, some times.
func TestALogThatIsCutMeanwhileIsReadAgain(t *testing.T) {
	cut := fmt.Errorf("partition 1: %w", &kafkalog.CutError{Topic: "sagalog.events", Partition: 1, Start: 9112})
	for _, c := range []struct {
		cuts, reads int
		last        error
		says        string
	}{
		{0, 1, nil, ""},
		{2, 3, nil, ""},
		{1, 2, io.ErrUnexpectedEOF, "unexpected EOF"},
		{cutsInARow, cutsInARow, nil, "read a copy (sagalog replay)"},
	} {
		reads, said := 0, &strings.Builder{}
		err := uncut(said, func() error {
			if reads++; reads <= c.cuts {
				return cut
			}
			return c.last
		})
		require.Equal(t, c.reads, reads)
		require.Equal(t, min(c.cuts, cutsInARow-1), strings.Count(said.String(), "sagalog.events partition 1 was cut while it was read; reading again\n"))
		if c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}
}
