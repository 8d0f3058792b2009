package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is the value of a record of the definitions with the type TypeJob: an operator asks for a verb for each task that a filter matches and
// that was submitted before the job was opened. Each owner works on the tasks of its partitions. The requests of a job have the ID RequestID,
// and a task remembers the requests that it judged, so a job that is worked on twice does nothing twice.
type Job struct {
	ID   string `json:"id"`
	Verb Verb   `json:"verb"`
	// Args are the members of the verb, the same for each task.
	Args   json.RawMessage `json:"args,omitempty"`
	Filter JobFilter       `json:"filter"`
	Reason string          `json:"reason,omitempty"`
	By     string          `json:"by,omitempty"`
	// Rate is how many tasks may be asked in a time, such as 100/s; "" does not limit it.
	Rate string `json:"rate,omitempty"`
	// Limit is how many tasks could match when the job was opened; zero does not limit it.
	Limit int `json:"limit,omitzero"`
	// Expected is how many tasks matched when the job was opened; zero if they were not counted.
	Expected int `json:"expected,omitzero"`
}

// JobFilter selects the tasks of a job. A member that is not set does not filter.
type JobFilter struct {
	// All says that the filter shall match every task, which an empty one must say.
	All      bool        `json:"all,omitzero"`
	State    []TaskState `json:"state,omitempty"`
	Workflow string      `json:"workflow,omitempty"`
	// Label are labels as key:value; a task must have all of them.
	Label []string `json:"label,omitempty"`
	// Since (inclusive) and Until (exclusive) bound the time of submission: an instant, or a duration before the job was opened.
	Since string `json:"since,omitempty" schema:"type:Duration|Instant"`
	Until string `json:"until,omitempty" schema:"type:Duration|Instant"`
	// Schedule, FailedStep and ErrorCode are those of a TaskMatch. OlderThan is until when a task must have changed last: an instant, or a duration before the
	// job was opened.
	Schedule   string `json:"schedule,omitempty"`
	FailedStep string `json:"failed_step,omitempty"`
	ErrorCode  string `json:"error_code,omitempty"`
	OlderThan  string `json:"older_than,omitempty" schema:"type:Duration|Instant"`
}

// The limits of a job.
const (
	MaxJobID    = 50
	MaxJobBytes = 32 << 10
	// MaxJobRefusals is how many refusals the progress of one partition keeps.
	MaxJobRefusals = 20
)

// JobProgress is the value of a record with the type TypeJobProgress: how far a job is in a partition. The owner writes it before it asks
// tasks beyond Ahead, so that its successor knows which tasks may have been asked.
type JobProgress struct {
	Job       string `json:"job"`
	Partition int32  `json:"partition"`
	// Epoch is the number of the writer's epoch: records of an older one do not count.
	Epoch uint64 `json:"epoch"`
	// Cursor is where the list of tasks continues, and Ahead where the tasks begin that nobody has asked; "." is the end of the list.
	Cursor string `json:"cursor,omitempty"`
	Ahead  string `json:"ahead,omitempty"`
	// Granted and Refused count the tasks before Cursor by what became of their request.
	Granted int `json:"granted"`
	Refused int `json:"refused"`
	// Refusals are the first tasks that refused, with the reasons.
	Refusals []JobRefusal `json:"refusals,omitempty"`
	// Done says that the owner does nothing more for the job here.
	Done bool `json:"done,omitzero"`
}

// JobRefusal says why a task refused the request of a job.
type JobRefusal struct {
	Task   string `json:"task"`
	Reason string `json:"reason"`
}

// JobStop is the value of a record with the type TypeJobStop: an operator stops a job.
type JobStop struct {
	Job    string `json:"job"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// keyJob is the prefix of the keys of the records of jobs, and of the IDs of their requests.
const keyJob = "job/"

// Key is the key of its record.
func (j *Job) Key() string { return keyJob + j.ID }

// Key is the key of its record. The latest record of a key counts.
func (p *JobProgress) Key() string { return keyJob + p.Job + "/" + strconv.Itoa(int(p.Partition)) }

// Key is the key of its record.
func (s *JobStop) Key() string { return keyJob + s.Job + "/stop" }

// RequestID returns the ID of the requests of a job.
func (j *Job) RequestID() string { return keyJob + j.ID }

// Same says whether the job asks for the same as another: it may have been opened by somebody else, and have been counted at another time.
func (j *Job) Same(o *Job) bool {
	a, b := *j, *o
	a.By, a.Expected, b.By, b.Expected = "", 0, "", 0
	x, errX := Marshal(a)
	y, errY := Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

var jobID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckJobID returns an error if id cannot be the ID of a job.
func CheckJobID(id string) error {
	if len(id) > MaxJobID || !jobID.MatchString(id) {
		return fmt.Errorf("%q is not a valid ID: use a letter or digit, followed by up to %d of a-z, A-Z, 0-9, ., _ and -", Clip(id, maxQuotedBytes), MaxJobID-1)
	}
	return nil
}

// Empty says that the filter names nothing.
func (f *JobFilter) Empty() bool {
	return len(f.State) == 0 && f.Workflow == "" && len(f.Label) == 0 && f.Since == "" && f.Until == "" &&
		f.FailedStep == "" && f.ErrorCode == "" && f.OlderThan == "" && f.Schedule == ""
}

// Labels returns the labels by key.
func (f *JobFilter) Labels() map[string]string {
	labels := map[string]string{}
	for _, l := range f.Label {
		k, v, _ := strings.Cut(l, ":")
		labels[k] = v
	}
	return labels
}

// Window returns the instants between which a task must have been submitted, for a job that was opened at the given instant; since is zero
// if it is not bounded.
func (f *JobFilter) Window(opened Instant) (since, until Instant, err error) {
	if since, err = windowEnd(f.Since, opened); err != nil {
		return 0, 0, err
	}
	if until, err = windowEnd(f.Until, opened); err != nil {
		return 0, 0, err
	}
	switch {
	case f.Until == "" || until > opened:
		until = opened
	case until == 0: // in a filter of the store this would be no bound, and match every task
		until--
	}
	return since, until, nil
}

func windowEnd(text string, opened Instant) (Instant, error) {
	if text == "" {
		return 0, nil
	}
	if i, err := ParseInstant(text); err == nil {
		return i, nil
	}
	if d, err := ParseDuration(text); err == nil && d >= 0 {
		return opened.Add(-d.Std()), nil
	}
	return 0, errors.New("is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 24h")
}

// Match returns what the filter says about the steps and the last change of a task, for a job that was opened at the given instant.
func (f *JobFilter) Match(opened Instant) (TaskMatch, error) {
	by, err := windowEnd(f.OlderThan, opened)
	return TaskMatch{Schedule: f.Schedule, FailedStep: f.FailedStep, ErrorCode: f.ErrorCode, ChangedBy: by}, err
}

// Matches says whether a task has one of the states of the filter, and fits the match. The other members of the filter are about what never changes.
func (f *JobFilter) Matches(t *Task, m TaskMatch) bool {
	return (len(f.State) == 0 || slices.Contains(f.State, t.State)) && m.Fits(t)
}

// ratePeriods are the units of a rate.
var ratePeriods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// maxRate is far above what an engine can do.
const maxRate = 1_000_000

// ParseRate reads a rate such as 100/s, 30/m or 5/h, and returns it as the time for each task; "" is no limit, and zero time.
func ParseRate(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	count, unit, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	period := ratePeriods[unit]
	if !ok || err != nil || n < 1 || n > maxRate || period == 0 {
		return 0, errors.New("is not a rate such as 100/s, 30/m or 5/h, from 1 to 1,000,000")
	}
	return period / time.Duration(n), nil
}
