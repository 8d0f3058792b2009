package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const trip = `
workflow: trip
defaults: {complete_within: 2m}
steps:
  flight: {child: {workflow: flight-booking}, with: "${ input.flight }", undo: {}}
  hotel:  {child: {workflow: hotel-booking, id: "${ task.id + '-hotel' }", labels: {trip: "${ task.id }", nights: "${ input.hotel.nights }", none: "${ input.none }"}, priority: 3, deadline: 1h}, with: "${ input.hotel }", undo: {}}
  car:    {if: "${ input.car != nil }", child: {workflow: car-booking, version: 2}, with: "${ input.car }", undo: {agent: car-desk}}
  pay:    {needs: [flight, hotel, car], agent: card, with: {amount: "${ steps.flight.output.price + steps.hotel.output.price }"}, undo: {}}
  confirm: {needs: [pay], agent: mailer, pivot: true}
  survey: {needs: [confirm], child: {workflow: survey, detach: true}, with: {trip: "${ task.id }"}}
`

// traveling returns a task of the workflow trip.
func traveling(t *testing.T, steps ...*events.Step) (*scheduler.Scheduler, *events.Task) {
	t.Helper()
	s, task := prepared(t, trip, steps...)
	task.Input = json.RawMessage(`{"flight":{"to":"NRT"},"hotel":{"nights":2},"car":{"size":"small"}}`)
	return s, task
}

// prepared returns a task of a workflow under way.
func prepared(t *testing.T, text string, steps ...*events.Step) (*scheduler.Scheduler, *events.Task) {
	t.Helper()
	src, faults := scheduler.Parse("f", []byte(text), nil)
	require.NotNil(t, src, faults)
	require.Empty(t, faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := json.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	return s, &events.Task{ID: "t-1", Workflow: d.Workflow, Definition: "h", State: events.TaskStateProcessing, Steps: steps}
}

func TestAChildStepStartsATask(t *testing.T) {
	t.Parallel()
	s, task := traveling(t)
	plan, err := s.Plan(task)
	require.NoError(t, err)
	require.Len(t, plan.Ready, 3)
	for _, r := range plan.Ready {
		require.Empty(t, r.Agent)
		_, offered, err := s.Offers(task, r.Path, events.Do)
		require.NoError(t, err)
		require.True(t, offered)
	}
	start := func(path string, op events.Operation) events.Start {
		x, err := s.Start(task, path, op)
		require.NoError(t, err)
		return x
	}
	flight := start("flight", events.Do)
	require.Equal(t, &events.ChildCall{Task: "t-1/flight", Workflow: "flight-booking", Depth: 1}, flight.Child)
	require.JSONEq(t, `{"to":"NRT"}`, string(flight.Input))
	require.True(t, flight.Undoable)
	require.Zero(t, flight.CompleteWithin, "a child may take any time, whatever the default is")
	require.Equal(t, &events.ChildCall{
		Task: "t-1-hotel", Workflow: "hotel-booking", Labels: map[string]string{"trip": "t-1", "nights": "2"}, Priority: 3, Deadline: "1h", Depth: 1,
	}, start("hotel", events.Do).Child)
	require.Equal(t, &events.ChildCall{Task: "t-1/car", Workflow: "car-booking", Version: 2, Depth: 1}, start("car", events.Do).Child)
	require.True(t, start("survey", events.Do).Child.Detach)

	task.Parent = &events.Parent{ParentLink: events.ParentLink{Depth: 4}}
	task.Steps = []*events.Step{{Path: "hotel", State: events.StepStateWaiting, Attempt: 2}}
	again := start("hotel", events.Do).Child
	require.Equal(t, "t-1-hotel~3", again.Task)
	require.Equal(t, 5, again.Depth)
	task.Parent.Depth = events.MaxDepth
	_, err = s.Start(task, "flight", events.Do)
	require.ErrorContains(t, err, "look for a workflow that starts itself")
}

func TestAChildUndoesItself(t *testing.T) {
	t.Parallel()
	done := func(path string, n int) *events.Step {
		return &events.Step{
			Path: path, State: events.StepStateCompleted, Attempt: 1, Touched: true, Undoable: true, Completion: n,
			ByChild: &events.ChildState{Tries: []events.ChildTry{{Task: "t-1/" + path, N: 1}}},
		}
	}
	s, task := traveling(t, done("flight", 2), done("car", 1))
	task.State = events.TaskStateUndoing
	plan, err := s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Ready{{Task: "t-1", Path: "flight", Operation: events.Undo}}, plan.Ready)
	start, err := s.Start(task, "flight", events.Undo)
	require.NoError(t, err)
	require.Equal(t, &events.ChildCall{Task: "t-1/flight"}, start.Child)
	task.Steps = task.Steps[1:]
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, "car-desk", plan.Ready[0].Agent)
	start, err = s.Start(task, "car", events.Undo)
	require.NoError(t, err)
	require.Nil(t, start.Child)

	running := done("flight", 0)
	running.State, running.ByChild.AskedAt = events.StepStateRunning, 1
	task.Steps, task.Reason = []*events.Step{running}, "cancelled"
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.Equal(t, []events.Body{&events.ChildAsked{
		Child: "t-1/flight", Link: events.Link{Task: "t-1", Run: 1, Path: "flight", Operation: events.Do, N: 1}, Cancel: "cancelled",
	}}, plan.Facts)
	running.ByChild.Cancelled = "cancelled"
	plan, err = s.Plan(task)
	require.NoError(t, err)
	require.True(t, plan.Quiet())
	require.Empty(t, plan.Ready, "nothing is undone while a child runs")
}

// A child may take any time, but not the agent that undoes what it did.
func TestAnAgentHasTheDefaultTimeToUndoAChild(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]events.Duration{
		`{child: {workflow: w}, undo: {agent: x}}`:                                              scheduler.DefaultCompleteWithin,
		`{child: {workflow: w}, complete_within: 24h, undo: {agent: x}}`:                        scheduler.DefaultCompleteWithin,
		`{child: {workflow: w}, undo: {agent: x, complete_within: 7s}}`:                         events.Duration(7 * time.Second),
		"{child: {workflow: w}, undo: {agent: x}}\ndefaults: {complete_within: 2m}":             events.Duration(2 * time.Minute),
		"{child: {workflow: w}, undo: {agent: x}}\ndefaults: {undo: {complete_within: 9s}}":     events.Duration(9 * time.Second),
		"{child: {workflow: w}, undo: {}}\ndefaults: {complete_within: 2m}":                     0,
		"{agent: a, complete_within: 1h, undo: {agent: x}}\ndefaults: {complete_within: 2m}":    events.Duration(time.Hour),
		"{child: {workflow: w, detach: true}, undo: {agent: x}}\ndefaults: {undo: {retry: {}}}": scheduler.DefaultCompleteWithin,
	} {
		src, faults := scheduler.Parse("f", []byte("workflow: p\nsteps:\n  a: "+text+"\n"), nil)
		require.Empty(t, faults, text)
		d, err := scheduler.Complete(src.Body)
		require.NoError(t, err)
		require.Equal(t, want, d.Steps[0].Undo.CompleteWithin, text)
	}
}

func TestFaultsOfChildSteps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{child: {}}`:                                                       "workflow is missing",
		`{child: {workflow: w, agent: x}}`:                                  "agent",
		`{child: {workflow: w}, agent: x}`:                                  "not two of them",
		`{child: {workflow: w}, sleep: 1s}`:                                 "not two of them",
		`{child: {workflow: w}, limit: bank}`:                               "a step that a child does has no limit",
		`{child: {workflow: w}, heartbeat: 10s}`:                            "a step that a child does has no heartbeat",
		`{child: {workflow: w}, undo: {with: {a: 1}}}`:                      "name the agent that undoes the step instead, or write undo: {}",
		`{child: {workflow: w, detach: true}, undo: {}}`:                    "a detached child is not undone by its parent",
		`{child: {workflow: w, id: "${ steps.b.output.x }"}}`:               "may not have run yet",
		`{child: {workflow: w, id: "${ nothing }"}}`:                        "unknown name nothing",
		`{child: {workflow: w, labels: {"a:b": x}}}`:                        "not a label",
		`{child: {workflow: w, priority: 5000}}`:                            "5000",
		`{child: {workflow: w, version: 0}}`:                                "0",
		`{child: {workflow: "no name"}}`:                                    "no name",
		`{child: {workflow: w, id: "x", deadline: 1h}, complete_within: 5}`: "duration",
		`{child: {workflow: w, deadline: tomorrow}}`:                        "deadline",
	} {
		src, faults := scheduler.Parse("f", []byte("workflow: p\nsteps:\n  a: "+text+"\n  b: {agent: x}\n"), nil)
		require.Nil(t, src, text)
		list := make([]string, len(faults))
		for i := range faults {
			list[i] = faults[i].Message
		}
		require.Contains(t, strings.Join(list, "\n"), want, text)
	}
}

func TestIDsOfChildren(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 250)
	require.Equal(t, "p/s", events.ChildID("p", "s", "", 1))
	require.Equal(t, "p/s~2", events.ChildID("p", "s", "", 2))
	require.Equal(t, "mine~3", events.ChildID("p", "s", "mine", 3))
	first, second := events.ChildID(long, "step-one", "", 1), events.ChildID(long, "step-one", "", 2)
	require.Len(t, first, events.MaxTaskID)
	require.NotEqual(t, first, second)
	require.NoError(t, events.CheckTaskID(second))
	require.NotEqual(t, first, events.ChildID(long, "step-two", "", 1))
}

func TestWarningsOfChildSteps(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte("workflow: p\nsteps:\n  a: {child: {workflow: w, deadline: 2h}, retry: {attempts: 3, then: park}}\n"), nil)
	require.NotNil(t, src)
	require.Len(t, faults, 1)
	require.True(t, faults[0].Warning)
	require.Contains(t, faults[0].Message, "such a step is not retried automatically")
	require.Contains(t, faults[0].Path, "attempts")
}
