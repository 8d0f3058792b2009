package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// jobCatalog is a catalog of a namespace with two partitions.
type jobCatalog struct {
	*scheduler.Catalog
	t   *testing.T
	now events.Instant
}

func newJobCatalog(t *testing.T) *jobCatalog {
	c := &jobCatalog{scheduler.NewCatalog(nil), t, events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))}
	r, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: "n", Partitions: 2, Format: 1}, events.Subject{ID: "1", Source: "/test"})
	require.NoError(t, err)
	require.NoError(t, c.Apply(&r))
	return c
}

func (c *jobCatalog) apply(v scheduler.JobValue) error {
	r, err := scheduler.EncodeJob(v, events.Subject{ID: "1", Source: "/test", Time: c.now})
	require.NoError(c.t, err)
	return c.Apply(&r)
}

func (c *jobCatalog) open(id string) error {
	return c.apply(&events.Job{ID: id, Verb: events.RequestRetry, Filter: events.JobFilter{All: true}})
}

func (c *jobCatalog) end(id string) {
	for p := range int32(2) {
		require.NoError(c.t, c.apply(&events.JobProgress{Job: id, Partition: p, Epoch: 1, Done: true}))
	}
	require.NotZero(c.t, c.Jobs()[id].EndedAt)
}

func TestTheNewestOwnerOfAPartitionSaysHowFarAJobIs(t *testing.T) {
	t.Parallel()
	c := newJobCatalog(t)
	require.NoError(t, c.open("j"))
	at := func(epoch uint64, granted int, done bool) {
		require.NoError(t, c.apply(&events.JobProgress{Job: "j", Epoch: epoch, Granted: granted, Done: done}))
	}
	at(2, 5, false)
	at(1, 9, true)
	require.Equal(t, 5, c.Jobs()["j"].Progress[0].Granted, "an older epoch does not count")
	at(3, 7, true)
	at(4, 1, false)
	require.Equal(t, 7, c.Jobs()["j"].Progress[0].Granted, "nothing follows the end")
	require.Zero(t, c.Jobs()["j"].EndedAt)
	require.Equal(t, 1, c.OpenJobs())
	require.NoError(t, c.apply(&events.JobProgress{Job: "j", Partition: 2, Done: true}))
	require.Len(t, c.Jobs()["j"].Progress, 1, "there is no such partition")
	require.NoError(t, c.apply(&events.JobProgress{Job: "j", Partition: 1, Epoch: 1, Done: true, Refusals: make([]events.JobRefusal, 99)}))
	require.Equal(t, c.now, c.Jobs()["j"].EndedAt)
	require.Len(t, c.Jobs()["j"].Progress[1].Refusals, events.MaxJobRefusals)
	require.NoError(t, c.apply(&events.JobStop{Job: "j"}))
	require.Nil(t, c.Jobs()["j"].Stop, "it has ended")
}

func TestTheFirstRecordOfAJobCounts(t *testing.T) {
	t.Parallel()
	c := newJobCatalog(t)
	require.NoError(t, c.open("j"))
	require.NoError(t, c.apply(&events.Job{ID: "j", Verb: events.RequestCancel, Filter: events.JobFilter{All: true}}))
	require.Equal(t, events.RequestRetry, c.Jobs()["j"].Verb)
	require.NoError(t, c.apply(&events.JobStop{Job: "j", By: "ada"}))
	require.NoError(t, c.apply(&events.JobStop{Job: "j", By: "bob"}))
	require.Equal(t, "ada", c.Jobs()["j"].Stop.By)
	require.NoError(t, c.apply(&events.JobStop{Job: "k"}))
}

// Anyone may write the topic, so the jobs are bounded.
func TestJobsAreBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	c := newJobCatalog(t)
	for i := range scheduler.MaxOpenJobs {
		require.NoError(t, c.open(fmt.Sprint("open", i)))
	}
	require.ErrorContains(t, c.open("more"), "20 jobs are open already")
	c.end("open0")
	for i := range scheduler.MaxJobs + 10 {
		c.now = c.now.Add(time.Minute)
		require.NoError(t, c.open(fmt.Sprint("ended", i)))
		c.end(fmt.Sprint("ended", i))
	}
	require.Len(t, c.Jobs(), scheduler.MaxJobs)
	require.NotContains(t, c.Jobs(), "open0", "the one that ended first is forgotten first")
	require.Contains(t, c.Jobs(), "open1")
	c.now = c.now.Add(scheduler.JobsRememberedFor + time.Hour)
	require.NoError(t, c.open("new"))
	require.Len(t, c.Jobs(), scheduler.MaxOpenJobs)
}

func TestAJobThatTheAPIDidNotWriteIsChecked(t *testing.T) {
	t.Parallel()
	c := newJobCatalog(t)
	all := events.JobFilter{All: true}
	for says, j := range map[string]events.Job{
		"is not a valid ID":   {ID: "a/b", Verb: events.RequestRetry, Filter: all},
		"is not a verb":       {ID: "a", Verb: "undo", Filter: all},
		"is not a rate":       {ID: "a", Verb: events.RequestRetry, Filter: all, Rate: "1"},
		"neither an instant":  {ID: "a", Verb: events.RequestRetry, Filter: events.JobFilter{Since: "x"}},
		"its arguments":       {ID: "a", Verb: events.RequestSkip, Filter: all, Args: []byte(`{"step":7}`)},
		"its filter is empty": {ID: "a", Verb: events.RequestRetry},
		"and may have 32768":  {ID: "a", Verb: events.RequestRetry, Filter: all, Reason: strings.Repeat("x", events.MaxJobBytes)},
	} {
		require.ErrorContains(t, c.apply(&j), says)
	}
	require.Empty(t, c.Jobs())
}
