package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

// readAll merges the lists of all nodes. The partitions that no node answers for are named: a list never lacks tasks without
// saying so.
func (s *lists) readAll(ctx context.Context, q Query) (TaskList, error) {
	at, err := s.walkAt(q.Cursor)
	if err != nil {
		return TaskList{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	r := &listing{lists: s, q: q, at: at, silent: map[int32]proxy.Route{}}
	for p, cursor := range at {
		if cursor != atEnd {
			r.missing = append(r.missing, int32(p))
		}
	}
	for range listTries {
		if r.try(ctx); r.err != nil {
			return TaskList{}, r.err
		}
	}
	if len(r.pages) == 0 {
		return TaskList{}, s.unread(r.missing)
	}
	return r.merge()
}

// unread returns the problem that none of the partitions could be read.
func (s *lists) unread(missing []int32) error {
	if p := stoppedProblem(s.router, missing...); p != nil {
		return p
	}
	return takeoverProblem(missing...)
}

// listing is the list of one client while it is read.
type listing struct {
	*lists
	q  Query
	at walk

	// mu guards the fields below.
	mu    sync.Mutex
	pages []TaskList
	// missing are the partitions that are not in pages, in order.
	missing []int32
	// silent holds the places that were asked for a partition in vain.
	silent map[int32]proxy.Route
	err    error
}

// question is a question to one node: it asks for the page of these partitions, which all continue at the cursor.
type question struct {
	cursor     string
	to         proxy.Route
	partitions []int32
}

// try asks for the pages of the missing partitions.
func (r *listing) try(ctx context.Context) {
	var wait sync.WaitGroup
	for _, q := range r.questions() {
		wait.Go(func() {
			if q.to.Readable() {
				r.askHere(ctx, q)
			} else {
				r.ask(ctx, q)
			}
		})
	}
	wait.Wait()
}

func (r *listing) questions() []question {
	var list []question
	for _, p := range r.missing {
		to := r.router.Route(p)
		if !to.Known() && !to.Stale || to == r.silent[p] {
			continue
		}
		i := slices.IndexFunc(list, func(q question) bool { return q.to == to && q.cursor == r.at[p] })
		if i < 0 {
			list = append(list, question{cursor: r.at[p], to: to})
			i = len(list) - 1
		}
		list[i].partitions = append(list[i].partitions, p)
	}
	return list
}

func (r *listing) query(q question) Query {
	query := r.q
	query.Cursor, query.Partitions = q.cursor, q.partitions
	return query
}

func (r *listing) askHere(ctx context.Context, q question) {
	page, err := r.readHere(ctx, r.query(q))
	away := r.proxy.Unreadable(q.partitions) // looked at last: a partition that has left by then may have been incomplete when it was read
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(away) == len(q.partitions) {
		return
	}
	if err != nil {
		r.err = err
		return
	}
	gone := func(p int32) bool { return slices.Contains(away, p) }
	page.Tasks = slices.DeleteFunc(page.Tasks, func(t TaskDocument) bool { return gone(events.Home(t.ID, r.partitions)) })
	page.AsOf = slices.DeleteFunc(page.AsOf, func(o PartitionOffset) bool { return gone(o.Partition) })
	r.took(page, slices.DeleteFunc(q.partitions, gone))
}

func (r *listing) ask(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeout(ctx, listNodeWithin)
	defer cancel()
	query := r.query(q)
	if r.askFor(ctx, q, query) {
		query.Fields = slices.DeleteFunc(slices.Clone(query.Fields), func(name string) bool { return name == fieldLeft })
		r.askFor(ctx, q, query)
	}
}

// fieldLeft is a member that nodes of the release before do not know.
const fieldLeft = "left"

// askFor asks a node, and says whether it refused the question. With fieldLeft that is not yet an error.
func (r *listing) askFor(ctx context.Context, q question, query Query) (refused bool) {
	ask := proxy.Question{Path: tasksPath, Query: query.values()}
	r.proxy.AskEach(ctx, map[proxy.Route][]int32{q.to: q.partitions}, ask, func(_ []int32, answer []byte, err error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if x, ok := errors.AsType[*proxy.RefusedError](err); ok && x.Status == http.StatusUnprocessableEntity && slices.Contains(query.Fields, fieldLeft) {
			refused = true
			return nil
		}
		if err != nil {
			r.failed(q, err)
			return nil
		}
		page, err := r.parse(answer)
		if err != nil {
			r.failed(q, err)
			return err
		}
		r.took(page, q.partitions)
		return nil
	})
	return refused
}

func (r *listing) parse(answer []byte) (page TaskList, err error) {
	if err := json.Unmarshal(answer, &page); err != nil {
		return page, err
	}
	_, err = r.place(page.Next)
	return page, err
}

// took is called with mu held.
func (r *listing) took(page TaskList, partitions []int32) {
	r.pages = append(r.pages, page)
	r.missing = slices.DeleteFunc(r.missing, func(p int32) bool { return slices.Contains(partitions, p) })
}

// failed is called with mu held. A node that lacks one of the partitions answers for none, and names those that it lacks: it is
// then asked for the others.
func (r *listing) failed(q question, err error) {
	if refused := refusal(err); refused != nil { // the request itself is wrong
		r.err = refused
		return
	}
	away := q.partitions
	if moved, ok := errors.AsType[*proxy.MovedError](err); ok {
		p := new(Problem)
		if json.Unmarshal(moved.Body, p) == nil && len(p.Partitions) > 0 {
			away = p.Partitions
		}
	}
	for _, p := range away {
		r.silent[p] = q.to
	}
}

// merge makes one page out of several. Each page holds all tasks of its partitions that match, from their cursor up to its next;
// so the merged page is complete up to the smallest next, and the following page begins there. One cursor serves all nodes,
// because it is a position in the order of all tasks, which no write changes.
func (r *listing) merge() (TaskList, error) {
	list, err := r.mergeTasks()
	if err != nil {
		return TaskList{}, fmt.Errorf("merge lists: %w", err)
	}
	for _, p := range r.pages {
		list.AsOf = append(list.AsOf, p.AsOf...)
	}
	slices.SortFunc(list.AsOf, func(a, b PartitionOffset) int { return cmp.Compare(a.Partition, b.Partition) })
	var read []int32
	for p, cursor := range r.at {
		if cursor != atEnd && !slices.Contains(r.missing, int32(p)) {
			read = append(read, int32(p))
		}
	}
	if err := r.advance(r.at, read, list.Next); err != nil {
		return TaskList{}, fmt.Errorf("merge lists: %w", err)
	}
	if list.Next, err = r.next(r.at); err != nil {
		return TaskList{}, fmt.Errorf("merge lists: %w", err)
	}
	for _, p := range r.missing {
		list.Missing = append(list.Missing, MissingPartition{Partition: p, Reason: codeTakeover})
	}
	sayStopped(r.router, list.Missing)
	return list, nil
}

// sayStopped says of partitions that nobody answers for which of them have stopped, and why.
func sayStopped(router proxy.Router, missing []MissingPartition) {
	for i := range missing {
		m := &missing[i]
		if m.Reason != codeTakeover {
			continue
		}
		if why := router.Route(m.Partition).Stopped; why != "" {
			m.Reason, m.Detail = codeStopped, why
		}
	}
}

// mergeTasks returns the tasks of all pages and the cursor where the following page begins.
func (r *listing) mergeTasks() (TaskList, error) {
	if len(r.pages) == 1 {
		return TaskList{Tasks: r.pages[0].Tasks, Next: r.pages[0].Next}, nil
	}
	type placed struct {
		place, cursor string
		task          TaskDocument
	}
	var all []placed
	var end placed // the first next
	for _, p := range r.pages {
		for _, t := range p.Tasks {
			cursor := r.list.Cursor(t.ID, t.SubmittedAt)
			place, err := r.place(cursor)
			if err != nil {
				return TaskList{}, err
			}
			all = append(all, placed{place, cursor, t})
		}
		if p.Next == "" {
			continue
		}
		place, err := r.place(p.Next)
		if err != nil {
			return TaskList{}, err
		}
		if end.cursor == "" || place < end.place {
			end = placed{place: place, cursor: p.Next}
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return strings.Compare(a.place, b.place) })
	list := TaskList{Tasks: make([]TaskDocument, 0, min(r.q.Limit, len(all))), Next: end.cursor}
	size := 0
	for _, t := range all {
		if end.cursor != "" && t.place >= end.place {
			break
		}
		if len(list.Tasks) == r.q.Limit || size > listBytes {
			list.Next = t.cursor
			break
		}
		size += t.task.size()
		list.Tasks = append(list.Tasks, t.task)
	}
	return list, nil
}
