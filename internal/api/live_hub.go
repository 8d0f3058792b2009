package api

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	// frameEvery is the least time between two messages about one task.
	frameEvery = time.Second
	// hubTasks bounds the tasks that are read for a frame. If more changed, none is read, and all clients are asked to list again: that costs a
	// busy node less than messages that nobody can follow.
	hubTasks = 500
	// hubPending bounds the IDs of changed tasks that wait for the next frame; the others are only counted.
	hubPending = 20_000
	// hubFrames and hubBytes bound the frames that are kept for slow streams. A stream that falls further behind gets a reset.
	hubFrames = 6
	hubBytes  = 16 << 20
)

// Changes knows what the commits of this node's store change.
type Changes interface {
	// Watch calls changed after each commit until stop is called; one call may still be under way then. changed must not block, since the
	// owner of the partition calls it, and must not keep the slice. While nobody watches, a commit calls nothing.
	Watch(changed func(Change)) (stop func())
	// Next returns how far a partition of the store is folded.
	Next(partition int32) int64
	// States counts the tasks of a partition of the store by state. The map is read-only.
	States(partition int32) map[events.TaskState]int64
	// Concerned returns the tasks that the records from <= offset < to of a partition of events are about, in any order. It returns
	// ErrBeforeLog if records of these are gone.
	Concerned(ctx context.Context, partition int32, from, to int64) ([]string, error)
}

// Change is what a commit changed. Next is the offset up to which the partition is folded after it.
type Change struct {
	Partition int32
	Next      int64
	Tasks     []TaskChange
}

// TaskChange is a changed task. Was is its previous state, empty for a new task.
type TaskChange struct {
	ID  string
	Was events.TaskState
}

// hub collects changes for all streams of a node. It works only while a stream is open. Changes of the partitions that this node stores come
// from the commits of the store; those of other partitions come over one stream from each node that stores them (follower).
type hub struct {
	changes    Changes
	alerts     Alerts
	documents  documents
	proxy      *proxy.Proxy
	cluster    Cluster
	partitions int32
	node       string
	life       lifetime
	log        logger

	// turn is held while a stream opens or closes, so that run ends before it starts again. It is locked before mu.
	turn sync.Mutex
	// stop ends run and waits for its end. It is guarded by turn.
	stop func()
	// mu guards the fields below. The owners of partitions lock it for each of their commits while streams are open.
	mu sync.Mutex
	// members are the open streams, and clients those of them that no other node opened.
	members, clients int
	wake             chan struct{}
	pending          pendingChanges
	frames           []*frame
	counts           []byte
	// published is closed by the next frame.
	published chan struct{}
}

// pendingChanges are those since the last frame.
type pendingChanges struct {
	// accepts holds for each partition the source whose changes are taken: nil for the commits of the store, otherwise a follower.
	accepts []*follower
	here    []bool
	tasks   map[string]*pendingTask
	next    liveCursor
	more    int
	lost    []int32
	states  map[int32]map[events.TaskState]int64
}

// pendingTask is a changed task; row is what another node says about it.
type pendingTask struct {
	was []events.TaskState
	row *LiveTask
}

// join adds a stream. It returns when the hub knows its own position, or with the error of ctx.
func (h *hub) join(ctx context.Context, client bool) error {
	h.turn.Lock()
	h.mu.Lock()
	h.members++
	if client {
		h.clients++
	}
	if h.members == 1 {
		h.start()
	}
	h.turn.Unlock()
	for len(h.frames) == 0 {
		published := h.published
		h.mu.Unlock()
		select {
		case <-published:
		case <-ctx.Done():
			h.leave(client)
			return ctx.Err()
		}
		h.mu.Lock()
	}
	h.mu.Unlock()
	return nil
}

// leave removes a stream. After the last one the hub stops working.
func (h *hub) leave(client bool) {
	h.turn.Lock()
	defer h.turn.Unlock()
	h.mu.Lock()
	h.members--
	if client {
		h.clients--
	}
	left := h.members
	h.mu.Unlock()
	if left == 0 {
		h.stop()
	}
}

// start is called with mu held.
func (h *hub) start() {
	ctx, cancel := h.life.until(context.Background())
	w := &hubWork{
		hub: h, cursor: make(liveCursor, h.partitions), sources: make([]proxy.Route, h.partitions), followers: map[proxy.Route]*follower{},
		owners: make([]string, h.partitions), states: map[int32]map[events.TaskState]int64{},
	}
	for p := range w.cursor {
		w.cursor[p] = unknownOffset
	}
	h.wake, h.published, h.frames, h.counts = make(chan struct{}, 1), make(chan struct{}), nil, nil
	h.pending = pendingChanges{accepts: make([]*follower, h.partitions), here: make([]bool, h.partitions)}
	h.pending.clear(h.partitions)
	unwatch := h.changes.Watch(h.committed)
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	h.stop = func() { unwatch(); cancel(); <-done }
}

func (p *pendingChanges) clear(partitions int32) {
	p.tasks, p.more, p.lost, p.states = map[string]*pendingTask{}, 0, nil, map[int32]map[events.TaskState]int64{}
	p.next = make(liveCursor, partitions)
	for i := range p.next {
		p.next[i] = unknownOffset
	}
}

// committed takes a commit of this node's store.
func (h *hub) committed(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pending.here[c.Partition] {
		return
	}
	for _, t := range c.Tasks {
		h.pending.add(t.ID, t.Was)
	}
	h.pending.next.advance(c.Partition, c.Next)
	h.nudge()
}

// nudge wakes the hub's goroutine. It is called with mu held.
func (h *hub) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (p *pendingChanges) add(id string, was events.TaskState) *pendingTask {
	t := p.tasks[id]
	if t == nil {
		if len(p.tasks) >= hubPending {
			p.more++
			return nil
		}
		t = &pendingTask{}
		p.tasks[id] = t
	}
	if was != "" && !slices.Contains(t.was, was) {
		t.was = append(t.was, was)
	}
	return t
}

// after returns the frames after seq. If some of these are gone, lost is true and only the last frame is returned. published is closed by
// the next frame.
func (h *hub) after(seq int64) (list []*frame, lost bool, published <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.frames[len(h.frames)-1]
	n := int(last.seq - seq)
	if n > len(h.frames) {
		return []*frame{last}, true, h.published
	}
	return slices.Clone(h.frames[len(h.frames)-n:]), false, h.published
}

// counted returns the last counts by state.
func (h *hub) counted() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}

// from returns the number of the frame after which a stream with this cursor continues. If the frames do not go back that far, ok is false,
// and last is the latest frame.
func (h *hub) from(c liveCursor) (seq int64, last *frame, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last = h.frames[len(h.frames)-1]
	if c == nil || c.reaches(last.to) {
		return last.seq, last, true
	}
	for _, f := range h.frames {
		if f.seq > 1 && c.reaches(f.from) {
			return f.seq - 1, last, true
		}
	}
	return last.seq, last, false
}

// hubWork is the state of the hub's goroutine.
type hubWork struct {
	*hub
	seq    int64
	cursor liveCursor
	// sources are where the changes of each partition come from, and followers the streams of other nodes.
	sources   []proxy.Route
	followers map[proxy.Route]*follower
	owners    []string
	states    map[int32]map[events.TaskState]int64
	// agentsPrint and alertsPrint are the fingerprints of the last frame.
	agentsPrint, alertsPrint uint64
	client                   bool
}

func (w *hubWork) run(ctx context.Context) {
	defer w.unfollow()
	w.settle(ctx)
	ticks := time.NewTicker(frameEvery)
	defer ticks.Stop()
	for {
		if f := w.next(ctx); f != nil {
			w.publish(f)
			pause.For(ctx, frameEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticks.C: // a change of owners or agents comes with no commit
		}
	}
}

// settleWithin is how long the first streams wait for the other nodes.
const settleWithin = 2 * time.Second

// settle waits until the other nodes have sent their positions. Streams that begin before would get a reset as soon as they do.
func (w *hubWork) settle(ctx context.Context) {
	w.mu.Lock()
	w.client = w.clients > 0
	w.mu.Unlock()
	w.locate(ctx)
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for w.awaits() {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
	}
}

// awaits says whether a follower has not received anything yet.
func (w *hubWork) awaits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.followers {
		for _, p := range f.partitions {
			if w.pending.next[p] == unknownOffset && !f.over() {
				return true
			}
		}
	}
	return false
}

// next returns what changed since the last frame, nil if nothing did.
func (w *hubWork) next(ctx context.Context) *frame {
	f := &frame{seq: w.seq + 1, from: w.cursor.clone()}
	w.locate(ctx)
	w.mu.Lock()
	taken := w.pending
	w.pending.clear(w.partitions)
	w.client = w.clients > 0
	w.mu.Unlock()
	for p, next := range taken.next {
		if w.seq > 0 && w.cursor[p] == unknownOffset && next != unknownOffset {
			taken.lost = append(taken.lost, int32(p)) // streams are open that do not have its position
		}
		w.cursor.advance(int32(p), next)
	}
	f.to, f.more, f.lost = w.cursor.clone(), taken.more, taken.lost
	for p, states := range taken.states {
		w.states[p] = states
	}
	if len(taken.tasks) > hubTasks {
		f.more += len(taken.tasks)
	} else {
		look := w.documents.look(true)
		for id, t := range taken.tasks {
			w.read(ctx, f, look, id, t)
		}
	}
	w.topics(ctx, f)
	if w.seq > 0 && f.idle() {
		return nil
	}
	return f
}

// read adds the row of a task. A task that was forgotten in the meantime has none.
func (w *hubWork) read(ctx context.Context, f *frame, l look, id string, t *pendingTask) {
	row := t.row
	if row == nil {
		var err error
		if row, err = w.row(ctx, f.to, l, id); err != nil {
			f.more++
			return
		}
	}
	if row != nil {
		row.Was = unite(t.was, nil)
		f.tasks = append(f.tasks, changedTask{*row, mustMarshal(row)})
	} else if !w.cluster.Route(events.Home(id, w.partitions)).Readable() {
		f.more++ // its partition has left, and with it the row
	}
}

// row returns a task of this node's store, nil if it is not there.
func (h *hub) row(ctx context.Context, at liveCursor, l look, id string) (*LiveTask, error) {
	t, err := h.documents.tasks.Task(ctx, id)
	if err != nil {
		return nil, h.log.internal(ctx, "read a task for a stream", err)
	}
	if t == nil {
		return nil, nil
	}
	d := h.documents.brief(t)
	d.only = briefMembers
	if !t.State.Ended() {
		if d.WaitingFor, err = h.documents.waiting(ctx, t, l); err != nil {
			return nil, err
		}
		d.WaitingFor = d.WaitingFor[:min(len(d.WaitingFor), listedWaits)]
		for i := range d.WaitingFor {
			d.WaitingFor[i].For = events.Clip(d.WaitingFor[i].For, listedFor)
		}
	}
	p := events.Home(id, h.partitions)
	return &LiveTask{Partition: p, Offset: at[p], Task: d}, nil
}

func (w *hubWork) publish(f *frame) {
	if f == nil {
		return
	}
	w.seq = f.seq
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frames = append(w.frames, f)
	if f.counts != nil {
		w.counts = f.counts
	}
	size := 0
	for _, kept := range w.frames {
		size += kept.size()
	}
	for len(w.frames) > 1 && (len(w.frames) > hubFrames || size > hubBytes) {
		size -= w.frames[0].size()
		w.frames[0] = nil
		w.frames = w.frames[1:]
	}
	close(w.published)
	w.published = make(chan struct{})
}

// topics adds the messages that are not about single tasks.
func (w *hubWork) topics(ctx context.Context, f *frame) {
	w.count(f)
	var moved []LiveOwner
	for p := range w.partitions {
		if owner := w.ownerOf(p); owner != w.owners[p] {
			w.owners[p] = owner
			moved = append(moved, LiveOwner{Partition: p, Owner: owner})
		}
	}
	if len(moved) > 0 && w.seq > 0 {
		f.partitions = mustMarshal(LiveOwners{Partitions: moved})
	}
	agents, alerts := w.prints(ctx, f)
	f.agents, f.alerts = w.seq > 0 && agents != w.agentsPrint, w.seq > 0 && alerts != w.alertsPrint
	w.agentsPrint, w.alertsPrint = agents, alerts
}

// ownerOf returns the node that owns a partition, as far as this one knows.
func (w *hubWork) ownerOf(p int32) string {
	if at := w.cluster.Route(p); !at.Readable() {
		return at.Node
	}
	return w.cluster.Owner(p)
}

// count adds the counts by state if they changed.
func (w *hubWork) count(f *frame) {
	sum := map[events.TaskState]int64{}
	f.states = map[int32]map[events.TaskState]int64{}
	var d CountsDocument
	for p := range w.partitions {
		states := w.states[p]
		if w.cluster.Route(p).Readable() { // and not by its source, which stays while nobody has it: the store may be folded again from nothing
			states = w.changes.States(p)
			f.states[p] = states
		}
		if states == nil {
			d.lacks([]int32{p})
		}
		for state, n := range states {
			sum[state] += n
		}
	}
	for state, n := range sum {
		if n > 0 {
			d.Counts = append(d.Counts, TaskCount{Key: string(state), Count: n})
		}
	}
	d.cut()
	if text := mustMarshal(d); !bytes.Equal(text, w.counted()) {
		f.counts = text
	}
}

// prints returns fingerprints of the agents, and of the subjects of alerts with their acknowledgements.
func (w *hubWork) prints(ctx context.Context, f *frame) (agents, alerts uint64) {
	var missing []string
	for _, m := range w.documents.offers.Missing() {
		missing = append(missing, m.Call().String())
	}
	parked := int64(0)
	for p := range w.partitions {
		if states := f.states[p]; states != nil {
			parked += states[events.TaskStateError]
		} else {
			parked += w.states[p][events.TaskStateError]
		}
	}
	alerts = print(missing, parked)
	for id, seen := range w.alerts.Acknowledged() {
		alerts ^= print(id, seen.At)
	}
	list, err := w.cluster.Agents(ctx)
	if err != nil {
		return w.agentsPrint, alerts
	}
	for _, a := range list {
		agents ^= print(a.Instance, a.Node, a.Agents, a.Health, a.Capacity, a.Operations, a.StartedAt)
	}
	return agents ^ print(missing) ^ print(w.documents.pauses.Paused()), alerts
}

func print(values ...any) uint64 { return hashOf(fmt.Sprint(values...)) }
