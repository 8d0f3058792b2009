package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

func TestActsAreThoseOfOperators(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	a := newActs(begun)
	add := func(b events.Body) { a.fact(&events.Fact{Time: 7, Task: "t1", Body: b}) }
	add(&events.StepCompleted{Step: "pack", Attempt: 1})
	add(&events.ScheduleFired{Schedule: "nightly", Task: "n1"})
	add(&events.CancelRequested{Request: "job/j1", By: "ada"})
	add(&events.CancelRequested{Request: "n1", By: events.ScheduleKey("nightly")})
	add(&events.SignalReceived{Request: "s", By: "shop"})
	add(&events.RequestRefused{Request: "s2", Verb: events.RequestSignal, By: "shop"})
	add(&events.TaskReopened{Request: "r1", Steps: []string{"pack", "ship"}, By: "ada", Reason: "the bank is back"})
	add(&events.StepSkipped{Step: "pack", Operator: events.Operator{Request: "r2", By: "bob"}})
	add(&events.RequestRefused{Request: "r3", Verb: events.RequestRetry, By: "ada", Reason: "the task has ended"})
	a.fact(&events.Fact{Time: 8, Body: &events.SchedulePaused{Schedule: "nightly", Request: "r4", By: "ada"}})
	list, since := a.Decided()
	require.Equal(t, events.At(begun), since)
	require.Equal(t, []api.Act{
		{At: 7, By: "ada", Verb: "retry", Kind: "task", Subject: "t1", Detail: "pack, ship", Result: "granted", Reason: "the bank is back", Request: "r1"},
		{At: 7, By: "bob", Verb: "skip", Kind: "task", Subject: "t1", Detail: "pack", Result: "granted", Request: "r2"},
		{At: 7, By: "ada", Verb: "retry", Kind: "task", Subject: "t1", Result: "refused", Reason: "the task has ended", Request: "r3"},
		{At: 8, By: "ada", Verb: "pause", Kind: "schedule", Subject: "nightly", Result: "granted", Request: "r4"},
	}, list)
}

func TestTheLatestActsAreKept(t *testing.T) {
	t.Parallel()
	a := newActs(time.Unix(1000, 0))
	for i := range api.MaxActs + 3 {
		a.fact(&events.Fact{Time: events.Instant(i), Task: "t", Body: &events.TaskPaused{Request: fmt.Sprint(i)}})
	}
	list, _ := a.Decided()
	require.Len(t, list, api.MaxActs)
	require.Equal(t, "3", list[0].Request)
}

func TestActsComeFromTheDefinitions(t *testing.T) {
	t.Parallel()
	a := newActs(time.Unix(1000, 0))
	r, err := scheduler.EncodeAgentPause(&events.AgentPause{Agent: "bank", Paused: true, By: "ada", Reason: "down"}, events.Subject{ID: "1", Source: "/s", Time: 9})
	require.NoError(t, err)
	a.record(&r)
	r, err = scheduler.EncodeAgentPause(&events.AgentPause{Agent: "bank", By: "ada"}, events.Subject{ID: "2", Source: "/s", Time: 10})
	require.NoError(t, err)
	a.record(&r)
	require.Equal(t, []api.Act{
		{At: 9, By: "ada", Verb: "pause", Kind: "agent", Subject: "bank", Result: "granted", Reason: "down"},
		{At: 10, By: "ada", Verb: "resume", Kind: "agent", Subject: "bank", Result: "granted"},
	}, a.Defined())
}
