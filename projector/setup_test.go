package projector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

func TestMain(m *testing.M) {
	if os.Getenv(wreckEnv) != "" {
		os.Exit(m.Run()) // no goleak: Pebble leaves a goroutine behind when opening fails
	}
	goleak.VerifyTestMain(m)
}

const (
	namespace = "018f-namespace"
	directory = "state"
)

var topic = projector.TopicID{1, 2, 3}

// tb has the methods that testing.TB and rapid.T share.
type tb interface {
	require.TestingT
	Helper()
}

func open(t tb, fs vfs.FS) *projector.Store {
	t.Helper()
	s, err := projector.Open(directory, projector.Options{Namespace: namespace, FS: fs, Logger: slog.New(strict{slog.DiscardHandler})})
	require.NoError(t, err)
	return s
}

// strict makes a test panic when the store warns that an index row was not written and deleted in turn.
type strict struct{ slog.Handler }

func (strict) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (strict) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "in turn") {
		panic(r.Message)
	}
	return nil
}

// setup returns a store in memory that is closed with the test.
func setup(t *testing.T) *projector.Store {
	t.Helper()
	s := open(t, vfs.NewMem())
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// nastyIDs are valid task IDs that are prefixes of each other, contain bytes that keys use, or are long.
var nastyIDs = []string{
	"a", "a\u00a0", "aa", "a/b", "a b", "a\uffff", "b", "...", "日本語/配達", "\U0010ffff",
	strings.Repeat("x", 255), strings.Repeat("x", 254), strings.Repeat("é", 127),
}

// row returns a task's rows as Flush makes them.
func row(t tb, task *events.Task, k events.Keys, was *events.Keys) events.TaskRow {
	t.Helper()
	b, err := events.Marshal(task)
	require.NoError(t, err)
	s := events.NewState(0, func(string) (events.StoredTask, error) {
		return events.StoredTask{Encoding: b, Keys: events.AppendKeys(nil, &events.Keys{})}, nil
	})
	s.Touch(task.ID)
	d, err := s.Flush(nil)
	require.NoError(t, err)
	r := d.Tasks[0]
	k.State, k.Workflow, k.SubmittedAt, k.EndedAt, k.Labels = task.State, task.Workflow, task.SubmittedAt, task.EndedAt, task.Labels
	r.Keys, r.Was = k, was
	return r
}

// pending returns a new task.
func pending(id string, at events.Instant) *events.Task {
	return &events.Task{ID: id, Run: 1, Workflow: "ship", State: events.TaskStatePending, SubmittedAt: at, UpdatedAt: at}
}

func partitionRow(t tb, p events.PartitionState) events.PartRow {
	t.Helper()
	b, err := events.Marshal(p)
	require.NoError(t, err)
	return events.PartRow{Kind: events.KindPartition, Encoding: b}
}

func commit(t tb, s *projector.Store, d *events.Delta) {
	t.Helper()
	anchor := projector.Anchor{TopicID: topic, Offset: d.Next - 1, Hash: fmt.Sprint(d.Next - 1)}
	require.NoError(t, s.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{d.Partition: anchor}}))
}

func ids(tasks []*events.Task) []string {
	list := []string{}
	for _, t := range tasks {
		list = append(list, t.ID)
	}
	return list
}

func jsonOf(t tb, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
