package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/stretchr/testify/require"
)

// The past of a task names the tasks that held the permits that it waited for, in whichever partitions they and the limit are. A copy begins with a checkpoint, by a flag or with
// those in the data directory, and is the copy that is made without.
func TestThePastBeginsWithACheckpointAndNamesHolders(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	const partitions = 8
	at := place{dir: t.TempDir()}
	data := filepath.Join(at.dir, "d")
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", fmt.Sprint(partitions))
	api, brokers := dev.endpoints(data).HTTP, dev.endpoints(data).Kafka
	dev.eventually("ready", func() bool { return get(t, api+"/readyz", nil) == http.StatusOK })
	write(t, filepath.Join(at.dir, "w.yaml"), "workflow: w\nconcurrency: {key: \"${ input.shop }\", max: 1}\nsteps:\n  first: {wait: {signal: go}}\n")
	require.Equal(t, 0, at.run(t, "workflow", "apply", "w.yaml", "--api", api).code())
	holder := "a-0"
	waiter := inAnotherPartition(holder, partitions)
	var doc struct {
		State      string
		WaitingFor []struct{ Kind, For string } `json:"waiting_for"`
	}
	require.Equal(t, 0, at.run(t, "task", "submit", "-w", "w", "--id", holder, "--input", `{"shop":"x"}`, "--api", api).code())
	dev.eventually(holder, func() bool {
		return get(t, api+"/v1/tasks/"+holder, &doc) == http.StatusOK && len(doc.WaitingFor) == 1 && doc.WaitingFor[0].Kind == "signal"
	})
	require.Equal(t, 0, at.run(t, "state", "checkpoint", "--api", api).code())
	require.Equal(t, 0, at.run(t, "task", "submit", "-w", "w", "--id", waiter, "--input", `{"shop":"x"}`, "--api", api).code())
	dev.eventually(waiter, func() bool {
		return get(t, api+"/v1/tasks/"+waiter, &doc) == http.StatusOK && len(doc.WaitingFor) == 1 && doc.WaitingFor[0].Kind == "concurrency"
	})
	require.Contains(t, doc.WaitingFor[0].For, "held by "+holder)
	live := doc.WaitingFor[0].For

	then := at.run(t, "task", "get", waiter, "--at", "0s", "--from-log", "--brokers", brokers, "--checkpoints", filepath.Join(data, "checkpoints"), "-o", "json")
	require.Equal(t, 0, then.code(), then.err.String())
	require.Contains(t, then.err.String(), "from the checkpoint "+filepath.Join(data, "checkpoints"))
	doc.WaitingFor = nil
	require.NoError(t, json.Unmarshal([]byte(then.out.String()), &doc))
	require.Len(t, doc.WaitingFor, 1)
	require.Equal(t, live, doc.WaitingFor[0].For)

	require.Equal(t, 0, dev.stop())
	copies := map[string]past.Mark{}
	empty := t.TempDir()
	for name, args := range map[string][]string{"with": nil, "without": {"--checkpoints", empty}} {
		made := at.run(t, append([]string{"replay", "--data", data, "--at", "0s", "--to", name, "-o", "json"}, args...)...)
		require.Equal(t, 0, made.code(), made.err.String())
		said := ""
		if name == "without" {
			said = empty + " holds no checkpoint: name a directory of checkpoints, such as checkpoints in the data directory of a node, or one checkpoint in it\n" + noCheckpoint + "\n"
		}
		require.Equal(t, said, made.err.String())
		mark, err := past.Open(filepath.Join(at.dir, name))
		require.NoError(t, err)
		copies[name] = *mark
	}
	require.Empty(t, copies["without"].Checkpoint)
	require.Equal(t, copies["without"].Facts, copies["without"].Folded)
	require.NotEmpty(t, copies["with"].Checkpoint)
	require.Less(t, copies["with"].Folded, copies["with"].Facts)
	require.Equal(t, copies["without"].Hashes, copies["with"].Hashes)
	theCheckpointIsSaid(t, at, data, holder, empty, copies["with"].Checkpoint)
	whole := at.run(t, "state", "hash", "--data", "with", "--rebuild")
	require.Equal(t, 0, whole.code(), whole.err.String())
}

const noCheckpoint = "no checkpoint is used: the fold begins with the first fact of the log"

// theCheckpointIsSaid asks about the past with checkpoints of no use, without any, and with a checkpoint that is named itself.
func theCheckpointIsSaid(t *testing.T, at place, data, holder, empty, used string) {
	t.Helper()
	for _, args := range [][]string{{"task", "get", holder, "--at", "0s", "--from-log"}, {"diff", "--from", "0s"}} {
		asked := at.run(t, append(args, "--data", data, "--checkpoints", empty)...)
		require.Equal(t, 0, asked.code(), asked.err.String())
		require.Contains(t, asked.err.String(), noCheckpoint, args)
		asked = at.run(t, append(args, "--data", "with")...) // it has no checkpoints, and nobody named any
		require.Equal(t, 0, asked.code(), asked.err.String())
		require.NotContains(t, asked.err.String(), "no checkpoint", args)
	}
	one := at.run(t, "task", "get", holder, "--at", "0s", "--from-log", "--data", data, "--checkpoints", used)
	require.Equal(t, 0, one.code(), one.err.String())
	require.Contains(t, one.err.String(), "from the checkpoint "+used+"\n")
}

// inAnotherPartition returns the ID of a task in another partition.
func inAnotherPartition(task string, partitions int32) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("b-%d", i); events.Home(id, partitions) != events.Home(task, partitions) {
			return id
		}
	}
}
