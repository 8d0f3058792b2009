package node_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// single is a workflow of one step. Each has another name and description.
func single(name string, version int) string {
	return fmt.Sprintf("workflow: %s\ndescription: number %d\nsteps:\n  only: {agent: stock, with: {id: \"${ task.id }\"}}\n", name, version)
}

// A client that uses only Kafka produces a definition and, immediately afterwards, a submission for it.
func TestANewDefinitionIsFoundAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order) // creates the agents' topics
		w.hire(nil)
		var tasks []string
		for i := range 200 {
			name := fmt.Sprintf("w-%d", i/2)
			src, faults := scheduler.Parse("w.yaml", []byte(single(name, i)), nil)
			require.Empty(t, faults)
			r, err := scheduler.EncodeDefinition(src, events.Subject{ID: fmt.Sprint(i), Source: "/test", Time: events.At(time.Now())}, "")
			require.NoError(t, err)
			w.produce(w.topics.Definitions(), 0, r)
			id := fmt.Sprintf("t-%d", i)
			w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte(id), Value: fmt.Appendf(nil, `{"id":%q,"workflow":%q}`, id, name)})
			tasks = append(tasks, id)
		}
		w.watch.ended(tasks...)
		for i, id := range tasks {
			task := w.watch.state(id, events.TaskStateProcessed)
			require.GreaterOrEqual(t, task.Version, i%2+1, "not older than what was applied before")
		}
		require.NoError(t, n.stop())
		w.proveHashes(dir)
	})
}

func TestApplyAnswersTheVersionThatItMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		for i := 1; i <= 3; i++ {
			a, faults, err := n.Definitions().Apply(t.Context(), api.Draft{Name: "w", Source: []byte(single("w", i))})
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Equal(t, i, a.Version)
			require.True(t, a.Changed)
		}
		a, _, err := n.Definitions().Apply(t.Context(), api.Draft{Name: "w", Source: []byte(single("w", 3))})
		require.NoError(t, err)
		require.False(t, a.Changed)
		a, _, err = n.Definitions().Apply(t.Context(), api.Draft{Name: "w", Source: []byte(single("w", 1))})
		require.NoError(t, err)
		require.True(t, a.Changed, "older content is current again")
		require.Equal(t, 1, a.Version)
		got, err := n.Definitions().Workflow(t.Context(), "w", 0)
		require.NoError(t, err)
		require.Equal(t, 1, got.Version)
		require.Equal(t, []int{1, 2, 3}, got.Versions)
		none, err := n.Definitions().Workflow(t.Context(), "other", 0)
		require.NoError(t, err)
		require.Nil(t, none)
		_, faults, err := n.ApplyFile(t.Context(), "w.yaml", []byte(strings.Replace(single("w", 1), "agent: stock", "agent: stock, needs: [x]", 1)), nil)
		require.NoError(t, err)
		require.NotEmpty(t, faults)
	})
}

// A node starts with the files of --workflows after another version was applied: that version stays current.
func TestAFileNeverMakesAnOlderVersionCurrentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		for _, c := range []struct {
			number, version, current int
			changed                  bool
			line                     string
		}{
			{1, 1, 1, true, "a workflow is applied"},
			{1, 1, 1, false, "a workflow is current already"},
			{2, 2, 2, true, "a workflow is applied"},
			{1, 1, 2, false, "a workflow's file holds an older version"},
			{2, 2, 2, false, "a workflow is current already"},
		} {
			logged, end := len(w.logs.find(c.line)), len(w.read(w.topics.Definitions(), 0))
			a, faults, err := n.ApplyFile(t.Context(), "w.yaml", []byte(single("w", c.number)), nil)
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Equal(t, []any{c.version, c.changed}, []any{a.Version, a.Changed})
			got, err := n.Definitions().Workflow(t.Context(), "w", 0)
			require.NoError(t, err)
			require.Equal(t, c.current, got.Version)
			require.Len(t, w.logs.find(c.line), logged+1, c.line)
			require.Equal(t, c.changed, len(w.read(w.topics.Definitions(), 0)) > end, "appended")
		}
	})
}

// Nothing that a definition leaves behind goes away: topics on the brokers, contents in the memory of each node.
func TestDefinitionsLeaveOnlySoMuchBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		apply := func(name string, agents ...string) []api.Fault {
			source := "workflow: " + name + "\nsteps:\n"
			for _, a := range agents {
				source += "  " + a + ": {agent: " + a + "}\n"
			}
			_, faults, err := n.Definitions().Apply(t.Context(), api.Draft{Name: name, Source: []byte(source)})
			require.NoError(t, err)
			return faults
		}
		n.LimitDefinitions(3, 3, 1<<20)
		require.Empty(t, apply("one", "a", "b"))
		end := len(w.read(w.topics.Definitions(), 0))
		faults := apply("two", "a", "b", "c", "d")
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].Message, "4 more agents, but the namespace has 0 and may have 3")
		require.Len(t, w.read(w.topics.Definitions(), 0), end, "nothing is appended")
		require.Empty(t, apply("two", "a", "c"))
		require.Empty(t, apply("two", "a"))
		faults = apply("three", "a")
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].Message, "at most 3 versions")
		require.Empty(t, apply("two", "a", "c"), "a version that is known needs none")
		n.LimitDefinitions(3, 10, 1)
		require.Contains(t, apply("three", "a")[0].Message, "with 1 bytes")
		_, faults, err := n.ApplyFile(t.Context(), "w.yaml", []byte(single("w", 1)), nil)
		require.NoError(t, err)
		require.NotEmpty(t, faults, "files of a start have no room of theirs")
		require.NoError(t, n.stop())
	})
}

// Old versions are applied and never used again. They can be read, and tasks can use them, but they are not in memory.
func TestVersionsThatNobodyUsesAreNotInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many, bytes = 12, 100 << 10
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		source := func(i int) string {
			return fmt.Sprintf("workflow: order\noutput: %d%s\nsteps:\n  only: {agent: stock}\n", i, strings.Repeat("x", bytes))
		}
		for i := range many {
			_, faults, err := n.Definitions().Apply(t.Context(), api.Draft{Name: "order", Source: []byte(source(i))})
			require.NoError(t, err)
			require.Empty(t, faults)
		}
		require.Zero(t, n.DefinitionBytes())
		w.hire(nil)
		for range 2 {
			w.submit("t-" + fmt.Sprint(w.serial))
			w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte(fmt.Sprint("old-", w.serial)), Value: []byte(`{"workflow":"order","version":7}`)})
			w.watch.ended("t-"+fmt.Sprint(w.serial), fmt.Sprint("old-", w.serial))
			require.LessOrEqual(t, n.DefinitionBytes(), 2*(bytes+1000), "the completed bodies of the two that are used")
			for i := range many {
				got, err := n.Definitions().Workflow(t.Context(), "order", i+1)
				require.NoError(t, err)
				require.Contains(t, string(got.Body), fmt.Sprintf(`"output":"%dxxx`, i))
			}
			require.LessOrEqual(t, n.DefinitionBytes(), 2*(bytes+1000))
			entries, err := filepath.Glob(filepath.Join(dir, "definitions-*"))
			require.NoError(t, err)
			require.Empty(t, entries, "the file has no name")
			require.NoError(t, n.stop())
			n = w.node(dir)
		}
		require.NoError(t, n.stop())
	})
}

func TestProgramsThatAreKeptHaveABound(t *testing.T) {
	t.Parallel()
	require.Equal(t, 32<<20, node.KeptPrograms(100, 1<<20))
}

// described is a definition of some bytes.
func described(bytes int) string {
	return fmt.Sprintf(`{"workflow":"w","output":"%s","steps":{"a":{"agent":"x"}}}`, strings.Repeat("x", bytes))
}

func TestTheCompletedDefinitionsUsedLastAreKept(t *testing.T) {
	t.Parallel()
	c := node.NewCatalog(slog.New(slog.DiscardHandler), 16<<10)
	require.True(t, c.Complete("0", described(500)))
	for i := 1; i < 60; i++ {
		require.True(t, c.Complete(strconv.Itoa(i), described(500)))
		require.True(t, c.Kept("0"))
		require.True(t, c.Complete("0", described(500)))
	}
	require.LessOrEqual(t, c.Bytes(), 16<<10)
	require.Greater(t, c.Bytes(), 15<<10)
	require.True(t, c.Kept("50"))
	require.False(t, c.Kept("10"))
}

func TestAnUnusableDefinitionIsCountedOnce(t *testing.T) {
	t.Parallel()
	var logs logBook
	c := node.NewCatalog(logs.logger(), 2<<10)
	for range 3 {
		require.False(t, c.Complete("bad", `{"workflow":"w"}`))
		for i := range 10 {
			require.True(t, c.Complete(strconv.Itoa(i), described(500)))
		}
		require.False(t, c.Kept("bad"))
	}
	require.Equal(t, 1, c.Ignored())
	require.Len(t, logs.find("a definition cannot be used"), 1)
}

// Whoever may write to the topic can produce what the API would refuse. That stops nothing else, and an operator sees it.
func TestDefinitionsThatBreakTheRulesAreIgnored(t *testing.T) {
	bombBubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.hire(nil)
		body := `{"input":{"enum":[1` + strings.Repeat(",1", 3000) + `]},"steps":{"only":{"agent":"stock"}},"workflow":"heavy"}`
		sum := sha256.Sum256([]byte(body))
		heavy, err := scheduler.EncodeDefinition(&scheduler.Source{Workflow: "heavy", Body: []byte(body), Hash: hex.EncodeToString(sum[:])}, events.Subject{ID: "1", Source: "/x"}, "")
		require.NoError(t, err)
		w.produce(w.topics.Definitions(), 0, events.Record{Key: []byte("k"), Value: []byte("no definition")}, heavy)
		kafkatest.Bomb(t, w.broker, w.topics.Definitions(), 18<<20)
		w.apply(n, order)
		for range 2 {
			w.produce(w.topics.Submissions(), -1, inOrder(fmt.Sprint("t-", w.serial), "heavy"))
			id := fmt.Sprint("good-", w.serial)
			w.submit(id)
			w.watch.ended(id)
			require.Equal(t, 3, n.IgnoredDefinitions())
			require.Len(t, w.logs.find("a definition cannot be used"), w.serial)
			require.NoError(t, n.stop())
			n = w.node(dir) // it reads them again
		}
		letters := w.read(w.topics.DeadSubmissions(), 0)
		require.Len(t, letters, 2)
		require.Equal(t, events.RejectUnknownWorkflow, letters[0].Header(supervisor.DeadReason))
		require.Contains(t, letters[0].Header("__dlq.errors.message"), `version 1 of workflow "heavy" cannot be used: input.enum: the lists of the schema have more than 2000 values`)
		_, faults, err := n.Checked().Accept(t.Context(), api.Definition{Name: "heavy", Version: 1, Hash: hex.EncodeToString(sum[:])}, &events.Submission{Input: []byte(`{}`)})
		require.NoError(t, err)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].Message, "cannot be used")
	})
}

// Another definition takes long to compile. A client that has given up does not wait for it, and a dry run waits for nothing.
func TestWaitingToApplyEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	n := w.node(t.TempDir())
	release := n.Applying()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := n.Definitions().Apply(ctx, api.Draft{Name: "w", Source: []byte(single("w", 1))})
		ended <- err
	}()
	_, faults, err := n.Definitions().Check(t.Context(), api.Draft{Name: "w", Source: []byte(single("w", 1))})
	require.NoError(t, err)
	require.Empty(t, faults)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	release()
	_, faults, err = n.Definitions().Apply(t.Context(), api.Draft{Name: "w", Source: []byte(single("w", 1))})
	require.NoError(t, err)
	require.Empty(t, faults)
}
