package api

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
)

// LiveTask is a changed task, as a row of a list shows it.
type LiveTask struct {
	Partition int32              `json:"partition"`
	Offset    int64              `json:"offset" doc:"The next offset of the partition: the row reflects at least all facts before it"`
	Was       []events.TaskState `json:"was,omitempty" doc:"The states that it had since the previous message; unknown if they are not known"`
	Task      TaskDocument       `json:"task"`
}

// wasUnknown stands for the former states of a task whose changes were found in the log.
const wasUnknown events.TaskState = "unknown"

// changedTask is a task of a frame, with its message as it is sent.
type changedTask struct {
	LiveTask
	message []byte
}

// frame is what changed within about a second. It is immutable, except for rendered.
type frame struct {
	seq      int64
	from, to liveCursor
	tasks    []changedTask
	// more counts the changed tasks that were not read, because there were too many.
	more int
	// lost are the partitions some of whose changes before from may be missing.
	lost []int32
	// The messages of the other topics, nil where nothing changed. states is for other nodes.
	counts, partitions []byte
	states             map[int32]map[events.TaskState]int64
	agents, alerts     bool

	// mu guards rendered: the texts for streams by their key. Most streams ask the same; what only some ask is made for each.
	mu       sync.Mutex
	rendered map[string]string
}

// renderedTexts bounds the texts that a frame keeps: each may be as large as the frame, and the key is the client's choice.
const renderedTexts = 8

// size is roughly the number of bytes that a frame takes.
func (f *frame) size() (n int) {
	for i := range f.tasks {
		n += 2*len(f.tasks[i].message) + 512
	}
	return n + 4096
}

// idle says that nothing changed.
func (f *frame) idle() bool {
	return slices.Equal(f.from, f.to) && len(f.tasks) == 0 && f.more == 0 && len(f.lost) == 0 && f.counts == nil && f.partitions == nil && !f.agents && !f.alerts
}

// merged joins consecutive frames into one, with each task once, as it is in the last of them.
func merged(frames []*frame) *frame {
	if len(frames) == 1 {
		return frames[0]
	}
	last := frames[len(frames)-1]
	all := &frame{seq: last.seq, from: frames[0].from, to: last.to}
	at := map[string]int{}
	for _, f := range frames {
		for _, t := range f.tasks {
			i, seen := at[t.Task.ID]
			if !seen {
				at[t.Task.ID] = len(all.tasks)
				all.tasks = append(all.tasks, t)
				continue
			}
			t.Was = unite(all.tasks[i].Was, t.Was)
			t.message = nil // it has another Was
			all.tasks[i] = t
		}
		all.more += f.more
		all.lost = append(all.lost, f.lost...)
		all.agents, all.alerts = all.agents || f.agents, all.alerts || f.alerts
		if f.counts != nil {
			all.counts = f.counts
		}
		if f.partitions != nil {
			all.partitions = f.partitions
		}
		if f.states != nil {
			all.states = f.states
		}
	}
	return all
}

func unite(a, b []events.TaskState) []events.TaskState {
	list := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// liveFilter says what a stream is about.
type liveFilter struct {
	topics map[string]bool
	query  Query
	// asked are the partitions that another node asks about; nil for a client.
	asked []int32
	// key is the same for filters that select the same.
	key string
}

func newLiveFilter(topics []string, q Query, asked []int32) liveFilter {
	f := liveFilter{topics: map[string]bool{}, query: q, asked: asked}
	for _, t := range topics {
		f.topics[t] = true
	}
	values := q.values()
	values["topics"] = slices.Sorted(maps.Keys(f.topics))
	if f.key = values.Encode(); asked != nil {
		f.key += " of a node"
	}
	return f
}

// fits says whether the filter selects the task, or selected it before the change.
func (f *liveFilter) fits(t *LiveTask) bool {
	q, d := &f.query, &t.Task
	if f.asked != nil {
		return slices.Contains(f.asked, t.Partition)
	}
	if q.Workflow != "" && d.Workflow != q.Workflow || q.Since != 0 && d.SubmittedAt < q.Since || q.Until != 0 && d.SubmittedAt >= q.Until ||
		q.Match.Schedule != "" && d.Schedule != q.Match.Schedule {
		return false
	}
	for k, v := range q.Labels {
		if d.Labels[k] != v {
			return false
		}
	}
	if len(q.States) == 0 || slices.Contains(q.States, events.TaskState(d.State)) {
		return true
	}
	return slices.ContainsFunc(t.Was, func(s events.TaskState) bool { return s == wasUnknown || slices.Contains(q.States, s) })
}

// message is an event of a stream.
type message struct {
	name string
	data []byte
}

// render returns the events of a frame for a stream, "" for none. Only the last one has an ID: a stream that breaks off before it is
// resumed at the beginning of the frame.
func (f *frame) render(filter *liveFilter) string {
	f.mu.Lock()
	text, ok := f.rendered[filter.key]
	f.mu.Unlock()
	if ok {
		return text
	}
	text = write(f.messages(filter), f.to)
	f.mu.Lock()
	defer f.mu.Unlock()
	if filter.asked == nil && len(f.rendered) < renderedTexts {
		if f.rendered == nil {
			f.rendered = map[string]string{}
		}
		f.rendered[filter.key] = text
	}
	return text
}

func (f *frame) messages(filter *liveFilter) (list []message) {
	add := func(name string, v any) { list = append(list, message{name, mustMarshal(v)}) }
	if filter.topics[topicTasks] {
		list = f.taskMessages(filter)
	}
	if f.counts != nil && filter.topics[topicCounts] {
		list = append(list, message{topicCounts, f.counts})
	}
	if f.partitions != nil && filter.topics[topicPartitions] {
		list = append(list, message{topicPartitions, f.partitions})
	}
	if f.agents && filter.topics[topicAgents] {
		add(topicAgents, struct{}{})
	}
	if f.alerts && filter.topics[topicAlerts] {
		add(topicAlerts, struct{}{})
	}
	if filter.asked != nil && f.states != nil {
		add("states", f.states)
	}
	if lost := f.lostOf(filter); len(lost) > 0 {
		add("reset", LiveReset{Partitions: lost})
	}
	return list
}

func (f *frame) lostOf(filter *liveFilter) []int32 {
	if filter.asked == nil {
		return f.lost
	}
	return slices.DeleteFunc(slices.Clone(f.lost), func(p int32) bool { return !slices.Contains(filter.asked, p) })
}

// taskMessages returns the changed tasks, or how many there are if they are too many for a stream.
func (f *frame) taskMessages(filter *liveFilter) (list []message) {
	room := streamTasks
	if filter.asked != nil {
		room = hubTasks
	}
	n := f.more
	for i := range f.tasks {
		t := &f.tasks[i]
		if !filter.fits(&t.LiveTask) {
			continue
		}
		if n++; n > room {
			continue
		}
		data := t.message
		if data == nil {
			data = mustMarshal(t.LiveTask)
		}
		list = append(list, message{"task", data})
	}
	if f.more > 0 || n > room {
		return []message{{"more", mustMarshal(LiveMore{Count: n})}}
	}
	return list
}

// write returns messages as a stream has them.
func write(list []message, at liveCursor) string {
	var b strings.Builder
	for i, m := range list {
		if i == len(list)-1 {
			b.WriteString("id: " + at.String() + "\n")
		}
		b.WriteString("event: " + m.name + "\ndata: ")
		b.Write(m.data)
		b.WriteString("\n\n")
	}
	return b.String()
}

// mustMarshal encodes our own documents.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("encode a message of a stream: " + err.Error())
	}
	return b
}
