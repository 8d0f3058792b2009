package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// tasks is the projection as the API reads it.
type tasks struct {
	store *projector.Store
	ns    *namespace
	// plans makes the plans of tasks that other nodes own; nil if none do.
	plans *plans
}

func (t *tasks) home(id string) int32 { return events.Home(id, t.ns.partitions) }

// Task implements api.Tasks.
func (t *tasks) Task(_ context.Context, id string) (*events.Task, error) {
	task, ok, err := t.store.Get(t.home(id), id)
	if err != nil || !ok {
		return nil, err
	}
	return task, nil
}

// Held implements api.Tasks.
func (t *tasks) Held(_ context.Context, task, request string) (*events.Request, error) {
	held, err := t.store.Partition(t.home(task)).Held(task, request)
	if err != nil || held == nil {
		return nil, err
	}
	return &held.Request, nil
}

// Keys implements api.Tasks. The store of a node that only follows a partition has no plans of its tasks: they are made here.
func (t *tasks) Keys(_ context.Context, task *events.Task) (events.Keys, error) {
	k, err := t.store.Partition(t.home(task.ID)).Keys(task.ID)
	if err != nil || t.plans == nil {
		return k, err
	}
	return k, t.plans.complete(&k, task)
}

// Limit implements api.Tasks.
func (t *tasks) Limit(_ context.Context, name string) (*events.Limit, error) {
	return t.store.Partition(t.home(name)).Limit(name)
}

// EachLimit implements api.Limits.
func (t *tasks) EachLimit(_ context.Context, partitions []int32, use func(*events.Limit)) error {
	for _, p := range partitions {
		if err := t.store.Partition(p).EachLimit(use); err != nil {
			return err
		}
	}
	return nil
}

// List implements api.Lists.
func (t *tasks) List(_ context.Context, q api.Query) (api.Page, error) {
	asOf := t.asOf(q.Partitions) // before the list is read, so that the list includes all of that
	page := api.Page{AsOf: asOf}
	f := projector.Filter{
		States: q.States, Workflow: q.Workflow, Labels: q.Labels, Since: q.Since, Until: q.Until, Cursor: q.Cursor,
		Partitions: q.Partitions, Brief: q.Brief && !q.Match.OfSteps(),
	}
	begun := time.Now()
	for looked := 0; ; {
		f.Limit = q.Limit - len(page.Tasks)
		list, next, err := t.store.List(f)
		if errors.Is(err, projector.ErrCursor) {
			return api.Page{}, api.ErrBadCursor
		}
		if err != nil {
			return api.Page{}, err
		}
		whole := len(list) == f.Limit // otherwise the store ended the page early, since its tasks are large or rare
		looked += len(list)
		page.Tasks = append(page.Tasks, slices.DeleteFunc(list, func(t *events.Task) bool { return !q.Match.Fits(t) })...)
		f.Cursor, page.Next = next, next
		if next == "" || !whole || len(page.Tasks) >= q.Limit || looked >= mostLooked || time.Since(begun) > lookPatience {
			return page, nil
		}
	}
}

// mostLooked and lookPatience bound what is read for a page of a filter that no index serves, such as the children of a task: a page with a
// small limit would otherwise be empty although a match is near. The time is for tasks that are large, and well within that of a list.
const (
	mostLooked   = projector.MaxList
	lookPatience = 500 * time.Millisecond
)

// asOf returns how far the partitions are folded; none means all.
func (t *tasks) asOf(partitions []int32) []api.PartitionOffset {
	if len(partitions) == 0 {
		for p := range t.ns.partitions {
			partitions = append(partitions, p)
		}
	}
	list := make([]api.PartitionOffset, len(partitions))
	for i, p := range partitions {
		list[i] = api.PartitionOffset{Partition: p, Offset: t.store.Partition(p).Next()}
	}
	return list
}

// Cursor implements api.Lists.
func (t *tasks) Cursor(id string, submitted events.Instant) string {
	return projector.CursorAt(t.home(id), id, submitted)
}

// Place implements api.Lists.
func (t *tasks) Place(cursor string) (string, error) {
	place, err := projector.Place(cursor)
	if errors.Is(err, projector.ErrCursor) {
		return "", api.ErrBadCursor
	}
	return place, err
}

// WatchTask implements api.Tasks.
func (t *tasks) WatchTask(id string, when func(events.TaskState) bool) (changes <-chan struct{}, stop func()) {
	return t.store.Partition(t.home(id)).Watch(id, when)
}

// WaitPassed implements api.Inputs.
func (t *tasks) WaitPassed(ctx context.Context, in events.Input, partition int32, offset int64) error {
	_, err := t.store.Wait(ctx, partition, func(i projector.Info) bool { return i.Inputs[in].Next > offset })
	return err
}

// CatchUp implements api.Inputs.
func (t *tasks) CatchUp(ctx context.Context, in events.Input, partition int32) error {
	end, err := t.ns.cluster.EndOffset(ctx, t.ns.topics.Input(in), partition)
	if err != nil || end == 0 {
		return noAnswer(err)
	}
	return t.WaitPassed(ctx, in, partition, end-1)
}

// noAnswer marks temporary errors of brokers, so that the API answers them as such.
func noAnswer(err error) error {
	if kafka.IsPassing(err) {
		return fmt.Errorf("%w: %w", api.ErrNoAnswer, err)
	}
	return err
}

// history reads facts from the log, by the offsets that the projection keeps.
type history struct {
	tasks *tasks
}

// History implements api.History. Where the log was trimmed, the history begins with what is left.
func (h *history) History(ctx context.Context, task string, from int64, limit int) ([]api.LoggedFact, error) {
	list, err := h.read(ctx, task, from, limit)
	var gone *kafka.OutOfRangeError
	if !errors.As(err, &gone) {
		return list, noAnswer(err)
	}
	start, err := h.tasks.ns.cluster.StartOffset(ctx, gone.Topic, gone.Partition)
	if err == nil {
		list, err = h.read(ctx, task, max(from, start), limit)
	}
	return list, noAnswer(err)
}

func (h *history) read(ctx context.Context, task string, from int64, limit int) ([]api.LoggedFact, error) {
	t := h.tasks
	partition := t.home(task)
	offsets, err := t.store.HistoryOffsets(partition, task, from-1, limit)
	if err != nil {
		return nil, err
	}
	var list []api.LoggedFact
	for len(offsets) > 0 {
		n := near(offsets)
		want := offsets[:n]
		err := t.ns.cluster.ReadRange(ctx, t.ns.topics.Events(), partition, want[0], want[n-1]+1, func(r events.Record) error {
			if len(want) > 0 && r.Offset == want[0] {
				want = want[1:]
				list = append(list, api.LoggedFact{Record: r, Owner: ownerOf(&r)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		offsets = offsets[n:]
	}
	return list, nil
}

// farApart is the gap between two facts of a task above which a second read is cheaper than reading on.
const farApart = 2000

// near returns how many of the offsets are close enough for one read.
func near(offsets []int64) int {
	n := 1
	for n < len(offsets) && offsets[n]-offsets[n-1] < farApart {
		n++
	}
	return n
}

// ownerOf returns the node that wrote a fact: the last part of its ce_source.
func ownerOf(r *events.Record) string {
	source := r.Header(events.HeaderSource)
	node, err := url.PathUnescape(source[strings.LastIndexByte(source, '/')+1:])
	if err != nil {
		return ""
	}
	return node
}

// rejections finds out why an input was rejected.
type rejections struct{ tasks *tasks }

// Rejection implements api.Rejections. The projection remembers the fact for an hour.
func (j *rejections) Rejection(ctx context.Context, in events.Input, partition int32, offset int64) (*events.InputRejected, error) {
	t := j.tasks
	at, found, err := t.store.Rejection(partition, in, offset)
	if err != nil || !found {
		return nil, err
	}
	var why *events.InputRejected
	err = t.ns.cluster.ReadRange(ctx, t.ns.topics.Events(), partition, at, at+1, func(r events.Record) error {
		f, err := events.DecodeFact(&r)
		if err == nil {
			why, _ = f.Body.(*events.InputRejected)
		}
		return err
	})
	return why, noAnswer(err)
}
