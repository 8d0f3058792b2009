package node_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

const webhookSecret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is an HTTP server that verifies each message and remembers it.
type receiver struct {
	t  *testing.T
	vn *embedded.VirtualNetwork

	// mu guards the fields below.
	mu sync.Mutex
	// down makes the machine refuse connections. status, if set, decides what a message is answered.
	down   bool
	status func(id string, body string) int
	// calls counts the messages by ID, and taken holds those that were answered 200.
	calls map[string]int
	taken map[string]taken
	news  chan struct{}
}

type taken struct {
	Type string
	Time events.Instant `json:"timestamp"`
	Data map[string]any
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, vn: new(embedded.VirtualNetwork), calls: map[string]int{}, taken: map[string]taken{}, news: make(chan struct{}, 1)}
	l, err := r.vn.Listen("tcp", "127.0.0.1:8080")
	require.NoError(t, err)
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// ServeHTTP checks the signature as the convention describes it, with none of our code.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	id, at := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	key, _ := base64.StdEncoding.DecodeString(webhookSecret)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if err != nil || strings.Contains(id, ".") || at != fmt.Sprint(time.Now().Unix()) || req.Header.Get("webhook-signature") != want || req.Method != http.MethodPost {
		r.t.Errorf("message %q is not signed as it must be", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[id]++
	status := http.StatusOK
	if r.status != nil {
		status = r.status(id, string(body))
	}
	if status == http.StatusOK {
		var m taken
		if err := json.Unmarshal(body, &m); err != nil {
			r.t.Errorf("message %q: %v", id, err)
		}
		r.taken[id] = m
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
	w.WriteHeader(status)
}

func (r *receiver) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// await waits until the receiver has taken this many messages.
func (r *receiver) await(n int, within time.Duration) {
	r.t.Helper()
	over := time.After(within)
	for {
		r.mu.Lock()
		got := len(r.taken)
		r.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-r.news:
		case <-over:
			require.Failf(r.t, "too few messages", "%d of %d within %s", got, n, within)
		}
	}
}

// hooked makes a node deliver to the receiver.
func (r *receiver) hooked(on ...string) func(*node.Config) {
	return func(c *node.Config) {
		keys, err := webhook.ParseKeys("whsec_" + webhookSecret)
		require.NoError(r.t, err)
		s, err := webhook.New(webhook.Config{URL: "http://127.0.0.1:8080/hook", Keys: keys.Always(), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			r.mu.Lock()
			down := r.down
			r.mu.Unlock()
			if down {
				return nil, errCut
			}
			return r.vn.DialContext(ctx, network, addr)
		}})
		require.NoError(r.t, err)
		c.Webhook = &node.Webhook{Sender: s, On: on, FromStart: true}
		c.Registry = prometheus.NewRegistry()
	}
}

// said returns the accepted facts that are messages, by their IDs.
func (w *world) said(on ...string) map[string]seen {
	list := map[string]seen{}
	for _, s := range w.watch.log() {
		kind := ""
		switch b := s.fact.Body.(type) {
		case *events.TaskParked, *events.TaskReminded:
			kind = supervisor.AlertParked
		case *events.TaskUndone:
			kind = supervisor.AlertUndone
		case *events.TaskProcessed:
			kind = "processed"
		case *events.TaskTerminated:
			kind = "terminated"
		case *events.StepFailed:
			if b.Error.Class == events.ClassPermanent {
				kind = supervisor.AlertPermanent
			}
		}
		if s.fate == events.FateAccepted && slices.Contains(on, kind) {
			list[events.FactID(s.fact, s.partition)] = s
		}
	}
	return list
}

// agrees says that the receiver has taken the message of each of these facts, and no other.
func (r *receiver) agrees(facts map[string]seen) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Equal(r.t, slices.Sorted(maps.Keys(facts)), slices.Sorted(maps.Keys(r.taken)))
	for id, s := range facts {
		m := r.taken[id]
		require.Equal(r.t, s.fact.Time, m.Time, id)
		require.Equal(r.t, s.fact.Task, m.Data["task"], id)
		require.EqualValues(r.t, s.partition, m.Data["partition"], id)
		require.Equal(r.t, "sagalog", m.Data["namespace"], id)
	}
}

var webhookKinds = []string{"parked", "undone", "terminated", "processed", "permanent_failure"}

// mixed is a workflow whose tasks park or are processed, as their agent decides by their names.
const mixed = `
workflow: w
labels: {tenant: "t-1"}
steps:
  only: {agent: stock, with: {id: "${ task.id }"}, retry: {attempts: 1, then: park}}
`

func failing(_ context.Context, a agent.Attempt) error {
	if strings.HasPrefix(a.Task, "bad") {
		return agent.Permanent(errors.New("no such thing"))
	}
	return nil
}

// The receiver refuses connections for an hour, by default for 12 minutes, and with -short for six. Meanwhile tasks go on as before, one of two nodes dies, and both start again. Then the receiver
// gets each message, with one ID however often it was tried, and none about anything else.
func TestAReceiverThatWasDownForAnHourGetsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		w.kinds = []string{"stock"}
		r := receive(t)
		dirs := []string{t.TempDir(), t.TempDir()}
		start := func(i int) *process {
			return w.node(dirs[i], together, func(c *node.Config) { c.Name = fmt.Sprintf("node-%d", i) }, r.hooked(webhookKinds...))
		}
		one, two := start(0), start(1)
		w.apply(one, mixed)
		w.hire(failing)
		w.windowKnown(one, "stock")
		w.shared("node-0", "node-1")
		r.set(func() { r.down = true })
		pause := time.Duration(rounds(t, 2, 10)) * time.Minute
		if testing.Short() {
			pause = time.Minute
		}
		begun := time.Now()
		for round := range 6 {
			w.urge(0, append(ids(fmt.Sprintf("good-%d", round), 10), ids(fmt.Sprintf("bad-%d", round), 10)...)...)
			w.watch.await("all tasks are judged", func() bool {
				n := 0
				for _, s := range w.watch.facts {
					switch s.fact.Body.(type) {
					case *events.TaskParked, *events.TaskProcessed:
						n += map[bool]int{true: 1}[s.fate == events.FateAccepted]
					}
				}
				return n == 20*(round+1)
			})
			require.Less(t, time.Since(begun), time.Minute+time.Duration(round)*pause, "nothing waits for the receiver")
			switch round {
			case 1:
				two.kill()
				w.shared("node-0")
			case 3:
				two = start(1)
				w.shared("node-0", "node-1")
			case 4:
				require.NoError(t, one.stop())
				w.shared("node-1")
				one = start(0)
			}
			<-time.After(time.Until(begun.Add(time.Duration(round+1) * pause)))
		}
		require.Empty(t, r.taken)
		r.set(func() { r.down = false })
		facts := w.said(webhookKinds...)
		require.Len(t, facts, 180)
		r.await(len(facts), 6*time.Minute)
		<-time.After(time.Minute)
		r.agrees(facts)
		m := r.taken[slices.Sorted(maps.Keys(facts))[0]]
		require.Equal(t, "w", m.Data["workflow"])
		require.Equal(t, map[string]any{"tenant": "t-1"}, m.Data["labels"])
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

// Two nodes believe that they own each partition, and their late records are void. No message is about a void fact, and none is missing.
func TestNoMessageIsAboutAVoidFact(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"stock"}
		r := receive(t)
		one := w.node(t.TempDir(), r.hooked(webhookKinds...))
		w.apply(one, mixed)
		w.hire(failing)
		two := w.node(t.TempDir(), r.hooked(webhookKinds...))
		for i, p := range []*process{one, two} {
			w.disturb(p, func(n int) fate {
				if n%9 == 5+i {
					return fate{late: 300 * time.Millisecond}
				}
				return fate{}
			})
		}
		void := func() (n int) {
			for _, s := range w.watch.log() {
				switch s.fact.Body.(type) {
				case *events.TaskParked, *events.TaskProcessed:
					n += map[bool]int{true: 1}[s.fate == events.FateVoid]
				}
			}
			return n
		}
		for round := 0; round < 3 || void() == 0; round++ {
			require.Less(t, round, 200, "no void fact came that would be a message")
			w.urge(0, append(ids(fmt.Sprintf("good-%d", round), 10), ids(fmt.Sprintf("bad-%d", round), 10)...)...)
			<-time.After(5 * time.Second)
		}
		<-time.After(time.Minute)
		facts := w.said(webhookKinds...)
		r.await(len(facts), time.Minute)
		r.agrees(facts)
		t.Logf("%d messages, %d void facts that would be one", len(facts), void())
		require.NoError(t, one.stop())
		require.NoError(t, two.stop())
	})
}

// Messages that the receiver refuses hold back no others. After the time that is set for it they are given up, and the log and the metrics say so.
func TestARefusedMessageHoldsBackNoOther(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		r := receive(t)
		r.status = func(_, body string) int {
			if strings.Contains(body, "bad-poison") {
				return http.StatusGone
			}
			return http.StatusOK
		}
		var registry *prometheus.Registry
		one := w.node(t.TempDir(), r.hooked("parked"), func(c *node.Config) { registry, c.Webhook.GiveUpAfter = c.Registry, 4*time.Minute })
		w.apply(one, mixed)
		w.hire(failing)
		w.urge(0, append(ids("bad-poison", 20), ids("bad", 20)...)...)
		r.await(20, time.Minute)
		<-time.After(time.Second) // the receiver has them; the node counts one when the answer has arrived
		require.EqualValues(t, 20, metric(t, registry, "sagalog_webhook_deliveries_total", "delivered"))
		require.EqualValues(t, 20, metric(t, registry, "sagalog_webhook_outstanding", ""))
		<-time.After(10 * time.Minute)
		r.mu.Lock()
		for id, s := range w.said("parked") {
			want := 1
			if strings.HasPrefix(s.fact.Task, "bad-poison") {
				want = 5 // at once and after 30, 60, 120 and 240 s, less at most a quarter each
			}
			require.InDelta(t, want, r.calls[id], float64(want-1)/4, s.fact.Task)
		}
		require.Len(t, r.taken, 20)
		r.mu.Unlock()
		require.EqualValues(t, 20, metric(t, registry, "sagalog_webhook_deliveries_total", "given_up"))
		require.EqualValues(t, 0, metric(t, registry, "sagalog_webhook_outstanding", ""))
		given := w.logs.find("given up and will never be delivered")
		require.Len(t, given, 20)
		require.Contains(t, given[0], "status 410")
		require.NoError(t, one.stop())
	})
}

// The first node that has a webhook begins at the end of the log. From then on nothing is left out, also if nothing was delivered before a crash.
func TestTheWebhookBeginsAtTheEndOfTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		r := receive(t)
		dir := t.TempDir()
		atEnd := func(c *node.Config) { c.Webhook.FromStart = false }
		before := w.node(dir)
		w.apply(before, mixed)
		w.hire(failing)
		w.urge(0, ids("bad-old", 5)...)
		w.watch.await("the old ones are parked", func() bool { return w.parked() == 5 })
		require.NoError(t, before.stop())
		one := w.node(dir, r.hooked("parked"), atEnd)
		<-time.After(5 * time.Second)
		r.set(func() { r.down = true })
		w.urge(0, ids("bad-new", 5)...)
		w.watch.await("the new ones are parked", func() bool { return w.parked() == 10 })
		one.kill()
		r.set(func() { r.down = false })
		two := w.node(dir, r.hooked("parked"), atEnd)
		r.await(5, time.Minute)
		<-time.After(time.Minute)
		facts := w.said("parked")
		maps.DeleteFunc(facts, func(_ string, s seen) bool { return strings.HasPrefix(s.fact.Task, "bad-old") })
		require.Len(t, facts, 5)
		r.agrees(facts)
		require.NoError(t, two.stop())
	})
}

// parked counts the facts of tasks that are parked. It is called with the observer's mu held.
func (w *world) parked() (n int) {
	for _, s := range w.watch.facts {
		if _, ok := s.fact.Body.(*events.TaskParked); ok && s.fate == events.FateAccepted {
			n++
		}
	}
	return n
}

// A missing agent is said too, although no fact says it, and has one ID. While more messages of a partition wait than are kept, the log is not read on, and
// the metrics say so; afterwards all of it is delivered.
func TestABacklogOfMessagesIsBounded(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		r := receive(t)
		r.status = func(string, string) int { return http.StatusServiceUnavailable }
		var registry *prometheus.Registry
		one := w.node(t.TempDir(), r.hooked("parked", "processed", "agent_missing"), func(c *node.Config) { registry = c.Registry })
		w.apply(one, mixed)
		w.apply(one, "workflow: lonely\nsteps:\n  only: {agent: nobody}\n")
		w.hire(failing)
		w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte("lonely"), Value: []byte(`{"workflow":"lonely"}`)})
		tasks := ids("good", 600)
		w.urge(0, tasks...)
		w.watch.ended(tasks...)
		<-time.After(time.Minute)
		require.EqualValues(t, 256+1, metric(t, registry, "sagalog_webhook_outstanding", ""))
		require.Greater(t, metric(t, registry, "sagalog_webhook_lag_records", ""), 300.0)
		require.Greater(t, metric(t, registry, "sagalog_webhook_oldest_seconds", ""), 59.0)
		r.set(func() { r.status = nil })
		r.await(601, 10*time.Minute)
		missing := 0
		for id, m := range r.taken {
			if m.Type == "sagalog.agent.missing" {
				missing++
				require.Equal(t, "nobody", m.Data["agent"])
				require.Regexp(t, `^agent_missing/[0-9a-f]{32}$`, id)
				delete(r.taken, id)
			}
		}
		require.Equal(t, 1, missing)
		r.agrees(w.said("processed"))
		require.NoError(t, one.stop())
	})
}

// metric returns the value of a metric, of several that of the label's value.
func metric(t *testing.T, r *prometheus.Registry, name, value string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (value == "" || m.GetLabel()[0].GetValue() == value) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	require.Fail(t, "no metric", name)
	return 0
}
