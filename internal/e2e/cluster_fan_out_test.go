package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// sheetFile has a fan-out. An item whose entry is 1 fails after the service did its work.
var sheetFile = "workflow: sheet\n" + tripDefaults + `  send:
    for: {each: "${ input.entries }", parallel: 20, tolerate: 2%, collect: failures}
    agent: package
    with: {id: "${ task.id }-${ index }", package: {}}
    fail_if: "${ item == 1 }"
    undo: {}
  confirm: {needs: [send], agent: delivery, with: {id: "${ task.id }"}}
`

// The tasks of TestClusterFanOut.
const (
	sheetDone      = 0 // one item in a hundred fails, which is tolerated
	sheetFails     = 1 // one in twenty fails, which is not
	sheetCancelled = 2
	sheetCount     = 3
)

// Tasks with many items run while owners, agents, services and a broker are killed by kill -9. The one of which few items fail is processed without
// these, and the others are undone: what is in force at the service is what the log says, and each key has had one effect.
func TestClusterFanOut(t *testing.T) {
	besideOthers(t)
	o := kafkatest.Options{}
	services := []string{"--port-base", strconv.Itoa(fivePorts(t))}
	c := &trips{
		cluster: newCluster(t, o, services...), r: rand.New(rand.NewPCG(seed(t), 45)),
		count: sheetCount, services: services, killed: map[string]int{},
	}
	items := sized(*itemsFlag, 300, 10_000)
	require.NoError(t, os.WriteFile(filepath.Join(c.files, "sheet.yaml"), []byte(sheetFile), 0o600))
	owners := []*member{c.up("n1", "owner", "api", "projector"), c.up("n2", "owner", "api", "projector")}
	agents := []*member{c.up("a1", "agent"), c.up("a2", "agent")}
	c.even(patience)

	begun := time.Now()
	c.submitSheets(items)
	cancelled, dir := make(chan error, 1), c.fleet.dir
	go func() {
		defer close(cancelled)
		if err := c.cancelSheet(dir, items/4); err != nil {
			cancelled <- err
		}
	}()
	c.killUntil(cancelled, owners, agents)
	c.allEnd()
	t.Logf("3 tasks of %d items in %s; killed: %v", items, time.Since(begun).Round(time.Millisecond), c.killed)

	c.sheetsAgree(items)
	for _, m := range owners {
		m.ready()
	}
	c.hashes()
	c.verified(owners)
}

// submitSheets writes a task of each kind.
func (c *trips) submitSheets(items int) {
	client := newClient(c.t, c.conn)
	partitions, err := c.conn.Partitions(c.t.Context(), topics.Submissions())
	require.NoError(c.t, err)
	for i, failing := range map[int]int{sheetDone: 100, sheetFails: 20, sheetCancelled: items + 1} {
		entries := make([]string, items)
		for k := range entries {
			entries[k] = "0"
			if k%failing == failing/2 {
				entries[k] = "1"
			}
		}
		body := fmt.Sprintf(`{"id":%q,"workflow":"sheet","input":{"entries":[%s]}}`, tripID(i), strings.Join(entries, ","))
		require.NoError(c.t, client.send(c.t.Context(), submission(events.Home(tripID(i), partitions), tripID(i), []byte(body))))
	}
}

// cancelSheet cancels a task once the service has had that number of calls for it.
func (c *trips) cancelSheet(dir string, done int) error {
	applied := func() (n int) {
		lines, _ := os.ReadFile(filepath.Join(dir, "package.ndjson"))
		return strings.Count(string(lines), `"task":"`+tripID(sheetCancelled)+`"`)
	}
	for applied() < done {
		select {
		case <-c.t.Context().Done():
			return context.Cause(c.t.Context())
		case <-time.After(look):
		}
	}
	partitions, err := c.conn.Partitions(c.t.Context(), topics.Reports())
	if err != nil {
		return err
	}
	r, err := events.EncodeRequest(events.Request{ID: "cancel", Kind: events.RequestCancel, Task: tripID(sheetCancelled)}, events.Subject{ID: "cancel", Source: "/e2e", Time: events.At(time.Now())})
	if err != nil {
		return err
	}
	r.Topic, r.Partition = topics.Reports(), events.Home(tripID(sheetCancelled), partitions)
	return newClient(c.t, c.conn).send(context.WithoutCancel(c.t.Context()), r)
}

// sheetsAgree folds the log, and requires that each task ended as it must, and that the ledger agrees with it.
func (c *trips) sheetsAgree(items int) {
	t := c.t
	t.Helper()
	tasks := c.folded()
	for i, want := range []events.TaskState{sheetDone: events.TaskStateProcessed, sheetFails: events.TaskStateUndone, sheetCancelled: events.TaskStateUndone} {
		x := tasks[tripID(i)]
		require.Equal(t, want, x.State, x.ID)
		t.Logf("%s: %s, %+v", x.ID, x.State, *x.Step("send").Fan)
	}
	failed := (items + 49) / 100 // those with the index 50, 150, ...
	fan := tasks[tripID(sheetDone)].Step("send").Fan
	require.Equal(t, events.FanOut{Count: items, Tolerate: items * 2 / 100, Collect: events.CollectFailures, Begun: items, Completed: items - failed, Failed: failed}, *fan)
	require.Less(t, tasks[tripID(sheetFails)].Step("send").Fan.Begun, items, "no item begins behind a failure that is not tolerated")
	require.Greater(t, tasks[tripID(sheetCancelled)].Step("send").Fan.Undone, items/8)

	lines := c.fleet.ledger(t, "package", "")
	require.Empty(t, firstOf(sheetFaults(tasks, lines)))
	undone := slices.IndexFunc(lines, func(l dronedelivery.Line) bool { return l.Applied && l.Method == "DELETE" })
	require.Len(t, sheetFaults(tasks, slices.Delete(slices.Clone(lines), undone, undone+1)), 1, "an undo that the service did not make")
}

// sheetFaults says where the ledger contradicts the log: what is in force of a task is what it completed, and each key has had one effect.
func sheetFaults(tasks map[string]*events.Task, lines []dronedelivery.Line) (faults []string) {
	inForce, keys := map[string]int{}, map[string]bool{}
	for _, l := range lines {
		switch {
		case !l.Applied:
		case keys[l.Method+l.IdempotencyKey]:
			faults = append(faults, fmt.Sprintf("key %s of %s had two effects", l.IdempotencyKey, l.Task))
		case l.Method == "DELETE":
			inForce[l.Task]--
		default:
			inForce[l.Task]++
		}
		keys[l.Method+l.IdempotencyKey] = keys[l.Method+l.IdempotencyKey] || l.Applied
	}
	for id, x := range tasks {
		want := 0
		if x.State == events.TaskStateProcessed {
			want = x.Step("send").Fan.Completed
		}
		if inForce[id] != want {
			faults = append(faults, fmt.Sprintf("%d items of %s are in force, which must be %d", inForce[id], id, want))
		}
	}
	return faults
}
