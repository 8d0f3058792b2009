package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	countsPath = "/v1/counts"
	// countsWithin is how long other nodes may take for their part.
	countsWithin = 3 * time.Second
	// maxCounts is how many groups an answer has: those with the most tasks.
	maxCounts = 200
	// MostCounted bounds the tasks that a node looks at for one answer.
	MostCounted = 50_000
)

// Counts counts tasks.
type Counts interface {
	// Count counts the tasks that match, in groups. Partitions of q are those to count; its limit and its cursor are ignored. It looks at
	// MostCounted tasks at most, the newest first: partial says that there are more.
	Count(ctx context.Context, q Query, by GroupBy) (groups []TaskCount, partial bool, err error)
}

// GroupBy says what the tasks of a group have in common.
type GroupBy struct {
	// Kind is state, workflow, step, error_code, reason, waiting_for or label.
	Kind string
	// Label is the key of a label.
	Label string
}

// CountsQuery says which tasks are counted, by the filters of a list, and how they are grouped.
type CountsQuery struct {
	State    []string `query:"state,explode" doc:"As for a list of tasks"`
	Workflow string   `query:"workflow" doc:"As for a list of tasks"`
	Label    []string `query:"label,explode" doc:"As for a list of tasks"`
	Since    string   `query:"since" doc:"As for a list of tasks"`
	Until    string   `query:"until" doc:"As for a list of tasks"`
	Schedule string   `query:"schedule" doc:"As for a list of tasks"`
	Failed   string   `query:"failed_step" doc:"As for a list of tasks"`
	Code     string   `query:"error_code" doc:"As for a list of tasks"`
	Older    string   `query:"older_than" doc:"As for a list of tasks"`
	By       string   `query:"by" default:"state" doc:"What the tasks of a group have in common: state, workflow, step (the step whose last attempt failed), error_code (of that, or the class of an error without a code), reason, waiting_for, or label:KEY. A task may be in several groups of step, error_code and waiting_for" example:"label:tenant"`
}

// TaskCount is how many tasks have something in common.
type TaskCount struct {
	Key    string         `json:"key" doc:"The state, the workflow, the step, the code, the kind of waiting, or the value of the label; empty for tasks without one"`
	Count  int64          `json:"count"`
	Oldest events.Instant `json:"oldest,omitzero" format:"date-time" doc:"When the task that has been unchanged for longest last changed; absent if that is not known"`
}

// CountsDocument is how many tasks there are.
type CountsDocument struct {
	Counts  []TaskCount        `json:"counts" nullable:"false" doc:"The largest first, 200 at most"`
	Total   int64              `json:"total" doc:"The sum of the counts: a task in several groups counts in each"`
	Partial bool               `json:"partial,omitzero" doc:"There are more tasks than were looked at: the counts are minimums"`
	Missing []MissingPartition `json:"missing,omitempty" doc:"The partitions whose tasks are not counted"`
}

// CountsAnswer is how many tasks there are.
type CountsAnswer struct{ Body CountsDocument }

// counts answers how many tasks there are.
type counts struct {
	*lists
	counts Counts
}

func (s *counts) register(api huma.API) {
	huma.Register(api, needsOwner(api, huma.Operation{
		OperationID: "count-tasks", Method: http.MethodGet, Path: countsPath, Summary: "Count tasks", Tags: []string{"tasks"},
		Description: "How many tasks match, in groups. Without a filter, the counts by state and by waiting_for are complete, and those by waiting_for count " +
			"steps, as far as owners answer. Otherwise, and for partitions of other nodes by waiting_for, a node looks at its newest 50,000 tasks that match, " +
			"and says if there are more.",
	}), s.read)
}

func groupBy(text string) (by GroupBy, ok bool) {
	if key, is := strings.CutPrefix(text, "label:"); is {
		return GroupBy{Kind: "label", Label: key}, key != ""
	}
	return GroupBy{Kind: text}, slices.Contains([]string{"state", "workflow", "step", "error_code", "reason", "waiting_for"}, text)
}

func (s *counts) read(ctx context.Context, in *CountsQuery) (*CountsAnswer, error) {
	q, err := s.query(&ListQuery{
		State: in.State, Workflow: in.Workflow, Label: in.Label, Since: in.Since, Until: in.Until, Schedule: in.Schedule, Failed: in.Failed, Code: in.Code, Older: in.Older,
	})
	if err != nil {
		return nil, err
	}
	by, ok := groupBy(cmp.Or(in.By, "state"))
	if !ok {
		return nil, parameterProblem("by", "is not state, workflow, step, error_code, reason, waiting_for or label:KEY")
	}
	asked, ok := s.proxy.Asked(exchangeOf(ctx).r)
	if !ok {
		return nil, parameterProblem(proxy.HeaderPartitions, "is not a list of partitions")
	}
	at := s.proxy.Locate()
	out := &CountsAnswer{}
	partitions := asked
	if asked == nil {
		var unknown []int32
		partitions, unknown = readableOf(&at, s.router)
		out.Body.lacks(unknown)
	}
	if err := s.countHere(ctx, q, by, partitions, &out.Body); err != nil {
		return nil, err
	}
	if asked == nil {
		s.askOthers(ctx, &q, in.By, at.There, &out.Body)
		sayStopped(s.router, out.Body.Missing)
		out.Body.cut()
	}
	return out, nil
}

func (s *counts) countHere(ctx context.Context, q Query, by GroupBy, partitions []int32, out *CountsDocument) error {
	if len(partitions) == 0 {
		return nil
	}
	q.Partitions = partitions
	list, partial, err := s.counts.Count(ctx, q, by)
	if err != nil {
		return s.log.internal(ctx, "count tasks", err)
	}
	out.add(list)
	out.Partial = out.Partial || partial
	out.lacks(s.proxy.Unreadable(partitions)) // looked at last: a partition that has left by then may have been incomplete
	return nil
}

func (s *counts) askOthers(ctx context.Context, q *Query, by string, there map[proxy.Route][]int32, out *CountsDocument) {
	ctx, cancel := context.WithTimeout(ctx, countsWithin)
	defer cancel()
	values := q.values()
	values.Del("limit")
	values.Set("by", by)
	s.proxy.AskEach(ctx, there, proxy.Question{Path: countsPath, Query: values}, func(partitions []int32, answer []byte, err error) error {
		var theirs CountsDocument
		if err == nil {
			err = json.Unmarshal(answer, &theirs)
		}
		if err != nil {
			out.lacks(partitions)
			return err
		}
		out.add(theirs.Counts)
		out.Partial = out.Partial || theirs.Partial
		out.Missing = append(out.Missing, theirs.Missing...)
		return nil
	})
}

// add merges groups into those that the document has already.
func (d *CountsDocument) add(list []TaskCount) {
	for _, c := range list {
		i := slices.IndexFunc(d.Counts, func(o TaskCount) bool { return o.Key == c.Key })
		if i < 0 {
			d.Counts = append(d.Counts, c)
			continue
		}
		d.Counts[i].Count += c.Count
		d.Counts[i].Oldest = older(d.Counts[i].Oldest, c.Oldest)
	}
}

func older(a, b events.Instant) events.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (d *CountsDocument) lacks(partitions []int32) {
	for _, p := range partitions {
		d.Missing = append(d.Missing, MissingPartition{Partition: p, Reason: codeTakeover})
	}
}

func (d *CountsDocument) cut() {
	slices.SortFunc(d.Counts, func(a, b TaskCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Key, b.Key)) })
	for _, c := range d.Counts {
		d.Total += c.Count
	}
	if len(d.Counts) > maxCounts {
		d.Counts = d.Counts[:maxCounts]
	}
	if d.Counts == nil {
		d.Counts = []TaskCount{}
	}
	slices.SortFunc(d.Missing, func(a, b MissingPartition) int { return cmp.Compare(a.Partition, b.Partition) })
}
