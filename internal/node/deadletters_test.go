package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
)

// What somebody did about dead letters is known after a restart, and is one act if it was done to many.
func TestMarksOfDeadLettersLast(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		one := w.node(t.TempDir(), together)
		for i := range 3 {
			w.produce(w.topics.Submissions(), -1, inOrder(fmt.Sprint("t-", i), "unknown"))
		}
		<-time.After(time.Minute)
		letters, err := one.Letters().Read(t.Context(), events.Submissions, 0, 0, 3)
		require.NoError(t, err)
		require.Len(t, letters, 3)
		for i, m := range []events.DeadLetterMark{
			{Mark: events.MarkDismissed, By: "ada", Reason: "a test"}, {Mark: events.MarkDismissed, By: "ada", Reason: "a test"}, {Mark: events.MarkRedriven, By: "ada", Task: "t-2", Partition: 0, Offset: 3},
		} {
			m.Letter, m.Written = fmt.Sprint("submissions-0-", i), letters[i].Timestamp
			require.NoError(t, one.Letters().MarkLetter(t.Context(), m))
		}
		check := func(p *process) {
			m := p.Letters().LetterMark("submissions-0-1", letters[1].Timestamp)
			require.NotNil(t, m)
			require.Equal(t, "dismissed", m.Mark)
			require.Equal(t, "a test", m.Reason)
			require.Nil(t, m.Offset)
			m = p.Letters().LetterMark("submissions-0-2", letters[2].Timestamp)
			require.Equal(t, "redriven", m.Mark)
			require.EqualValues(t, 3, *m.Offset)
			require.Nil(t, p.Letters().LetterMark("submissions-0-2", letters[2].Timestamp+1), "a letter of another topic of that name")
			var acts []string
			for _, a := range p.Acts().Defined() {
				acts = append(acts, a.Verb+" "+a.Kind+" "+a.Subject+" "+a.Detail)
			}
			require.Equal(t, []string{"dismiss dead_letter submissions-0-1 and 1 more before it", "redrive dead_letter submissions-0-2 task t-2"}, acts)
		}
		<-time.After(time.Minute)
		check(one)
		require.NoError(t, one.stop())
		two := w.node(t.TempDir(), together)
		<-time.After(time.Minute)
		check(two)
	})
}

// An alert on the metric ends when somebody has dealt with all dead letters, and begins again when one is reopened.
func TestAMetricSaysHowManyDeadLettersAreOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		r := prometheus.NewRegistry()
		one := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		open := func(submissions, reports int) {
			t.Helper()
			<-time.After(time.Minute)
			require.Equal(t, []string{fmt.Sprintf(`sagalog_dead_letters_open{topic="reports"} %d`, reports), fmt.Sprintf(`sagalog_dead_letters_open{topic="submissions"} %d`, submissions)},
				seriesOf(t, r, "sagalog_dead_letters_open"))
		}
		open(0, 0)
		for i := range 3 {
			w.produce(w.topics.Submissions(), -1, inOrder(fmt.Sprint("t-", i), "unknown"))
		}
		open(3, 0)
		letters, err := one.Letters().Read(t.Context(), events.Submissions, 0, 0, 3)
		require.NoError(t, err)
		mark := func(i int, what string) {
			t.Helper()
			require.NoError(t, one.Letters().MarkLetter(t.Context(), events.DeadLetterMark{Letter: fmt.Sprint("submissions-0-", i), Written: letters[i].Timestamp, Mark: what}))
		}
		mark(0, events.MarkDismissed)
		mark(1, events.MarkDismissed)
		mark(1, events.MarkRedriven)
		open(1, 0)
		mark(2, events.MarkDismissed)
		open(0, 0)
		mark(2, "")
		open(1, 0)
		require.NoError(t, one.stop())
		require.Empty(t, seriesOf(t, r, "sagalog_dead_letters_open"), "it owns nothing")
	})
}
