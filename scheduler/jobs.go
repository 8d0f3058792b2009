package scheduler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// MaxOpenJobs bounds the jobs that have not ended: each has a goroutine for each partition. All readers ignore a record that would
	// open one more.
	MaxOpenJobs = 20
	// MaxJobs bounds the jobs that are remembered. The one that ended first is forgotten first.
	MaxJobs = 200
	// JobsRememberedFor is how long a job is remembered after its end. It is forgotten when another job is opened.
	JobsRememberedFor = 7 * 24 * time.Hour
)

// JobRecord is a job and what is known about it. It is read-only.
type JobRecord struct {
	events.Job
	// OpenedAt is when it was opened.
	OpenedAt events.Instant
	// Stop is the record that stopped it, nil if none has.
	Stop *events.JobStop
	// Progress is the progress of each partition that has begun.
	Progress map[int32]events.JobProgress
	// EndedAt is when its last partition was done, zero before that.
	EndedAt events.Instant
}

// Jobs returns the jobs by ID. The map is read-only.
func (c *Catalog) Jobs() map[string]JobRecord { return c.now.Load().jobs }

// OpenJobs counts the jobs that have not ended.
func (c *Catalog) OpenJobs() int { return openJobs(c.now.Load().jobs) }

func openJobs(jobs map[string]JobRecord) (n int) {
	for _, j := range jobs {
		if j.EndedAt == 0 {
			n++
		}
	}
	return n
}

// applyJob opens a job. The first record of an ID counts.
func (c *Catalog) applyJob(e events.Envelope, data []byte) error {
	var r JobRecord
	if err := json.Unmarshal(data, &r.Job); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeJob, err)
	}
	if err := usableJob(&r.Job, data); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeJob, err)
	}
	var err error
	if r.OpenedAt, err = appliedAt(e.Time); err != nil {
		return err
	}
	s := *c.now.Load()
	if _, known := s.jobs[r.ID]; known {
		return nil
	}
	if openJobs(s.jobs) >= MaxOpenJobs {
		return fmt.Errorf("job %q is not opened: %d jobs are open already", r.ID, MaxOpenJobs)
	}
	s.jobs = remembered(s.jobs, r.OpenedAt)
	s.jobs[r.ID] = r
	c.now.Store(&s)
	return nil
}

// usableJob says why a job that was not written by the API cannot be used.
func usableJob(j *events.Job, data []byte) error {
	if err := events.CheckJobID(j.ID); err != nil {
		return err
	}
	if len(data) > events.MaxJobBytes {
		return fmt.Errorf("job %q has %d bytes, and may have %d", j.ID, len(data), events.MaxJobBytes)
	}
	if !slices.Contains(events.Verbs(), j.Verb) {
		return fmt.Errorf("job %q: %q is not a verb", j.ID, events.Clip(string(j.Verb), maxQuotedBytes))
	}
	if len(j.Args) > 0 {
		if err := json.Unmarshal(j.Args, new(events.Request)); err != nil { // no owner could ask a task, and the job would never end
			return fmt.Errorf("job %q: its arguments: %w", j.ID, err)
		}
	}
	if _, err := events.ParseRate(j.Rate); err != nil {
		return fmt.Errorf("job %q: its rate %w", j.ID, err)
	}
	if _, _, err := j.Filter.Window(0); err != nil {
		return fmt.Errorf("job %q: its filter %w", j.ID, err)
	}
	if j.Filter.Empty() && !j.Filter.All {
		return fmt.Errorf("job %q: its filter is empty", j.ID)
	}
	return nil
}

// remembered returns a copy of the jobs with room for one more.
func remembered(jobs map[string]JobRecord, now events.Instant) map[string]JobRecord {
	next := make(map[string]JobRecord, len(jobs)+1)
	var ended []JobRecord
	for id, j := range jobs {
		next[id] = j
		if j.EndedAt != 0 {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b JobRecord) int { return cmp.Or(cmp.Compare(a.EndedAt, b.EndedAt), cmp.Compare(a.ID, b.ID)) })
	for _, j := range ended {
		if len(next) >= MaxJobs || j.EndedAt.Add(JobsRememberedFor) < now {
			delete(next, j.ID)
		}
	}
	return next
}

// applyJobProgress takes the progress of a partition, unless a newer owner has written its own, or the partition is done.
func (c *Catalog) applyJobProgress(e events.Envelope, data []byte) error {
	var p events.JobProgress
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeJobProgress, err)
	}
	at, err := appliedAt(e.Time)
	if err != nil {
		return err
	}
	s := *c.now.Load()
	j, known := s.jobs[p.Job]
	old, begun := j.Progress[p.Partition]
	if !known || old.Done || s.namespace == nil || p.Partition < 0 || p.Partition >= s.namespace.Partitions || begun && p.Epoch < old.Epoch {
		return nil
	}
	p.Refusals = p.Refusals[:min(len(p.Refusals), events.MaxJobRefusals)]
	if j.Progress = maps.Clone(j.Progress); j.Progress == nil {
		j.Progress = map[int32]events.JobProgress{}
	}
	j.Progress[p.Partition] = p
	done := 0
	for _, of := range j.Progress {
		if of.Done {
			done++
		}
	}
	if done == int(s.namespace.Partitions) {
		j.EndedAt = at
	}
	s.jobs = maps.Clone(s.jobs)
	s.jobs[j.ID] = j
	c.now.Store(&s)
	return nil
}

// applyJobStop stops a job that has not ended. The first record counts.
func (c *Catalog) applyJobStop(data []byte) error {
	var stop events.JobStop
	if err := json.Unmarshal(data, &stop); err != nil {
		return fmt.Errorf("read %s: %w", events.TypeJobStop, err)
	}
	s := *c.now.Load()
	j, known := s.jobs[stop.Job]
	if !known || j.EndedAt != 0 || j.Stop != nil {
		return nil
	}
	j.Stop = &stop
	s.jobs = maps.Clone(s.jobs)
	s.jobs[j.ID] = j
	c.now.Store(&s)
	return nil
}

// EncodeJob returns the record of a job, of its progress or of its stop, for <ns>.definitions.
func EncodeJob(v JobValue, s events.Subject) (events.Record, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return events.Record{}, err
	}
	kind := events.TypeJob
	switch v.(type) {
	case *events.JobProgress:
		kind = events.TypeJobProgress
	case *events.JobStop:
		kind = events.TypeJobStop
	}
	return events.Record{Key: []byte(v.Key()), Value: b, Headers: headers(s, kind, "")}, nil
}

// JobValue is an events.Job, events.JobProgress or events.JobStop.
type JobValue interface{ Key() string }
