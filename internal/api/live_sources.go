package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	// resumeFacts bounds the records of a partition that are read from the log to find out what changed since a cursor. If there are more, the
	// client lists again, which costs less.
	resumeFacts = 5000
	// resumeWithin is how long such a read may take: the hub waits for it.
	resumeWithin = 5 * time.Second
	// followedLine bounds a line of another node's stream: a row has labels and reasons, but no input or output.
	followedLine = 4 << 20
	// followedSilence ends the stream of another node that has been silent for this long: twice the interval of its keep-alive comments.
	followedSilence = 2*keepAliveEvery + 5*time.Second
)

// ErrBeforeLog is returned by Changes.Concerned when records are gone.
var ErrBeforeLog = errors.New("the log begins later")

// locate finds the current source of the changes of each partition. A new source continues where the previous one ended.
func (w *hubWork) locate(ctx context.Context) {
	there := map[proxy.Route][]int32{}
	for p := range w.partitions {
		to := w.cluster.Route(p)
		switch {
		case to.Readable():
			if !w.sources[p].Readable() {
				w.comeHere(ctx, p)
			}
		case !to.Known():
			continue // it continues at the next owner
		case w.client:
			there[to] = append(there[to], p)
		}
		w.sources[p] = to
	}
	for to, f := range w.followers {
		if f.over() || !slices.Equal(f.partitions, there[to]) {
			f.stop()
			delete(w.followers, to)
		}
	}
	for to, partitions := range there {
		if w.followers[to] == nil {
			w.followers[to] = w.follow(ctx, to, partitions)
		}
	}
}

// comeHere takes the changes of a partition from the store from now on. What the store folded since the previous source ended is read from the
// log.
func (w *hubWork) comeHere(ctx context.Context, p int32) {
	w.mu.Lock()
	w.pending.accepts[p], w.pending.here[p] = nil, true
	w.cursor.advance(p, w.pending.next[p]) // the changes of the previous source are still pending, and belong to the next frame
	w.mu.Unlock()
	from, next := w.cursor[p], w.changes.Next(p)
	switch {
	case from >= next:
		return
	case from != unknownOffset:
		ids, err := w.concerned(ctx, p, from, next)
		w.mu.Lock()
		for _, id := range ids {
			w.pending.add(id, wasUnknown)
		}
		if err != nil {
			w.pending.lost = append(w.pending.lost, p)
		}
		w.mu.Unlock()
	case w.seq > 0: // as in next
		w.mu.Lock()
		w.pending.lost = append(w.pending.lost, p)
		w.mu.Unlock()
	}
	w.cursor.advance(p, next)
}

// concerned is Changes.Concerned, with a bound on the records.
func (h *hub) concerned(ctx context.Context, p int32, from, to int64) ([]string, error) {
	if to-from > resumeFacts {
		return nil, ErrBeforeLog
	}
	ctx, cancel := context.WithTimeout(ctx, resumeWithin)
	defer cancel()
	ids, err := h.changes.Concerned(ctx, p, from, to)
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// unfollow ends all followers.
func (w *hubWork) unfollow() {
	for _, f := range w.followers {
		f.stop()
	}
}

// follower reads the stream of another node about its partitions.
type follower struct {
	partitions []int32
	cancel     context.CancelFunc
	ended      chan struct{}
}

func (f *follower) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

func (f *follower) stop() { f.cancel(); <-f.ended }

// follow opens the stream of another node, after the known positions of its partitions.
func (w *hubWork) follow(ctx context.Context, to proxy.Route, partitions []int32) *follower {
	ctx, cancel := context.WithCancel(access.With(ctx, access.Caller{Name: "node " + w.node, Role: access.Viewer}))
	f := &follower{partitions: partitions, cancel: cancel, ended: make(chan struct{})}
	after := make(liveCursor, w.partitions)
	w.mu.Lock()
	for p := range after {
		after[p] = unknownOffset
	}
	for _, p := range partitions {
		w.pending.accepts[p], w.pending.here[p] = f, false
		after[p] = max(w.cursor[p], w.pending.next[p])
	}
	w.mu.Unlock()
	h := w.hub
	go func() {
		defer close(f.ended)
		defer cancel()
		question := proxy.Question{Path: livePath, Query: url.Values{"topics": {topicTasks}}}
		body, err := h.proxy.Follow(ctx, to, partitions, question, after.String())
		if err != nil {
			return // it is logged there, and tried again at the next look
		}
		defer body.Close()
		h.listen(f, body)
	}()
	return f
}

// listen reads events until the stream ends. The events up to one with an ID are taken together.
func (h *hub) listen(f *follower, body io.Reader) {
	silent := time.AfterFunc(followedSilence, f.cancel)
	defer silent.Stop()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), followedLine)
	var list []message
	var name, id string
	for lines.Scan() {
		silent.Reset(followedSilence)
		line := lines.Text()
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			list = append(list, message{name, []byte(data)})
			continue
		}
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		} else if text, ok := strings.CutPrefix(line, "id: "); ok {
			id = text
		} else if line == "" && id != "" {
			at, ok := parseLiveCursor(id, h.partitions)
			if !ok || !h.heard(f, list, at) {
				return
			}
			list, id = nil, ""
		}
		if len(list) > hubTasks+16 {
			return // no node sends so much at once
		}
	}
}

// heard takes the events of another node, which reach up to a cursor. It returns false if these cannot be read.
func (h *hub) heard(f *follower, list []message, at liveCursor) bool {
	var rows []*LiveTask
	var more LiveMore
	var lost LiveReset
	states := map[int32]map[events.TaskState]int64{}
	for _, m := range list {
		var err error
		switch m.name {
		case "task":
			row := new(LiveTask)
			err = json.Unmarshal(m.data, row)
			rows = append(rows, row)
		case "more":
			err = json.Unmarshal(m.data, &more)
		case "reset":
			err = json.Unmarshal(m.data, &lost)
		case "states":
			err = json.Unmarshal(m.data, &states)
		}
		if err != nil {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ours := func(p int32) bool { return p >= 0 && p < h.partitions && h.pending.accepts[p] == f }
	for _, row := range rows {
		if p := row.Partition; ours(p) && p == events.Home(row.Task.ID, h.partitions) {
			h.pending.theirs(row)
		}
	}
	for _, p := range f.partitions {
		if ours(p) && at[p] != unknownOffset {
			h.pending.next.advance(p, at[p])
		}
	}
	h.pending.more += more.Count
	for _, p := range lost.Partitions {
		if ours(p) {
			h.pending.lost = append(h.pending.lost, p)
		}
	}
	for p, of := range states {
		if ours(p) {
			h.pending.states[p] = of
		}
	}
	h.nudge()
	return true
}

// theirs takes a row of another node.
func (p *pendingChanges) theirs(row *LiveTask) {
	t := p.add(row.Task.ID, "")
	if t == nil {
		return
	}
	t.was, t.row = unite(t.was, row.Was), row
}

// hashOf is a number for a text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}
