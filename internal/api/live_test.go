package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// row is what a test reads of a changed task.
type row struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Was       []string `json:"was"`
	Task      struct {
		ID, State, Workflow string
		UpdatedAt           string            `json:"updated_at"`
		Labels              map[string]string `json:"labels"`
	} `json:"task"`
}

func (e event) row(t *testing.T) (r row) {
	t.Helper()
	require.Equal(t, "task", e.name, e.data)
	require.NoError(t, json.Unmarshal([]byte(e.data), &r))
	return r
}

// opened opens a stream and reads its first event.
func (w *world) opened(query string, headers ...string) *stream {
	w.t.Helper()
	s := w.follow("/v1/stream?"+query, headers...)
	require.Equal(w.t, 200, s.resp.StatusCode)
	first, ok := s.next()
	require.True(w.t, ok)
	require.Equal(w.t, "open", first.name)
	s.last = first.id
	return s
}

// until reads events up to the one that satisfies done.
func (s *stream) until(done func(event) bool) event {
	s.t.Helper()
	for {
		e, ok := s.next()
		require.True(s.t, ok, "the stream ended")
		if s.had = append(s.had, e.name); e.id != "" {
			s.last = e.id
		}
		if done(e) {
			return e
		}
	}
}

// sees reads events until each of these tasks was seen in its state.
func (s *stream) sees(want map[string]string) {
	s.t.Helper()
	s.until(func(e event) bool {
		if s.lists && (e.name == "more" || e.name == "reset") {
			clear(want)
		}
		if e.name == "task" {
			if r := e.row(s.t); want[r.Task.ID] == r.Task.State {
				delete(want, r.Task.ID)
			}
		}
		return len(want) == 0 && e.id != ""
	})
}

func named(name string) func(event) bool { return func(e event) bool { return e.name == name } }

func TestAStreamSaysWhichTasksChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=tasks")
	require.Equal(t, "text/event-stream", s.resp.Header.Get("Content-Type"))
	w.do("PUT", "/v1/tasks/x", `{"workflow":"order","labels":{"tenant":"acme"},"input":{"item":"lamp"}}`)
	r := s.until(named("task")).row(t)
	require.Equal(t, "x", r.Task.ID)
	require.Equal(t, "pending", r.Task.State)
	require.Equal(t, "order", r.Task.Workflow)
	require.Equal(t, events.Home("x", apitest.Partitions), r.Partition)
	require.Equal(t, int64(1), r.Offset)
	w.engine.Park("x", "why")
	r = s.until(named("task")).row(t)
	require.Equal(t, "error", r.Task.State)
	require.Equal(t, []string{"pending"}, r.Was)
	require.Equal(t, 1, w.engine.Watching())
	s.cancel()
	require.Eventually(t, func() bool { return w.engine.Watching() == 0 }, soon, 5*time.Millisecond, "owners pay nothing while nobody listens")
}

// People who look at alerts learn that somebody else takes care of one.
func TestAStreamSaysThatAnAlertIsAcknowledged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.SetAlerts([]api.Alert{missingBank}, nil)
	s := w.opened("topics=alerts")
	require.Equal(t, 200, w.do("POST", "/v1/alerts/"+missingBank.ID+"/acknowledge", `{"by":"ada"}`).status)
	s.until(named("alerts"))
	require.NotEmpty(t, w.do("GET", "/v1/alerts", "").json(t)["alerts"].([]any)[0].(map[string]any)["acknowledged"])
}

// Changes come faster than messages, and the last state of each task still comes.
func TestAStreamMissesNothingBetweenTwoMessages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=tasks")
	want := map[string]string{}
	for i := range 60 {
		id := fmt.Sprint("t", i)
		w.do("PUT", "/v1/tasks/"+id, good)
		w.engine.Park(id, "why")
		if want[id] = "error"; i%2 == 0 {
			w.engine.Finish(id)
			want[id] = "processed"
		}
	}
	s.sees(want)
}

func TestAStreamIsFilteredAndSaysWhatLeavesTheFilter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=tasks&state=error&label=tenant:acme")
	for _, tenant := range []string{"acme", "other"} {
		w.do("PUT", "/v1/tasks/"+tenant, `{"workflow":"order","labels":{"tenant":"`+tenant+`"},"input":{"item":"lamp"}}`)
		w.engine.Park(tenant, "why")
	}
	require.Equal(t, "acme", s.until(named("task")).row(t).Task.ID)
	w.engine.Finish("other")
	w.engine.Finish("acme")
	e := s.until(func(e event) bool { return strings.Contains(e.data, "processed") }).row(t)
	require.Equal(t, "acme", e.Task.ID)
	require.Equal(t, []string{"error"}, e.Was)
	for _, query := range []string{"state=green", "topics=weather", "cursor=1.2", "cursor=x"} {
		require.Equal(t, 422, w.do("GET", "/v1/stream?"+query, "", "Accept", "text/event-stream").status, query)
	}
	require.Equal(t, 422, w.do("GET", "/v1/stream", "").status, "it is never JSON")
}

func TestAStreamSendsCountsWhenTheyChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=counts")
	require.JSONEq(t, `{"counts":[],"total":0}`, s.until(named("counts")).data)
	w.do("PUT", "/v1/tasks/x", good)
	require.JSONEq(t, `{"counts":[{"key":"pending","count":1}],"total":1}`, s.until(named("counts")).data)
}

// A node may have to fold a partition's store again: what it has of it meanwhile is not counted as all.
func TestAStreamDoesNotCountAStoreThatIsFolded(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	s := n.members[0].opened("topics=counts")
	n.members[0].submit(idIn(1, "t"))
	s.until(func(e event) bool { return strings.Contains(e.data, `"total":1`) })
	n.orphan(1)
	s.until(func(e event) bool { return strings.Contains(e.data, `"missing":[{"partition":1,`) })
	n.move(1, n.members[0])
	e := s.until(named("counts"))
	require.Contains(t, e.data, `"total":1`)
	require.NotContains(t, e.data, "missing")
}

// More changes than anyone can follow become one number, and cost nobody a read of them.
func TestTooManyChangesAreOnlyCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var lines strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&lines, `{"id":"t%d","workflow":"order","input":{"item":"lamp"}}`+"\n", i)
	}
	s := w.opened("topics=tasks")
	require.Equal(t, 200, w.do("POST", "/v1/tasks", lines.String(), "Content-Type", "application/x-ndjson").status)
	seen := 0
	s.until(func(e event) bool {
		if e.name == "task" {
			seen++
			return false
		}
		var more struct{ Count int }
		require.Equal(t, "more", e.name)
		require.NoError(t, json.Unmarshal([]byte(e.data), &more))
		seen += more.Count
		return seen >= 1200
	})
	require.Equal(t, 1200, seen)
}

func TestAStreamResumesFromTheLog(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=tasks")
	w.do("PUT", "/v1/tasks/x", good)
	s.sees(map[string]string{"x": "pending"})
	s.cancel()
	require.Eventually(t, func() bool { return w.engine.Watching() == 0 }, soon, 5*time.Millisecond)
	w.do("PUT", "/v1/tasks/y", good)
	w.engine.Park("x", "why")
	again := w.opened("topics=tasks&state=processed", "Last-Event-ID", s.last)
	want := map[string]string{"x": "error", "y": "pending"} // whether they were in the state before is not known
	again.sees(want)
	again.cancel()
	require.Eventually(t, func() bool { return w.engine.Watching() == 0 }, soon, 5*time.Millisecond)
	w.engine.Trim(events.Home("x", apitest.Partitions), 2)
	reset := w.opened("topics=tasks", "Last-Event-ID", s.last).until(named("reset"))
	require.JSONEq(t, fmt.Sprintf(`{"partitions":[%d]}`, events.Home("x", apitest.Partitions)), reset.data)
}

// A client that lacks more than can be named costs no more reads of the log than it takes to find that out.
func TestAResumeReadsNoMoreThanItCanSay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.opened("topics=tasks")
	s.cancel()
	require.Eventually(t, func() bool { return w.engine.Watching() == 0 }, soon, 5*time.Millisecond)
	var lines strings.Builder
	for i := range 2400 {
		fmt.Fprintf(&lines, `{"id":"t%d","workflow":"order","input":{"item":"lamp"}}`+"\n", i)
	}
	require.Equal(t, 200, w.do("POST", "/v1/tasks", lines.String(), "Content-Type", "application/x-ndjson").status)
	before := w.engine.LogReads.Load()
	e := w.opened("topics=tasks", "Last-Event-ID", s.last).until(func(event) bool { return true })
	require.Equal(t, "more", e.name, "the client lists again")
	require.Less(t, w.engine.LogReads.Load()-before, int64(apitest.Partitions))
}

func TestStreamsOfTheNamespaceAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.LiveStreams = 1 })
	first := w.opened("")
	second := w.do("GET", "/v1/stream", "", "Accept", "text/event-stream")
	require.Equal(t, 503, second.status, second.body)
	require.Equal(t, "5", second.header.Get("Retry-After"))
	first.cancel()
}

func TestAStreamReachesAllNodesAndResumesAtAnother(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	n.moving = true // a row may be read while its partition moves
	a, b, c := n.members[0], n.members[1], n.members[2]
	s := a.opened("topics=tasks")
	want := map[string]string{}
	for p := range int32(apitest.Partitions) {
		id := idIn(p, "t")
		a.submit(id)
		want[id] = "pending"
	}
	s.sees(want)
	counting := a.opened("topics=counts")
	counts := counting.until(func(e event) bool { return strings.Contains(e.data, `"total":4`) })
	require.NotContains(t, counts.data, "missing")
	s.cancel()
	counting.cancel()
	require.Eventually(t, func() bool { return b.streams() == "0" && c.streams() == "0" }, soon, 5*time.Millisecond, "a node follows others only for its clients")

	n.engine.Park(idIn(1, "t"), "why") // of b, so c cannot read its row: the client lists again
	reset := c.opened("topics=tasks", "Last-Event-ID", s.last)
	e := reset.until(func(e event) bool { return e.name == "reset" || e.name == "task" })
	require.JSONEq(t, `{"partitions":[1]}`, e.data)
	resumed := b.opened("topics=tasks", "Last-Event-ID", s.last)
	require.Equal(t, idIn(1, "t"), resumed.until(named("task")).row(t).Task.ID, "b has it, and finds it in the log")
}

// The stream goes on at each next owner with what it sent last, whatever happened between the owners.
func TestAStreamMissesNothingInATakeOver(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	n.moving = true
	a := n.members[0]
	id := idIn(1, "t")
	a.submit(id)
	s := a.opened("topics=tasks,partitions")
	s.lists = true // what changed just before the partition left may be only counted
	for i := range 4 {
		n.orphan(1)
		other := idIn(1, fmt.Sprint("other", i))
		n.engine.Manual = false
		n.members[2].do("PUT", path(other), good)
		n.move(1, n.members[i%3])
		s.sees(map[string]string{other: "pending"})
	}
	require.Contains(t, s.had, "partitions")
}

func TestAStreamOutlivesTheNodeThatOwnsAPartition(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.moving = true
	a, b := n.members[0], n.members[1]
	s := a.opened("topics=tasks")
	first := idIn(1, "first")
	a.submit(first)
	s.sees(map[string]string{first: "pending"})
	b.stop()
	n.orphan(1)
	n.orphan(3)
	second := idIn(3, "second")
	a.submit(second) // the log takes it
	n.move(1, a)
	n.move(3, a)
	s.sees(map[string]string{second: "pending"})
}

// A client that does not read holds up nobody, and learns that it lacks changes.
func TestASlowClientLearnsThatItLacksChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := apitest.New()
		conn, stop := serveOnPipe(t, e)
		defer stop()
		read := bufio.NewReader(conn)
		fmt.Fprintf(conn, "PUT /v1/tasks/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(good), good)
		resp, err := http.ReadResponse(read, nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		fmt.Fprint(conn, "GET /v1/stream?topics=tasks HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
		resp, err = http.ReadResponse(read, nil)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && lines.Text() != "" {
		}
		for range 20 { // in 9.5 s: the write of the first waits for the client
			e.Park("x", "why")
			time.Sleep(475 * time.Millisecond)
			e.Change("x", &events.StepStarted{Step: "reserve"}, func(*events.Task) {})
		}
		for lines.Scan() && lines.Text() != "event: reset" {
		}
		require.NoError(t, lines.Err())
		require.Equal(t, "event: reset", lines.Text())
	})
}

func TestAStopEndsStreamsOfTheNamespace(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	url, stop := e.Start(t)
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	defer transport.CloseIdleConnections()
	w := &world{t: t, engine: e, url: url, client: &http.Client{Transport: transport}}
	s := w.opened("")
	stop()
	for ok := true; ok; {
		_, ok = s.next()
	}
	require.NoError(t, s.lines.Err(), "it ends, and is not cut off")
}
