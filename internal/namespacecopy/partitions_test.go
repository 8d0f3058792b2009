package namespacecopy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// A schedule was deleted and applied again, and its partition had adopted neither. Without the deletion, the old schedule would go on as the new one.
func TestADeletionThatWasNotAdoptedIsAppliedOnceMore(t *testing.T) {
	t.Parallel()
	at := events.Subject{ID: "1", Source: "/test", Time: 1}
	namespace, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: "n", Partitions: 1, Format: events.FormatVersion}, at)
	require.NoError(t, err)
	schedule, err := scheduler.EncodeSchedule(&events.ScheduleDefinition{Schedule: "s", Workflow: "w", Every: events.Duration(time.Minute), Input: json.RawMessage(`{}`)}, at)
	require.NoError(t, err)
	p := &part{state: events.NewState(0, nil)}
	p.state.Partition.SchedulesOffset = 1
	s := &source{parts: []*part{p}, definitions: []events.Record{namespace, schedule, scheduler.EncodeScheduleDeletion("s", at), schedule}}
	for i := range s.definitions {
		s.definitions[i].Offset = int64(i)
	}
	require.NoError(t, s.define())
	d := &definitions{copying: &copying{from: s}}
	d.pending()
	require.Len(t, d.records, 2)
	require.Empty(t, d.records[0].Value)
	require.Equal(t, schedule.Value, d.records[1].Value)
	p.state.Partition.SchedulesOffset = 2
	d.records = nil
	d.pending()
	require.Len(t, d.records, 1, "the deletion was adopted")
}

// Only a report about this task and this run says that an attempt is over: an earlier task with the ID had attempts with the same numbers.
func TestAReportAboutAnEarlierTaskEndsNoAttempt(t *testing.T) {
	t.Parallel()
	task := &events.Task{ID: "t", Incarnation: "2-b/0", Run: 1}
	for _, c := range []struct {
		ticket string
		run    int
		over   bool
	}{{"1-a/0", 0, false}, {"2-b/0", 0, true}, {"2-b/0", 1, true}, {"2-b/0", 2, false}} {
		data, err := json.Marshal(events.Report{Task: "t", Ticket: c.ticket, Run: c.run, Step: "s", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted})
		require.NoError(t, err)
		x := &copying{reported: map[attempt]bool{}}
		x.note("t", data)
		require.Equal(t, c.over, x.over(task, "s", events.Do, 1), "%+v", c)
	}
}
