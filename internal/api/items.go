package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const itemsPath = "/v1/tasks/{id}/steps/{step}/items"

// FanOutDocument counts the items of a fan-out, so that a task with thousands of them has a short document.
type FanOutDocument struct {
	Count     int    `json:"count" doc:"How many items there are"`
	Tolerate  int    `json:"tolerate" doc:"How many of them may fail"`
	Collect   string `json:"collect" enum:"outputs,failures,none" doc:"What the output of the step is made of"`
	Begun     int    `json:"begun" doc:"How many have begun: those with a lower index"`
	Completed int    `json:"completed"`
	Failed    int    `json:"failed" doc:"How many have failed: those that are tolerated and, in a task that is parked or undone, others too"`
	Skipped   int    `json:"skipped"`
	Undone    int    `json:"undone" doc:"How many were undone"`
	Left      int    `json:"left" doc:"How many count as undone, but an operator left something of what they did"`
	Running   int    `json:"running" doc:"How many have begun and are not over: they run, wait, or are being undone"`
}

// fanOutDocument counts the items of a fan-out, nil for other steps.
func fanOutDocument(t *events.Task, s *events.Step) *FanOutDocument {
	f := s.Fan
	if f == nil {
		return nil
	}
	d := &FanOutDocument{
		Count: f.Count, Tolerate: f.Tolerate, Collect: f.Collect, Begun: f.Begun, Completed: f.Completed, Failed: f.Failed, Skipped: f.Skipped, Undone: f.Undone,
		Running: f.Open(),
	}
	if f.Open() == 0 && f.Undone == 0 {
		return d
	}
	for _, x := range t.Steps { // the fold counts only what lets the task go on
		switch {
		case !events.IsItemOf(x.Path, s.Path):
		case x.State == events.StepStateUndone && x.Left && !x.Continued:
			d.Undone, d.Left = d.Undone-1, d.Left+1
		case x.Failed() && !x.Continued, x.State == events.StepStateUndoFailed:
			d.Running, d.Failed = d.Running-1, d.Failed+1
		}
	}
	return d
}

// ItemDocument is an item of a fan-out: a step with its index.
type ItemDocument struct {
	Index int `json:"index" doc:"From 0. The ID of the item is that of the step with the index: send[17]"`
	StepDocument
}

// ItemsQuery asks for items of a fan-out.
type ItemsQuery struct {
	TaskPath
	Step  string    `path:"step" doc:"The ID of the step, percent-encoded"`
	State []string  `query:"state,explode" doc:"Only items in this state; several, repeated or with commas between them, mean any of these. failed includes items that were undone after they had failed" example:"failed"`
	After int       `query:"after" default:"-1" minimum:"-1" maximum:"9999" doc:"next of the page before: only items with a higher index"`
	Limit pageLimit `query:"limit" default:"100" doc:"Items a page"`
	At    string    `query:"at" doc:"Read the items as they were then: an instant, or partition@offset of a fact" example:"3@1200"`
}

// ItemList is one page of items.
type ItemList struct {
	Items []ItemDocument `json:"items" nullable:"false" doc:"In the order of their indexes. Items that have not begun are not in it"`
	Next  string         `json:"next,omitempty" doc:"The parameter after of the next page; absent on the last"`
	At    *AtDocument    `json:"at,omitempty" doc:"With the parameter at: the last fact that the page reflects"`
}

// ItemsAnswer is one page of items.
type ItemsAnswer struct{ Body ItemList }

func (s *tasks) registerItems(api huma.API) {
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "list-items", Method: http.MethodGet, Path: itemsPath, Summary: "List the items of a fan-out", Tags: []string{"tasks"},
		Description: "A page may be shorter than its limit and still have a next, as it ends early when its items are large. " +
			"The ID of an item, such as send[17], is its step in the requests to retry, skip, complete and fail.",
	}), s.items)
}

func (s *tasks) items(ctx context.Context, in *ItemsQuery) (*ItemsAnswer, error) {
	if err := checkID(in.ID); err != nil {
		return nil, err
	}
	states, ok := parseStepStates(in.State)
	if !ok {
		return nil, parameterProblem("state", "is not a state of a step; the states are "+strings.Join(stepStates, ", "))
	}
	t, at, err := s.taskAt(ctx, in.ID, in.At)
	if err != nil {
		return nil, err
	}
	fan := t.Step(in.Step)
	if fan == nil || fan.Fan == nil {
		return nil, problem(http.StatusNotFound, codeNotFound, "The task has no items of this step: it has no for, or its items have not begun. The steps of the task say which have fan_out.")
	}
	page := itemPage(t, in, states)
	page.At = at
	return &ItemsAnswer{Body: page}, nil
}

// taskAt returns a task as it is, or as it was at the moment of the parameter at.
func (s *tasks) taskAt(ctx context.Context, id, at string) (*events.Task, *AtDocument, error) {
	if at != "" {
		t, e, _, err := s.past.task(ctx, id, at)
		return t, e.at(), err
	}
	t, err := s.log.known(ctx, s.tasks, id)
	if err != nil {
		return nil, nil, err
	}
	return s.documents.opened(t), nil, nil
}

// inState says whether an item is in one of the states. One that failed has failed, even if it was undone since.
func inState(s *events.Step, states []string) bool {
	failed := s.Tolerated() || s.State == events.StepStateUndone && s.Completion == 0 && s.Error != nil
	return slices.Contains(states, string(s.State)) || failed && slices.Contains(states, string(events.StepStateFailed))
}

func itemPage(t *events.Task, in *ItemsQuery, states []string) ItemList {
	type item struct {
		index int
		*events.Step
	}
	var items []item
	for _, s := range t.Steps {
		step, index, is := events.SplitItem(s.Path)
		if is && s.State != events.StepStateNotStarted && step == in.Step && index > in.After && (len(states) == 0 || inState(s, states)) {
			items = append(items, item{index, s})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.index, b.index) })
	page := ItemList{Items: []ItemDocument{}}
	size := 0
	for i, x := range items {
		if i == int(in.Limit) || size > listBytes {
			page.Next = strconv.Itoa(items[i-1].index)
			break
		}
		size += stepBytes(x.Step)
		page.Items = append(page.Items, ItemDocument{Index: x.index, StepDocument: stepDocument(x.Step)})
	}
	return page
}

// stepBytes is about how many bytes a step takes in memory.
func stepBytes(s *events.Step) int { return 256 + len(s.Input) + len(s.Output) }

// bytesOfItems is about how many bytes the items of a task take, which its document does not have.
func bytesOfItems(t *events.Task) (n int) {
	for _, s := range t.Steps {
		if events.IsItem(s.Path) {
			n += stepBytes(s)
		}
	}
	return n
}

var stepStates = []string{
	string(events.StepStateNotStarted), string(events.StepStateRunning), string(events.StepStateWaiting), string(events.StepStateCompleted),
	string(events.StepStateFailed), string(events.StepStateTimedOut), string(events.StepStateSkipped), string(events.StepStateUndoing),
	string(events.StepStateUndone), string(events.StepStateUndoFailed),
}

func parseStepStates(given []string) (states []string, ok bool) {
	for _, list := range given {
		for state := range strings.SplitSeq(list, ",") {
			switch {
			case state == "" && list == "": // an empty parameter does not filter
			case !slices.Contains(stepStates, state):
				return nil, false
			default:
				states = append(states, state)
			}
		}
	}
	return states, true
}
