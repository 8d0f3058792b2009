package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// Query says which tasks List returns: those that fit all members that are given. The zero value is all tasks.
type Query struct {
	// States: the task is in one of them. The text "parked" is taken for StateParked.
	States   []State
	Workflow string
	// Labels: the task has all of them.
	Labels map[string]string
	// Since and Until: the task was submitted at or after Since, and before Until.
	Since, Until time.Time
	// Schedule started the task; Parent is the task that did.
	Schedule, Parent string
	// FailedStep: the last attempt of this step, or of its undo, has failed.
	FailedStep string
	// ErrorCode is the code of such an error, or its class if it has no code.
	ErrorCode string
	// UnchangedSince: the task has not changed since then.
	UnchangedSince time.Time
	// WaitingFor is a Waiting.Kind; Agent is the agent that a step waits for.
	WaitingFor, Agent string
	// Brief leaves out input, output and steps, so that the engine need not read them. Lists of large tasks are then fast.
	Brief bool
	// PageSize is how many tasks one call of the API asks for; default 100, at most 1,000.
	PageSize int
}

// briefFields are the members of a brief task.
var briefFields = []string{
	"id", "run", "workflow", "version", "state", "priority", "fair_by", "labels", "submitted_at", "updated_at", "ended_at", "deadline", "parked_at",
	"not_before", "locked_by", "failure_count", "reason", "paused", "schedule", "parent",
}

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

func (q *Query) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(instantLayout))
		}
	}
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	for k, l := range q.Labels {
		v.Add("label", k+":"+l)
	}
	set("workflow", q.Workflow)
	set("schedule", q.Schedule)
	set("parent", q.Parent)
	set("failed_step", q.FailedStep)
	set("error_code", q.ErrorCode)
	set("waiting_for", q.WaitingFor)
	set("agent", q.Agent)
	instant("since", q.Since)
	instant("until", q.Until)
	instant("older_than", q.UnchangedSince)
	if q.Brief {
		v.Set("fields", strings.Join(briefFields, ","))
	}
	if q.PageSize > 0 {
		v.Set("limit", strconv.Itoa(q.PageSize))
	}
	return v
}

// List returns the tasks that fit a query, the newest first, and calls for pages as the loop goes on. An error is the last thing that it
// yields. Tasks that change or come during the loop may be missing from it, but none is there twice in the same state.
//
// The tasks of a partition that cannot be read for the moment, as during a take-over, come later than their place. If it cannot be read for
// HTTPConfig.RetryFor, the error is ErrUnavailable and names it.
func (e *Engine) List(ctx context.Context, q Query) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		if q.PageSize < 0 {
			yield(nil, &Error{Kind: ErrInvalid, Places: []Place{{Pointer: "limit", Message: fmt.Sprintf("is %d: Query.PageSize is 0 for the default, or 1 to 1,000", q.PageSize)}}})
			return
		}
		var since time.Time // since when nothing but missing partitions came
		query := q.values()
		for {
			var page struct {
				Tasks   []*Task `json:"tasks"`
				Next    string  `json:"next"`
				Missing []struct {
					Partition int32  `json:"partition"`
					Reason    string `json:"reason"`
				} `json:"missing"`
			}
			c := call{method: http.MethodGet, path: "/v1/tasks", query: query, engines: func() bool { return page.Tasks != nil }}
			if err := e.api.insist(ctx, c, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
			if len(page.Missing) == 0 || len(page.Tasks) > 0 {
				since = time.Time{}
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) > e.api.retryFor || !pause.For(ctx, retryMost/2) {
				m := page.Missing[0]
				yield(nil, fmt.Errorf("%w: list tasks at %s: partition %d cannot be read (%s)", ErrUnavailable, e.api.base, m.Partition, m.Reason))
				return
			}
		}
	}
}

// Event is a fact of a task: one line of its history.
type Event struct {
	// Partition and Offset are its place in the log.
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	// Type is the kind of fact, such as StepCompleted, which is the text of an events.Name; events.NameStepCompleted has it. FORMAT.md describes each
	// with its Data.
	Type string `json:"type"`
	// Owner is the node that decided it.
	Owner   string `json:"owner"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Cause is the input or the fact that led to it, such as s/3/120: offset 120 of partition 3 of the submissions.
	Cause string `json:"cause"`
	// Text says in a sentence what it means. It may change from release to release: programs read Type and Data.
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
}

// History returns the facts of a task up to now, the oldest first, and calls for pages as the loop goes on. An error is the last thing that
// it yields.
func (e *Engine) History(ctx context.Context, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := checkTask(id); err != nil {
			yield(Event{}, err)
			return
		}
		query := url.Values{}
		for {
			var page struct {
				Events []Event `json:"events"`
				Next   string  `json:"next"`
			}
			c := call{method: http.MethodGet, path: taskPath(id) + "/history", query: query, engines: func() bool { return page.Events != nil }}
			if err := e.api.insist(ctx, c, &page); err != nil {
				yield(Event{}, err)
				return
			}
			for _, x := range page.Events {
				if !yield(x, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}
