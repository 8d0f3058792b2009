package verify_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// corrected is the log of a partition whose time is eight days ahead for a while and is then corrected. Sequences are given when it is encoded, so
// that facts can be added and removed.
type corrected struct {
	t     *testing.T
	facts []*events.Fact
	// at finds facts by name.
	at map[string]*events.Fact
	// state is the fold of the facts.
	state       *events.State
	submissions []events.Record
	now         events.Instant
}

const (
	remind   = time.Hour
	farAhead = 8 * 24 * time.Hour
)

// put adds a fact, which tests find by its name, and returns it.
func (c *corrected) put(name, task string, body events.Body) *events.Fact {
	c.now = c.now.Add(time.Second)
	f := &events.Fact{Time: c.now, Task: task, Body: body}
	c.facts = append(c.facts, f)
	if name != "" {
		c.at[name] = f
	}
	c.fold()
	return f
}

// fold folds all facts again; the engine's fold takes each of them.
func (c *corrected) fold() {
	c.state = events.NewState(0, nil)
	for _, r := range c.records() {
		f, err := events.DecodeFact(&r)
		require.NoError(c.t, err)
		fate, err := c.state.Apply(f, r.Offset)
		require.NoError(c.t, err)
		require.Equal(c.t, events.FateAccepted, fate)
	}
}

// records encodes the facts.
func (c *corrected) records() (list []events.Record) {
	epoch, sequence := events.Epoch{}, uint64(0)
	for i, f := range c.facts {
		if b, ok := f.Body.(*events.PartitionClaimed); ok {
			epoch, sequence = events.Epoch{N: epoch.N + 1, ID: b.ID}, 0
		} else {
			f.Epoch, f.Sequence = epoch, sequence
			sequence++
		}
		r, err := events.EncodeFact(f, 0, "/sagalog/events/0/a")
		require.NoError(c.t, err)
		r.Topic, r.Offset = "sim.events", int64(i)
		list = append(list, r)
	}
	return list
}

// place is where a fact is in the log.
func (c *corrected) place(f *events.Fact) string {
	return verify.Place{Topic: "sim.events", Offset: int64(slices.Index(c.facts, f))}.String()
}

// drop removes facts.
func (c *corrected) drop(which func(f *events.Fact) bool) {
	c.facts = slices.DeleteFunc(c.facts, which)
}

// before inserts a fact before another one, and gives it the same time.
func (c *corrected) before(f *events.Fact, task string, body events.Body) *events.Fact {
	x := &events.Fact{Time: f.Time, Task: task, Body: body}
	c.facts = slices.Insert(c.facts, slices.Index(c.facts, f), x)
	return x
}

func (c *corrected) verify() *verify.Report {
	created, err := json.Marshal(&events.NamespaceCreated{ID: "11111111-1111-4111-8111-111111111111", Partitions: 1, Format: events.FormatVersion})
	require.NoError(c.t, err)
	topics := map[string][][]events.Record{
		"sim.definitions": {{{Topic: "sim.definitions", Value: created,
			Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.TypePrefix + string(events.NameNamespaceCreated))}}}}},
		"sim.events": {c.records()}, "sim.submissions": {c.submissions}, "sim.reports": {nil}, "dlq.sim.submissions": {nil}, "dlq.sim.reports": {nil},
		"sim.work.stock": {nil},
	}
	r, err := verify.Run(c.t.Context(), verify.Config{Log: &memory{topics}, Topics: topicsOf("sim"), Now: c.now, Show: 100})
	require.NoError(c.t, err)
	return r
}

func (c *corrected) claim(id, prev string) {
	c.put(id, "", &events.PartitionClaimed{ID: id, Prev: prev, Owner: "a", Reader: 1})
}

func (c *corrected) submit(task string, deadline time.Duration) {
	value, err := json.Marshal(&events.Submission{ID: task, Workflow: "w"})
	require.NoError(c.t, err)
	r := events.Record{Topic: "sim.submissions", Offset: int64(len(c.submissions)), Key: []byte(task), Value: value}
	c.submissions = append(c.submissions, r)
	content, err := (&events.Submission{ID: task, Workflow: "w"}).ContentHash()
	require.NoError(c.t, err)
	c.now = c.now.Add(time.Second)
	c.facts = append(c.facts, &events.Fact{Time: c.now, Task: task, Cause: events.CauseInput(events.Submissions, 0, r.Offset), CauseHash: events.HashInput(&r),
		Body: &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Content: content, Deadline: c.now.Add(deadline)}})
	c.put("", task, &events.StepStarted{Step: "only", Agent: "stock", Attempt: 1, CompleteBy: c.now.Add(30 * time.Second)})
}

func (c *corrected) fail(task string, v events.Verdict) {
	c.put("", task, &events.StepFailed{Step: "only", Attempt: 1, Effect: events.EffectNone, Error: events.Error{Class: events.ClassRetryable}, Verdict: v})
}

func (c *corrected) task(id string) *events.Task {
	t, err := c.state.Task(id)
	require.NoError(c.t, err)
	return t
}

func (c *corrected) timesOut(task string) {
	by := c.task(task).Step("only").CompleteBy
	c.now = by.Add(-time.Second)
	c.put("timeout of "+task, task, &events.Timeout{Step: "only", Operation: events.Do, Attempt: 1, CompleteBy: by, QuietAt: by,
		Verdict: events.Verdict{Action: events.ActionPark, Reason: "attempts used up"}})
}

// wrongTime: one task begins at the right time, the others at the wrong one: one runs, one waits for its retry, one is parked. After the correction each goes
// on at the very instant at which the engine's fold lets it.
func wrongTime(t *testing.T) *corrected {
	c := &corrected{t: t, at: map[string]*events.Fact{}, now: 1_800_000_000_000}
	c.claim("c1", "")
	s := events.DefaultSettings()
	s.RemindAfter = events.Duration(remind)
	c.put("", "", &events.SettingsAdopted{Settings: s})
	c.put("", "", &events.DefinitionAdopted{Workflow: "w", Hash: "d1", Version: 1, Body: json.RawMessage(`{"workflow":"w","steps":[{"id":"only","agent":"stock"}]}`)})
	c.submit("right", 24*time.Hour)
	right := c.now
	c.now = right.Add(farAhead)
	c.claim("c2", "c1")
	c.submit("runs", 24*time.Hour)
	c.submit("waits", 24*time.Hour)
	c.fail("waits", events.Verdict{Action: events.ActionRetry, At: c.now.Add(time.Minute)})
	c.submit("parked", 2*time.Hour)
	c.fail("parked", events.Verdict{Action: events.ActionPark, Reason: "attempts used up"})
	c.put("", "parked", &events.TaskParked{Step: "only", Reason: "attempts used up"})
	c.put("last at the wrong time", "", &events.InputsPassed{})

	c.claim("c3", "c2")
	c.now = right.Add(10 * time.Second)
	to := c.now.Add(time.Second)
	c.put("back", "", &events.TimeCorrected{To: to})
	c.put("right is corrected", "right", &events.TimeCorrected{To: to})
	c.put("runs is corrected", "runs", &events.TimeCorrected{To: to})
	c.claim("c4", "c3") // the epoch ends too early
	c.put("waits is corrected", "waits", &events.TimeCorrected{To: to})
	c.put("parked is corrected", "parked", &events.TimeCorrected{To: to})
	c.put("settled", "", &events.TimeCorrected{To: to, Settled: true})
	c.claim("c5", "c4")
	c.timesOut("right")
	c.put("", "right", &events.TaskParked{Step: "only", Reason: "attempts used up"})
	c.timesOut("runs")
	c.put("", "runs", &events.TaskParked{Step: "only", Reason: "attempts used up"})
	c.now = c.task("waits").Step("only").RetryAt.Add(-time.Second)
	c.put("retry", "waits", &events.StepStarted{Step: "only", Agent: "stock", Attempt: 2, CompleteBy: c.now.Add(30 * 24 * time.Hour)})
	c.now = c.task("parked").RemindAt.Add(-time.Second)
	c.put("reminder", "parked", &events.TaskReminded{Reminder: 1, Since: c.task("parked").ParkedAt, Reason: "attempts used up"})
	c.now = c.task("parked").Deadline.Add(-time.Second)
	c.put("deadline", "parked", &events.DeadlinePassed{Deadline: c.task("parked").Deadline, Action: events.DeadlineAlert})
	require.Less(t, c.now.Sub(right), 3*time.Hour, "all of it at the right time")
	return c
}

func TestACorrectionOfTheTimeIsProved(t *testing.T) {
	t.Parallel()
	r := wrongTime(t).verify()
	require.Empty(t, r.Findings)
	require.Equal(t, verify.Proved, r.Verdict, "%+v", r.Checks)
}

func TestAWrongCorrectionOfTheTimeIsRefuted(t *testing.T) {
	t.Parallel()
	isCorrection := func(f *events.Fact) bool { _, ok := f.Body.(*events.TimeCorrected); return ok }
	early := func(name string) func(c *corrected) string {
		return func(c *corrected) string {
			c.at[name].Time--
			return c.place(c.at[name])
		}
	}
	left := func(task string) func(c *corrected) string {
		return func(c *corrected) string {
			c.drop(func(f *events.Fact) bool { return f == c.at[task+" is corrected"] })
			return c.place(c.at["settled"])
		}
	}
	for name, x := range map[string]struct {
		check, kind string
		do          func(c *corrected) string
	}{
		"the time goes back without the fact": {verify.CheckOwnership, "writer", func(c *corrected) string {
			c.drop(isCorrection)
			return c.place(c.at["timeout of right"])
		}},
		"it is not the first fact of its epoch": {verify.CheckOwnership, "time_corrected", func(c *corrected) string {
			x := c.before(c.at["back"], "", &events.InputsPassed{})
			x.Time = c.at["c3"].Time
			return c.place(c.at["back"])
		}},
		"the time is a minute ahead": {verify.CheckOwnership, "time_corrected", func(c *corrected) string {
			to := c.at["c3"].Time.Add(-time.Minute)
			for _, f := range c.facts {
				if b, ok := f.Body.(*events.TimeCorrected); ok {
					b.To, f.Time = to, max(to, f.Time)
				}
			}
			return c.place(c.at["back"])
		}},
		"its time is another": {verify.CheckOwnership, "time_corrected", func(c *corrected) string {
			c.at["back"].Time++
			return c.place(c.at["back"])
		}},
		"it begins again before it is settled": {verify.CheckOwnership, "time_corrected", func(c *corrected) string {
			c.at["c3"].Time = c.at["last at the wrong time"].Time
			again := c.before(c.at["waits is corrected"], "", &events.TimeCorrected{To: c.at["back"].Time.Add(-time.Hour)})
			again.Time = again.Body.(*events.TimeCorrected).To
			return c.place(again)
		}},
		"a task of the wrong time is left":             {verify.CheckAttempts, "time_corrected", left("parked")},
		"a task of the right time is left":             {verify.CheckAttempts, "time_corrected", left("right")},
		"a fact is decided before it is settled":       {verify.CheckOwnership, "time_corrected", between},
		"a task is corrected to another time":          {verify.CheckOwnership, "time_corrected", elsewhere},
		"another correction is settled":                {verify.CheckOwnership, "time_corrected", settlesAnother},
		"an attempt of the right time times out early": {verify.CheckAttempts, "timeout_early", early("timeout of right")},
		"an attempt of the wrong time times out early": {verify.CheckAttempts, "timeout_early", early("timeout of runs")},
		"a retry comes before its pause is over":       {verify.CheckAttempts, "too_early", early("retry")},
		"a reminder comes early":                       {verify.CheckAttempts, "reminder_early", early("reminder")},
		"a deadline passes early":                      {verify.CheckAttempts, "deadline", early("deadline")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := wrongTime(t)
			want := x.do(c)
			r := c.verify()
			require.Equal(t, verify.Refuted, r.Verdict)
			var found []string
			for _, f := range r.Findings {
				found = append(found, f.Check+"/"+f.Kind+" at "+f.Place.String()+": "+f.What)
			}
			require.True(t, slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Check == x.check && f.Kind == x.kind && f.Place.String() == want }), "%q", found)
		})
	}
}

func between(c *corrected) string {
	return c.place(c.before(c.at["waits is corrected"], "", &events.InputsPassed{}))
}

func elsewhere(c *corrected) string {
	c.at["runs is corrected"].Body.(*events.TimeCorrected).To++
	return c.place(c.at["runs is corrected"])
}

func settlesAnother(c *corrected) string {
	c.at["settled"].Body.(*events.TimeCorrected).To++
	return c.place(c.at["settled"])
}
