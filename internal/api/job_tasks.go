package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// countWithin is how long the tasks of a job are counted: people wait for it. That is enough for about a million.
const countWithin = 10 * time.Second

// jobExamples is how many tasks a dry run shows.
const jobExamples = 10

// JobResultsQuery selects results of a job.
type JobResultsQuery struct {
	JobPath
	Result string    `query:"result" enum:"granted,refused" doc:"Only these; both without it"`
	Limit  pageLimit `query:"limit" default:"100" doc:"Tasks that a page looks at"`
	Cursor string    `query:"cursor" doc:"next of the page before"`
}

// JobResults is one page of the results of a job.
type JobResults struct {
	Results []JobResult        `json:"results" nullable:"false"`
	Next    string             `json:"next,omitempty" doc:"The cursor of the next page; absent on the last"`
	Missing []MissingPartition `json:"missing,omitempty" doc:"The partitions whose tasks this page lacks"`
}

// JobResultsAnswer is one page of the results of a job.
type JobResultsAnswer struct{ Body JobResults }

// query returns the tasks that the filter of a job matches, if it was opened at that instant.
func (s *jobs) query(job *events.Job, opened events.Instant) (Query, error) {
	f := &job.Filter
	q := Query{States: f.State, Workflow: f.Workflow, Labels: f.Labels(), Limit: MaxLimit, Brief: true}
	q.Fields = []string{"id", "workflow", "state", "reason", "submitted_at"}
	var err error
	if q.Match, err = f.Match(opened); err == nil {
		q.Since, q.Until, err = f.Window(opened)
	}
	return q, err
}

// count counts the tasks that match as of now.
func (s *jobs) count(ctx context.Context, job *events.Job) (c JobCount, err error) {
	c.ByState, c.Examples = map[string]int{}, []JobExample{}
	q, err := s.query(job, events.At(s.now()))
	if err != nil {
		return c, s.log.internal(ctx, "read the filter of a job", err)
	}
	if err := s.lists.room.enter(ctx, q, false); err != nil {
		return c, err
	}
	for end := time.Now().Add(countWithin); ; {
		page, err := s.lists.readAll(ctx, q)
		if err != nil {
			return c, s.log.internal(ctx, "count the tasks of a job", err)
		}
		if len(page.Missing) > 0 {
			missing := make([]int32, len(page.Missing))
			for i, m := range page.Missing {
				missing[i] = m.Partition
			}
			return c, s.lists.unread(missing)
		}
		for _, t := range page.Tasks {
			c.Matched++
			c.ByState[t.State]++
			if len(c.Examples) < jobExamples {
				c.Examples = append(c.Examples, JobExample{t.ID, t.Workflow, t.State, t.Reason})
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return c, nil
		}
		if time.Now().After(end) {
			c.More = true
			return c, nil
		}
	}
}

// results returns what became of the tasks of a job. The refusals that the job itself knows come first: tasks that had ended do not remember
// theirs. The others are in the tasks.
func (s *jobs) results(ctx context.Context, in *JobResultsQuery) (*JobResultsAnswer, error) {
	job, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &JobResultsAnswer{}
	out.Body.Results = []JobResult{}
	first := map[string]bool{}
	for _, r := range job.Refusals {
		first[r.Task] = true
		if in.Cursor == "" && in.Result != resultGranted {
			out.Body.Results = append(out.Body.Results, JobResult{r.Task, resultRefused, r.Reason})
		}
	}
	q, err := s.query(&job.Job, job.OpenedAt)
	if err != nil {
		return nil, s.log.internal(ctx, "read the filter of a job", err)
	}
	q.Match = events.TaskMatch{} // they have changed since
	q.States, q.Brief, q.Limit, q.Cursor, q.Request = nil, false, int(in.Limit), in.Cursor, job.RequestID()
	q.Fields = []string{"id", "submitted_at", "request"}
	if err := s.lists.room.enter(ctx, q, false); err != nil {
		return nil, err
	}
	page, err := s.lists.readAll(ctx, q)
	if err != nil {
		return nil, s.log.internal(ctx, "list the results of a job", err)
	}
	out.Body.Next, out.Body.Missing = page.Next, page.Missing
	for _, t := range page.Tasks {
		r := t.Request
		if r == nil || first[t.ID] || in.Result != "" && in.Result != r.Result {
			continue
		}
		out.Body.Results = append(out.Body.Results, JobResult{t.ID, r.Result, r.Reason})
	}
	return out, nil
}

// judgedBy keeps only the tasks of a page that have judged a request.
func judgedBy(tasks []*events.Task, request string) []*events.Task {
	return slices.DeleteFunc(tasks, func(t *events.Task) bool { return !t.HasRequest(request) })
}

// requestParameter checks the ID of a request in a list of tasks.
func requestParameter(id string) *Problem {
	if id == "" || events.CheckTaskID(id) == nil {
		return nil
	}
	return problem(http.StatusUnprocessableEntity, codeInvalid, "The request has parameters that cannot be used.",
		ProblemPlace{Parameter: "request", Message: "is not the ID of a request"})
}
