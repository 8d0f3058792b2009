package node

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/internal/traceparent"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

const (
	// jobBlock is how many tasks the owner may ask after it recorded that it may: a successor may have to look at all of these again.
	jobBlock = 500
	// jobChunk is how many tasks are asked at once. The next are asked when these have answered, so a job does not crowd out other inputs.
	jobChunk = 100
	// jobSoonest and jobLatest bound the time between two records of the progress. It grows with the time that the run has lasted, so that a
	// job of a day does not fill the topic, which keeps everything and is read by each node that starts.
	jobSoonest, jobLatest, jobSaves = 2 * time.Second, 5 * time.Minute, 20
	// jobReasonBytes bounds the reason of a refusal in the progress.
	jobReasonBytes = 300
	// jobEnd is the cursor of the end of the list of tasks.
	jobEnd = "."
)

// jobRun works on a job in one partition. Its goroutine owns its fields; ended, cancel and epoch do not change.
type jobRun struct {
	*jobRuns
	job scheduler.JobRecord
	// partition and epoch are what the run works for: it ends when this node no longer owns the partition in that epoch.
	partition int32
	epoch     uint64
	progress  events.JobProgress
	request   events.Request
	// since (inclusive) and until (exclusive) bound the tasks.
	since, until events.Instant
	// match is what the filter says about their steps and their last change.
	match events.TaskMatch
	// each is the time for each task by the rate of the job; zero is no limit.
	each time.Duration
	// begun is when the run began, asked when it last asked tasks, and saved when it last recorded its progress.
	begun, asked, saved time.Time
	// keyless are the tasks that cannot be asked yet: see job_keys.go. held is the progress before the first of them.
	keyless []*events.Task
	held    *events.JobProgress

	cancel context.CancelFunc
	ended  chan struct{}
}

func newJobRun(r *jobRuns, job scheduler.JobRecord, partition int32) *jobRun {
	return &jobRun{jobRuns: r, job: job, partition: partition, epoch: r.owners.status(partition).Epoch.N, ended: make(chan struct{})}
}

// work asks the tasks until the end of the list, or until the job is stopped.
func (r *jobRun) work(ctx context.Context) error {
	if err := r.resume(ctx); err != nil {
		return err
	}
	for !r.progress.Done {
		step := r.block
		switch atEnd := r.progress.Cursor == jobEnd; {
		case r.stopped() || atEnd && len(r.keyless) == 0:
			r.progress.Done, r.held = true, nil
			return r.save(ctx)
		case atEnd:
			step = r.askKeyless
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// resume reads the progress that this partition's owners have recorded, and waits until the requests that they sent are judged.
func (r *jobRun) resume(ctx context.Context) (err error) {
	if err := r.ns.catalog.upToNow(ctx); err != nil {
		return err
	}
	job, known := r.ns.catalog.Jobs()[r.job.ID]
	r.progress = job.Progress[r.partition]
	r.progress.Job, r.progress.Partition, r.progress.Epoch = r.job.ID, r.partition, r.epoch
	if !known || r.progress.Done {
		r.progress.Done = true
		return nil
	}
	args, err := openArgs(r.keys, job.Args)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &r.request); err != nil {
			return err
		}
	}
	r.request.ID, r.request.Kind, r.request.Reason, r.request.By = job.RequestID(), job.Verb, job.Reason, job.By
	if r.since, r.until, err = job.Filter.Window(job.OpenedAt); err != nil {
		return err
	}
	if r.match, err = job.Filter.Match(job.OpenedAt); err != nil {
		return err
	}
	if r.each, err = events.ParseRate(job.Rate); err != nil {
		return err
	}
	r.begun = time.Now()
	r.saved, r.asked = r.begun, r.begun
	return r.tasks.CatchUp(ctx, events.Reports, r.partition)
}

// share is the time for each task in this partition: the partitions that are not done share the rate.
func (r *jobRun) share() time.Duration {
	left := time.Duration(r.ns.partitions)
	for _, p := range r.ns.catalog.Jobs()[r.job.ID].Progress {
		if p.Done {
			left--
		}
	}
	return r.each * max(1, left)
}

// stopped says whether the job was stopped, or is forgotten.
func (r *jobRun) stopped() bool {
	job, known := r.ns.catalog.Jobs()[r.job.ID]
	return !known || job.Stop != nil
}

// block asks the next tasks. Before it asks tasks that nobody has asked, it records that it may: after a crash, the next run looks which of
// them were asked, whatever state they are in by then.
func (r *jobRun) block(ctx context.Context) error {
	p := &r.progress
	again := p.Cursor != p.Ahead
	tasks, next, err := r.list(again)
	if err != nil {
		return err
	}
	if !again {
		if p.Ahead = next; len(tasks) > 0 {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	for len(tasks) > 0 {
		n, asks := r.chunk(tasks, again)
		if ready, err := r.await(ctx, asks); !ready || err != nil {
			return err
		}
		if err := r.ask(ctx, tasks[:n]); err != nil {
			return err
		}
		if tasks = tasks[n:]; len(tasks) == 0 {
			break
		}
		p.Cursor = r.tasks.Cursor(tasks[0].ID, tasks[0].SubmittedAt)
		if now := time.Now(); now.Sub(r.saved) >= min(max(now.Sub(r.begun)/jobSaves, jobSoonest), jobLatest) {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	p.Cursor = next
	return nil
}

// list returns the next tasks, and where the list continues. If some of them may have been asked, it returns those of all states, whole.
func (r *jobRun) list(again bool) (tasks []*events.Task, next string, err error) {
	p, of := &r.progress, &r.job.Filter
	f := projector.Filter{
		States: of.State, Workflow: of.Workflow, Labels: of.Labels(), Since: r.since, Until: r.until,
		Partitions: []int32{r.partition}, Limit: jobBlock, Cursor: p.Cursor, Brief: !r.match.OfSteps(),
	}
	if again {
		f.States, f.Brief = nil, false
	}
	if tasks, next, err = r.tasks.store.List(f); err != nil {
		return nil, "", err
	}
	if next == "" {
		next = jobEnd
	}
	if !again {
		return slices.DeleteFunc(tasks, func(t *events.Task) bool { return !r.match.Fits(t) }), next, nil
	}
	if p.Ahead == jobEnd {
		return tasks, next, nil
	}
	ahead, err := projector.Place(p.Ahead)
	if err != nil {
		return nil, "", err
	}
	beyond := func(cursor string) bool {
		place, e := projector.Place(cursor)
		if err == nil {
			err = e
		}
		return place >= ahead
	}
	tasks = slices.DeleteFunc(tasks, func(t *events.Task) bool { return beyond(r.tasks.Cursor(t.ID, t.SubmittedAt)) })
	if next == jobEnd || beyond(next) {
		next = p.Ahead
	}
	return tasks, next, err
}

// chunk returns how many tasks come next, and how many of these are to be asked.
func (r *jobRun) chunk(tasks []*events.Task, again bool) (n, asks int) {
	most := jobChunk
	if r.each > 0 {
		most = min(max(int(time.Second/r.share()), 1), jobChunk)
	}
	for n < len(tasks) && asks < most {
		if !again || !tasks[n].HasRequest(r.request.ID) && r.job.Filter.Matches(tasks[n], r.match) {
			asks++
		}
		n++
	}
	return n, asks
}

// await returns when n tasks may be asked by the rate; ready is false if the job is stopped.
func (r *jobRun) await(ctx context.Context, n int) (ready bool, err error) {
	at := r.asked.Add(r.share() * time.Duration(n))
	for {
		moved := r.ns.catalog.movement()
		left := time.Until(at)
		switch {
		case r.stopped():
			return false, nil
		case r.each == 0 || n == 0:
			return true, nil
		case left <= 0:
			r.asked = time.Now()
			return true, nil
		}
		later := time.NewTimer(left)
		select {
		case <-ctx.Done():
			later.Stop()
			return false, ctx.Err()
		case <-moved:
		case <-later.C:
		}
		later.Stop()
	}
}

// ask asks tasks, waits until they have answered, and counts the answers. The tasks were listed a while ago, with a low rate hours ago. By now one
// may have answered, because it was asked before a crash, may no longer match, or may be forgotten, and another task may have its ID.
func (r *jobRun) ask(ctx context.Context, tasks []*events.Task) error {
	before := r.progress
	var ids []string
	var records []events.Record
	for _, listed := range tasks {
		t, err := r.tasks.Task(ctx, listed.ID)
		if err != nil {
			return err
		}
		if t == nil || t.Incarnation != listed.Incarnation {
			continue
		}
		if judged, ok := t.Request(r.request.ID); ok {
			r.count(t.ID, judged.Refused)
			continue
		}
		if !r.job.Filter.Matches(t, r.match) {
			continue
		}
		q, err := r.requestFor(t)
		if err != nil {
			if err := r.withoutKey(t, &before, err); err != nil {
				return err
			}
			continue
		}
		rec, err := events.EncodeRequest(q, events.Subject{
			ID: q.ID, Source: "/" + r.ns.name + "/jobs", Time: events.At(time.Now()), Traceparent: traceparent.Or(""),
		})
		if err != nil {
			return err
		}
		rec.Topic, rec.Partition = r.ns.topics.Reports(), r.partition
		ids, records = append(ids, t.ID), append(records, rec)
	}
	if len(records) == 0 {
		return nil
	}
	at, err := r.producer.ProduceSync(ctx, records...)
	if err != nil {
		return err
	}
	if err := r.tasks.WaitPassed(ctx, events.Reports, r.partition, slices.Max(at)); err != nil {
		return err
	}
	for i, id := range ids {
		if err := r.outcome(ctx, id, at[i]); err != nil {
			return err
		}
	}
	return nil
}

// requestFor returns the request for a task. If the task is sealed, the content of the request is sealed for its subject.
func (r *jobRun) requestFor(t *events.Task) (events.Request, error) {
	q := r.request
	q.Task = t.ID
	if q.Error != nil {
		q.Error = new(*q.Error)
	}
	if r.keys == nil || !events.IsSealed(t.Input) {
		return q, nil
	}
	for _, slot := range q.Content() {
		if _, err := r.keys.Open(t.Input); err != nil {
			return q, err
		}
		var err error
		if *slot, err = r.keys.SealLike(t.Input, *slot); err != nil {
			return q, err
		}
	}
	return q, nil
}

// openArgs opens what is sealed in the arguments of a job.
func openArgs(keys *sealing.Keys, args json.RawMessage) (json.RawMessage, error) {
	if keys == nil {
		return args, nil
	}
	return keys.Open(args)
}

// jobUnknown is the reason for a request that was judged without a trace: its task was forgotten meanwhile.
const jobUnknown = "the task was forgotten before it answered"

// outcome counts what became of the request at that offset. A task that has ended keeps no refusal: the fact that rejects the input has it.
func (r *jobRun) outcome(ctx context.Context, id string, offset int64) error {
	t, err := r.tasks.Task(ctx, id)
	if err != nil {
		return err
	}
	if t != nil {
		if judged, ok := t.Request(r.request.ID); ok {
			r.count(id, judged.Refused)
			return nil
		}
	}
	rejected, err := (&rejections{r.tasks}).Rejection(ctx, events.Reports, r.partition, offset)
	if err != nil {
		return err
	}
	if rejected == nil {
		r.count(id, jobUnknown)
		return nil
	}
	r.count(id, rejected.Detail)
	return nil
}

func (r *jobRun) count(task, refused string) {
	p := &r.progress
	if refused == "" {
		p.Granted++
		r.items.WithLabelValues(string(r.request.Kind), "granted").Inc()
		return
	}
	p.Refused++
	r.items.WithLabelValues(string(r.request.Kind), "refused").Inc()
	if len(p.Refusals) < events.MaxJobRefusals {
		p.Refusals = append(p.Refusals[:len(p.Refusals):len(p.Refusals)], events.JobRefusal{Task: task, Reason: events.Clip(refused, jobReasonBytes)})
	}
}

// save records the progress. While tasks wait for a key, it records that before the first of them, so that a successor asks them too.
func (r *jobRun) save(ctx context.Context) error {
	p := r.progress
	if r.held != nil {
		p, p.Ahead = *r.held, r.progress.Ahead
	}
	rec, err := jobRecord(r.ns, &p)
	if err != nil {
		return err
	}
	r.saved = time.Now()
	_, err = r.producer.ProduceSync(ctx, rec)
	return err
}
