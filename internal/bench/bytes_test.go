package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARunSaysHowManyBytesATaskTakes(t *testing.T) {
	t.Parallel()
	r, err := Tasks(t.Context(), &TasksConfig{Config: counted(t), Outstanding: 20, Tasks: 100})
	require.NoError(t, err)
	require.Len(t, r.Topics, 4)
	require.Positive(t, r.Topics[0].Bytes)
	require.InDelta(t, r.LogBytes, r.Topics[1].Bytes, 0.05*r.LogBytes, "what the watcher counted")
	require.InDelta(t, 5, r.Topics[3].Records, 0.5)
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Regexp(t, `bytes of a submitted task before compression: [0-9]+ \(submissions [0-9]+, events [0-9]+, work.\* [0-9]+, reports [0-9]+\)`, table.String())
}

func TestASampleStandsForAllRecords(t *testing.T) {
	t.Parallel()
	s := &topicSum{records: 10, keys: 50, values: 100, headers: map[string][2]int64{"a": {10, 20}}}
	s.stand(1000)
	require.Equal(t, &topicSum{records: 1000, keys: 5000, values: 10000, headers: map[string][2]int64{"a": {1000, 2000}}}, s)
	s = newTopicSum()
	s.stand(0)
	require.Equal(t, newTopicSum(), s)
}

// A five-step task stays within what the format was made for: a third less than its first form, which took 12,858 bytes.
func TestAFiveStepTaskTakesFewBytes(t *testing.T) {
	t.Parallel()
	const allowed = 8700 // 8,355 for 3,000 tasks; a run of 100 has a share of claims and settings
	r, err := Tasks(t.Context(), &TasksConfig{Config: counted(t), Outstanding: 20, Tasks: 100, Bytes: true})
	require.NoError(t, err)
	var all float64
	for _, x := range r.Topics {
		all += x.Bytes
		for _, h := range x.ByHeader {
			require.NotEqual(t, "ce_traceparent", h.Name, "no agent makes one up for a report")
		}
	}
	require.Less(t, all, float64(allowed))
}

func TestARunSaysWhereTheBytesOfATaskAre(t *testing.T) {
	t.Parallel()
	r, err := Tasks(t.Context(), &TasksConfig{Config: counted(t), Outstanding: 20, Tasks: 100, Bytes: true})
	require.NoError(t, err)
	require.Len(t, r.Topics, 4)
	var facts TopicBytes
	for _, x := range r.Topics {
		require.Positive(t, x.Records, x.Topic)
		require.InDelta(t, x.Bytes, x.Keys+x.Values+x.Headers, 0.3, x.Topic)
		require.Greater(t, x.Files, x.Bytes, "the broker in this process does not compress")
		var headers float64
		for _, h := range x.ByHeader {
			headers += h.Names + h.Values
		}
		require.InDelta(t, x.Headers, headers, 0.1*float64(1+2*len(x.ByHeader)), x.Topic)
		if x.Topic == "events" {
			facts = x
		}
	}
	require.InDelta(t, r.LogBytes, facts.Bytes, 0.05*r.LogBytes, "what the watcher counted")
	var table bytes.Buffer
	require.NoError(t, r.Print(&table))
	require.Contains(t, table.String(), "headers of reports: ce_time")
}
