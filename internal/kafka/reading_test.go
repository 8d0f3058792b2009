package kafka_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
)

// follow folds a partition of the log, from its first record until ctx ends, and shows each fact with the state after it.
func follow(ctx context.Context, brokers []string, partition int32, show func(*events.Fact, *events.State)) error {
	start := map[string]map[int32]kgo.Offset{"sagalog.events": {partition: kgo.NewOffset().AtStart()}}
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(start))
	if err != nil {
		return err
	}
	defer c.Close()
	state := events.NewState(partition, nil)
	for {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, k := range fetches.Records() {
			r := events.Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value}
			for _, h := range k.Headers {
				r.Headers = append(r.Headers, events.Header(h))
			}
			f, err := events.DecodeFact(&r)
			if err != nil {
				return err
			}
			switch fate, err := state.Apply(f, r.Offset); {
			case err != nil:
				return err
			case fate == events.FateAccepted:
				show(f, state)
			}
		}
	}
}

// The document of package events shows this reader.
func TestTheReaderOfTheDocumentFollowsATask(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../events/doc.go")
	require.NoError(t, err)
	source, err := os.ReadFile("reading_test.go")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(source), "\n// follow folds")
	require.True(t, found)
	shown, _, found = strings.Cut("// follow folds"+shown, "\n}\n")
	require.True(t, found)
	require.Contains(t, string(doc), "//\t"+strings.ReplaceAll(shown+"\n}", "\n", "\n//\t")+"\n")

	e := sagalogtest.Start(t)
	e.Apply("workflow: greeting\nsteps:\n  greet: {agent: host}\n")
	agents := agent.NewRegistry()
	agent.Handle(agents, "host", func(_ context.Context, name string) (string, error) { return "Hello, " + name + "!", nil })
	e.Serve(agents)
	_, err = e.Client().Run(t.Context(), client.Submission{ID: "g-1", Workflow: "greeting", Input: json.RawMessage(`"Ada"`)})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var names []events.Name
	err = follow(ctx, e.Brokers(), events.Home("g-1", 2), func(f *events.Fact, s *events.State) {
		if f.Task != "g-1" {
			return
		}
		names = append(names, f.Body.Name())
		task, err := s.Task("g-1")
		require.NoError(t, err)
		if task.State.Ended() {
			require.Equal(t, events.TaskStateProcessed, task.State)
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []events.Name{events.NameSubmitted, events.NameStepStarted, events.NameStepCompleted, events.NameTaskProcessed}, names)
}
