package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	// gatherWithin is how long all nodes together may take for a list.
	gatherWithin = answerWithin
	// gatherTries is more than one, since a partition may change hands between the look for its owner and the question.
	gatherTries = 2
	// partitionsWithin is shorter: an operator looks at the partitions when something is wrong, and sees at once whose
	// node is silent.
	partitionsWithin = 2 * time.Second
)

// whereabouts says where each partition is.
type whereabouts struct {
	here  []int32
	there map[Route][]int32
	// nowhere has no node that can be asked.
	nowhere []int32
}

func (s *Server) whereabouts() whereabouts {
	w := whereabouts{there: map[Route][]int32{}}
	for p := range s.cfg.Partitions {
		switch at := s.cfg.Cluster.Route(p); {
		case at.Here:
			w.here = append(w.here, p)
		case at.known():
			w.there[at] = append(w.there[at], p)
		default:
			w.nowhere = append(w.nowhere, p)
		}
	}
	return w
}

// asked returns the partitions to which another node restricts what it asks of this one; none, and no error, where a
// client asks.
func (s *Server) asked(ctx context.Context) ([]int32, error) {
	h := exchangeOf(ctx).r.Header
	if h.Get(headerForwarded) == "" {
		return nil, nil
	}
	var list []int32
	for text := range strings.SplitSeq(h.Get(headerPartitions), ",") {
		p, err := strconv.ParseInt(text, 10, 32)
		if err != nil || p < 0 || int32(p) >= s.cfg.Partitions {
			return nil, parameterProblem(headerPartitions, "is not a list of partitions")
		}
		list = append(list, int32(p))
	}
	return list, nil
}

// away returns those of the partitions that are not here.
func (s *Server) away(partitions []int32) []int32 {
	var list []int32
	for _, p := range partitions {
		if !s.cfg.Cluster.Route(p).Here {
			list = append(list, p)
		}
	}
	return list
}

// listOf answers another node: for all that it asks, or not at all.
func (s *Server) listOf(ctx context.Context, q Query, asked []int32) (TaskList, error) {
	moved := func() error {
		if away := s.away(asked); len(away) > 0 {
			return takeoverProblem(away...).with(headerMoved, "1")
		}
		return nil
	}
	if err := moved(); err != nil {
		return TaskList{}, err
	}
	q.Partitions = asked
	list, err := s.listHere(ctx, q)
	// The second look comes last: what has left by then may have been read when it was half gone.
	if err := moved(); err != nil {
		return TaskList{}, err
	}
	return list, err
}

// listAll merges the lists of all nodes. Tasks whose node does not answer are not left out in silence: it is an error.
func (s *Server) listAll(ctx context.Context, q Query) (TaskList, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	var missing []int32
	for range gatherTries {
		var list TaskList
		var err error
		if list, missing, err = s.gather(ctx, q); err != nil || len(missing) == 0 {
			return list, err
		}
	}
	slices.Sort(missing)
	if p := s.stoppedProblem(missing...); p != nil {
		p.Detail += " A list that lacks its tasks would be wrong; tasks of other partitions are read by their IDs (GET /v1/tasks/{id})."
		return TaskList{}, p
	}
	return TaskList{}, takeoverProblem(missing...)
}

// gather asks each node for the page of its partitions. missing are the partitions that nobody answered for.
func (s *Server) gather(ctx context.Context, q Query) (list TaskList, missing []int32, err error) {
	w := s.whereabouts()
	if len(w.nowhere) > 0 {
		return list, w.nowhere, nil
	}
	var mu sync.Mutex // guards pages, missing and err
	var pages []TaskList
	take := func(page TaskList, of []int32, e error) {
		mu.Lock()
		defer mu.Unlock()
		pages = append(pages, page)
		if e != nil && len(of) > 0 {
			missing = append(missing, of...)
		} else if err == nil {
			err = e
		}
	}
	var wait sync.WaitGroup
	for to, partitions := range w.there {
		ask := asking{to, "/v1/tasks", q.values(), partitions}
		wait.Go(func() {
			var page TaskList
			e := s.forwarder.ask(ctx, ask, &page)
			if _, ours := errors.AsType[*Problem](e); ours {
				partitions = nil // it answered: the request is at fault
			}
			take(page, partitions, e)
		})
	}
	if len(w.here) > 0 {
		if len(w.there) > 0 {
			q.Partitions = w.here
		}
		page, e := s.listHere(ctx, q)
		away := s.away(w.here)
		if len(away) > 0 {
			e = errMoved
		}
		take(page, away, e)
	}
	wait.Wait()
	if err != nil || len(missing) > 0 {
		return TaskList{}, missing, err
	}
	list, err = s.merge(pages, q.Limit)
	return list, nil, err
}

// values are the parameters that ask for the same, with instants where a person may have given durations.
func (q *Query) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("state", string(q.State))
	set("workflow", q.Workflow)
	set("cursor", q.Cursor)
	for k, value := range q.Labels {
		v.Add("label", k+":"+value)
	}
	if q.Since != 0 {
		v.Set("since", q.Since.String())
	}
	if q.Until != 0 {
		v.Set("until", q.Until.String())
	}
	return v
}

// merge makes one page of several. Each holds all tasks that fit from the cursor up to its own next; so the page is
// whole up to the first next, and goes on there. One cursor serves all nodes, since it is a place in the order of all
// tasks: what any node writes meanwhile moves none.
func (s *Server) merge(pages []TaskList, limit int) (TaskList, error) {
	if len(pages) == 1 {
		return pages[0], nil
	}
	type placed struct {
		place, cursor string
		task          TaskDocument
	}
	var all []placed
	var end placed // the first next
	for _, p := range pages {
		for _, t := range p.Tasks {
			cursor := s.cfg.Tasks.Cursor(t.ID, t.SubmittedAt)
			place, err := s.cfg.Tasks.Place(cursor)
			if err != nil {
				return TaskList{}, fmt.Errorf("merge lists: %w", err)
			}
			all = append(all, placed{place, cursor, t})
		}
		if p.Next == "" {
			continue
		}
		place, err := s.cfg.Tasks.Place(p.Next)
		if err != nil {
			return TaskList{}, fmt.Errorf("merge lists: %w", err)
		}
		if end.cursor == "" || place < end.place {
			end = placed{place: place, cursor: p.Next}
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return strings.Compare(a.place, b.place) })
	list := TaskList{Tasks: make([]TaskDocument, 0, min(limit, len(all))), Next: end.cursor}
	size := 0
	for _, t := range all {
		if end.cursor != "" && t.place >= end.place {
			break
		}
		if len(list.Tasks) == limit || size > listBytes {
			list.Next = t.cursor
			break
		}
		size += t.task.size()
		list.Tasks = append(list.Tasks, t.task)
	}
	return list, nil
}

// gatherPartitions fills in what other nodes know. What none answers for stays unknown: an operator looks here exactly
// then.
func (s *Server) gatherPartitions(ctx context.Context, list []PartitionDocument) {
	w := s.whereabouts()
	ctx, cancel := context.WithTimeout(ctx, partitionsWithin)
	defer cancel()
	var mu sync.Mutex // guards list
	var wait sync.WaitGroup
	for to, partitions := range w.there {
		wait.Go(func() {
			var theirs []PartitionDocument
			if s.forwarder.ask(ctx, asking{to: to, path: "/v1/partitions", partitions: partitions}, &theirs) != nil {
				return // it was counted, and logged
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range theirs {
				if i := slices.IndexFunc(list, func(l PartitionDocument) bool { return l.Partition == d.Partition }); i >= 0 && d.AppliedOffset != nil && slices.Contains(partitions, d.Partition) {
					list[i] = d
				}
			}
		})
	}
	wait.Wait()
}

// stoppedProblem says which of the partitions this node stopped, and why; nil where it stopped none. Asking again does not
// help, so there is no Retry-After.
func (s *Server) stoppedProblem(partitions ...int32) *Problem {
	var texts []string
	var stopped []int32
	for _, p := range partitions {
		if why := s.cfg.Cluster.Route(p).Stopped; why != "" {
			texts = append(texts, fmt.Sprintf("Partition %d is stopped: %s.", p, strings.TrimSuffix(why, ".")))
			stopped = append(stopped, p)
		}
	}
	if len(stopped) == 0 {
		return nil
	}
	p := problem(http.StatusServiceUnavailable, codeStopped, strings.Join(texts, " ")+" It goes on when that is mended and its node is started again.")
	p.Partitions = stopped
	return p
}

// takeoverProblem says that nobody answers for these partitions.
func takeoverProblem(partitions ...int32) *Problem {
	text := "The partition is being taken over by another node, or its owner does not answer. That takes a few seconds: ask again."
	if len(partitions) > 1 {
		text = "Partitions are being taken over by other nodes, or their owners do not answer. That takes a few seconds: ask again."
	}
	p := problem(http.StatusServiceUnavailable, codeTakeover, text).retryAfter(time.Second)
	p.Partitions = partitions
	return p
}

func noAPIProblem(node string, partition int32) *Problem {
	p := takeoverProblem(partition)
	p.Detail = fmt.Sprintf("The partition is owned by node %s, which serves no API (role api). A node with role projector answers for all partitions.", node)
	return p
}

// mayMove documents that an operation needs an owner that answers.
func mayMove(api huma.API, op huma.Operation) huma.Operation {
	op = operation(api, op)
	unavailable := *op.Responses["default"]
	unavailable.Description = "A problem document with the code taking-over: the partition is being taken over by another node, or its owner " +
		"does not answer. Ask again after Retry-After. Or one with the code stopped: its owner cannot go on with the partition; detail says why"
	op.Responses["503"] = &unavailable
	return op
}
