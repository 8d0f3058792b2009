package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
)

const livePath = "/v1/stream"

// The topics of a stream.
const (
	topicTasks      = "tasks"
	topicCounts     = "counts"
	topicPartitions = "partitions"
	topicAgents     = "agents"
	topicAlerts     = "alerts"
)

var liveTopics = []string{topicTasks, topicCounts, topicPartitions, topicAgents, topicAlerts}

const (
	// streamTasks bounds the rows that a stream gets in a second. If there are more, it gets only their number.
	streamTasks = 200
	// DefaultLiveStreams bounds the open streams of clients. Each takes about 40 KB, and 20 µs of CPU for a message.
	DefaultLiveStreams = 2000
	// resumesAtOnce bounds the streams that read the log at the same time, and resumeWait how long a further one waits before it gets a reset:
	// when a node dies, all its streams come back at once.
	resumesAtOnce = 4
	resumeWait    = 2 * time.Second
)

// LiveOpen is the first event of a stream.
type LiveOpen struct {
	Node   string `json:"node" doc:"The node that answers"`
	Cursor string `json:"cursor" doc:"Where the stream begins. A list that is read from now on contains all earlier changes"`
}

// LiveMore says that too many tasks changed to name each.
type LiveMore struct {
	Count int `json:"count" doc:"About how many changes there were"`
}

// LiveReset says that changes may be missing.
type LiveReset struct {
	Partitions []int32 `json:"partitions,omitempty" doc:"The partitions whose changes may be missing; absent: all"`
}

// LiveOwners are the partitions whose owner changed.
type LiveOwners struct {
	Partitions []LiveOwner `json:"partitions"`
}

// LiveOwner is the owner of a partition.
type LiveOwner struct {
	Partition int32  `json:"partition"`
	Owner     string `json:"owner,omitempty" doc:"Absent while no owner is known"`
}

// LiveQuery says what a stream is about.
type LiveQuery struct {
	Topics      []string `query:"topics" doc:"One or more of tasks, counts, partitions, agents and alerts, separated by commas; all by default" example:"tasks,counts"`
	State       []string `query:"state,explode" doc:"As for a list of tasks. A task that leaves the state is a change, too"`
	Workflow    string   `query:"workflow" doc:"As for a list of tasks"`
	Label       []string `query:"label,explode" doc:"As for a list of tasks"`
	Since       string   `query:"since" doc:"As for a list of tasks"`
	Until       string   `query:"until" doc:"As for a list of tasks"`
	Schedule    string   `query:"schedule" doc:"As for a list of tasks"`
	Cursor      string   `query:"cursor" doc:"Continue after this event"`
	Accept      string   `header:"Accept" doc:"text/event-stream"`
	LastEventID string   `header:"Last-Event-ID" doc:"Continue after this event; it has precedence over cursor"`
}

// liveStreams serves streams of the changes in the whole namespace.
type liveStreams struct {
	hub     *hub
	lists   *lists
	streams prometheus.Gauge
	// room has a slot for each open stream of a client, and resumes one for each stream that reads the log.
	room, resumes chan struct{}
}

func (s *Server) live(l *lists) *liveStreams {
	c := &s.cfg
	h := &hub{changes: c.Changes, alerts: c.Alerts, documents: l.documents, proxy: s.proxy, cluster: c.Cluster, partitions: c.Partitions, node: c.Node, life: s.life, log: s.log}
	return &liveStreams{hub: h, lists: l, streams: s.metrics.streams, room: make(chan struct{}, c.LiveStreams), resumes: make(chan struct{}, resumesAtOnce)}
}

func (s *liveStreams) register(api huma.API) {
	op := operation(api, huma.Operation{
		OperationID: "stream", Method: http.MethodGet, Path: livePath, Summary: "Follow what changes", Tags: []string{"tasks"},
		Description: "Server-sent events. The first event is open. Then come: task, a changed task as a row of a list, at most once a second (changes of tasks that were forgotten are left " +
			"out); counts, the counts of all tasks by state, as in GET /v1/counts; partitions, those whose owner changed; agents and alerts, when the agents, the subjects of " +
			"alerts or their acknowledgements changed; more, when too many tasks changed to name each (200 a second for a stream, 500 for a node): read the list again; reset, when changes may be missing " +
			"since the last event, because the client was slow or away for long: read everything again. A comment every 15 s keeps the stream alive. To resume the stream at any " +
			"node, send the id of the last event as Last-Event-ID or cursor. It consists of the offsets of the partitions of events, separated by dots. Some changes may then be " +
			"sent twice. The stream survives take-overs, and ends without an event when its node stops. A node with too many open streams answers 503 with Retry-After.",
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{contentEventStream: {Schema: &huma.Schema{
			Type: huma.TypeString, Description: "The data of an event is a JSON object. open: {node, cursor}. task: {partition, offset, was, task}, with task as in GET /v1/tasks. " +
				"counts: as the answer of GET /v1/counts. partitions: {partitions: [{partition, owner}]}. more: {count}. reset: {partitions}, absent for all. " +
				"agents and alerts: {}.",
		}}}}},
	})
	huma.Register(api, op, s.open)
}

func (s *liveStreams) open(ctx context.Context, in *LiveQuery) (*huma.StreamResponse, error) {
	if !strings.Contains(in.Accept, contentEventStream) {
		return nil, parameterProblem("Accept", "is not text/event-stream, which is all that this call answers; GET /v1/tasks and GET /v1/counts answer JSON")
	}
	q, err := s.lists.query(&ListQuery{State: in.State, Workflow: in.Workflow, Label: in.Label, Since: in.Since, Until: in.Until, Schedule: in.Schedule})
	if err != nil {
		return nil, err
	}
	topics := slices.DeleteFunc(strings.Split(strings.Join(in.Topics, ","), ","), func(t string) bool { return t == "" })
	for _, t := range topics {
		if !slices.Contains(liveTopics, t) {
			return nil, parameterProblem("topics", "names an unknown topic; the topics are "+strings.Join(liveTopics, ", "))
		}
	}
	if len(topics) == 0 {
		topics = liveTopics
	}
	x := exchangeOf(ctx)
	asked, ok := s.hub.proxy.Asked(x.r)
	if !ok {
		return nil, parameterProblem("Sagalog-Partitions", "is not a list of partitions")
	}
	v := &live{liveStreams: s, x: x, filter: newLiveFilter(topics, q, asked)}
	if text := cmp.Or(in.LastEventID, in.Cursor); text != "" {
		if v.at, ok = parseLiveCursor(text, s.hub.partitions); !ok {
			return nil, parameterProblem("cursor", "is not a cursor of this namespace; begin without a cursor, and read the lists again")
		}
	}
	return &huma.StreamResponse{Body: func(huma.Context) { v.serve() }}, nil
}

// live is one open stream. It holds no messages: it reads the frames of the hub, and falls behind if its client is slow.
type live struct {
	*liveStreams
	x      exchange
	filter liveFilter
	// at is the position of the client; nil if it has none.
	at  liveCursor
	out eventStream
}

func (v *live) serve() {
	client := v.filter.asked == nil
	if client {
		select {
		case v.room <- struct{}{}:
			defer func() { <-v.room }()
		default:
			writeProblem(v.x.w, v.x.r, problem(http.StatusServiceUnavailable, codeUnavailable,
				fmt.Sprintf("%d streams are open at this node. Ask another node, or ask again later.", cap(v.room))).retryAfter(5*time.Second))
			return
		}
	} else if away := v.hub.proxy.Away(v.filter.asked); len(away) > 0 {
		writeProblem(v.x.w, v.x.r, takeoverProblem(away...).with("Sagalog-Moved", "1"))
		return
	}
	v.streams.Inc()
	defer v.streams.Dec()
	ctx, cancel := v.hub.life.until(v.x.r.Context())
	defer cancel()
	if v.hub.join(ctx, client) != nil {
		return
	}
	defer v.hub.leave(client)
	h := v.x.w.Header()
	h.Set("Content-Type", contentEventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	v.x.w.WriteHeader(http.StatusOK)
	v.out = eventStream{v.x.w, http.NewResponseController(v.x.w)}
	if seq, err := v.begin(ctx); err == nil {
		v.run(ctx, seq)
	}
}

// begin sends what the client has missed, and returns the frame after which it continues.
func (v *live) begin(ctx context.Context) (int64, error) {
	_, last, _ := v.hub.from(nil)
	if v.filter.asked != nil && v.at != nil {
		for p := range v.at { // the other node asks about its partitions only, and begins now with those that it knows nothing of
			if v.at[p] == unknownOffset || !slices.Contains(v.filter.asked, int32(p)) {
				v.at[p] = last.to[p]
			}
		}
	}
	seq, last, ok := v.hub.from(v.at)
	lacks := v.at
	if v.at == nil || !ok {
		v.at = last.to.clone()
	}
	first := []message{{"open", mustMarshal(LiveOpen{Node: v.hub.node, Cursor: v.at.String()})}}
	if v.filter.asked != nil {
		first = []message{{"states", mustMarshal(last.states)}}
	} else if v.filter.topics[topicCounts] {
		first = append(first, message{topicCounts, v.hub.counted()})
	}
	if !ok {
		first = append(first, v.resume(ctx, lacks, last)...)
	}
	if ok && seq < last.seq { // the events that follow are before last
		return seq, v.out.write(write(first, lacks))
	}
	return seq, v.out.write(write(first, last.to))
}

func (v *live) run(ctx context.Context, seq int64) {
	ticks := time.NewTicker(keepAliveEvery)
	defer ticks.Stop()
	for {
		frames, lost, published := v.hub.after(seq)
		text := ""
		switch {
		case lost:
			v.at = frames[0].to
			text = write([]message{{"reset", mustMarshal(LiveReset{})}}, v.at)
		case len(frames) > 0:
			f := merged(frames)
			v.at, text = f.to, f.render(&v.filter)
		}
		if len(frames) > 0 {
			seq = frames[len(frames)-1].seq
		}
		if v.filter.asked != nil && len(v.hub.proxy.Away(v.filter.asked)) > 0 {
			return // it asks the next owner, after the last ID
		}
		if text != "" && v.out.write(text) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-published:
		case <-ticks.C:
			if v.out.write("id: "+v.at.String()+"\n: still here\n\n") != nil {
				return
			}
		}
	}
}

// resume returns what changed between a cursor and a frame, from the log.
func (v *live) resume(ctx context.Context, lacks liveCursor, last *frame) []message {
	f := &frame{to: last.to}
	wait, cancel := context.WithTimeout(ctx, resumeWait)
	defer cancel()
	select {
	case v.resumes <- struct{}{}:
		defer func() { <-v.resumes }()
	case <-wait.Done():
		return []message{{"reset", mustMarshal(LiveReset{})}}
	}
	var ids []string
	for p := range v.hub.partitions {
		from, to := lacks[p], last.to[p]
		if from >= to {
			continue
		}
		var list []string
		err := ErrBeforeLog
		switch {
		case from == unknownOffset || !v.hub.cluster.Route(p).Readable():
		case len(ids) > hubTasks: // they are only counted, so the client lists all again
			err = nil
		default:
			list, err = v.hub.concerned(ctx, p, from, to)
		}
		if err != nil {
			f.lost = append(f.lost, p)
		}
		ids = append(ids, list...)
	}
	l := v.hub.documents.look(true)
	for i, id := range ids {
		if i == hubTasks {
			f.tasks, f.more = nil, len(ids)
			break
		}
		row, err := v.hub.row(ctx, last.to, l, id)
		if err != nil {
			f.more++
		} else if row != nil {
			row.Was = append(row.Was, wasUnknown)
			f.tasks = append(f.tasks, changedTask{LiveTask: *row})
		}
	}
	return f.messages(&v.filter)
}
