package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// started adds a StepStarted to the task's history.
func (n *nodes) started(id string, attempt int) {
	n.engine.Change(id, &events.StepStarted{Step: "reserve", Attempt: attempt}, func(*events.Task) {})
}

// finished says whether HTTP ended the stream properly or cut it off.
func (s *stream) finished() {
	s.t.Helper()
	_, ok := s.next()
	require.False(s.t, ok)
	require.NoError(s.t, s.lines.Err())
}

// streams is how many streams a node has open.
func (m *member) streams() string {
	_, rest, _ := strings.Cut(m.do("GET", "/metrics", "").body, "\nsagalog_api_streams ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

func TestAStreamIsFollowedThroughAnyNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "a/日 ")
	a.submit(id)
	s := a.follow(path(id) + "/history")
	require.Equal(t, "text/event-stream", s.resp.Header.Get("Content-Type"))
	require.Equal(t, []string{"no"}, s.resp.Header.Values("X-Accel-Buffering"))
	first, _ := s.next()
	require.Equal(t, "Submitted", first.name)
	n.started(id, 1)
	second, _ := s.next()
	require.Equal(t, "StepStarted", second.name, "it arrives when it happens")
	require.Equal(t, "1", b.streams())

	s.cancel()
	require.Eventually(t, func() bool { return b.streams() == "0" }, soon, 5*time.Millisecond, "the owner notices that the client has gone")

	n.engine.Finish(id)
	s = a.follow(path(id)+"/history", "Last-Event-ID", second.id)
	last, _ := s.next()
	require.Equal(t, "TaskProcessed", last.name)
	end, _ := s.next()
	require.Equal(t, event{name: "end", data: `{"state":"processed"}`}, end)
	s.finished()
	require.Equal(t, 204, a.do("GET", path(id)+"/history", "", "Accept", "text/event-stream", "Last-Event-ID", last.id).status)
	require.Equal(t, 404, a.do("GET", path(idIn(1, "none"))+"/history", "", "Accept", "text/event-stream").status)
	require.Equal(t, 422, a.do("GET", path(id)+"/history", "", "Accept", "text/event-stream", "Last-Event-ID", "zz").status)
}

// Each take-over ends the stream cleanly. With Last-Event-ID it resumes at the next owner, and no fact is missed or
// repeated.
func TestAStreamContinuesAtTheNextOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	n.moving = true
	a := n.members[0]
	id := idIn(1, "t")
	a.submit(id)
	var got []string
	var s *stream
	last := ""
	for i := range 6 {
		n.move(1, n.members[i%3])
		if s != nil {
			s.finished()
		}
		s = a.follow(path(id)+"/history", "Last-Event-ID", last)
		for range 2 {
			n.started(id, 1+len(got))
			if len(got) == 0 {
				e, _ := s.next()
				require.Equal(t, "Submitted", e.name)
			}
			e, ok := s.next()
			require.True(t, ok)
			got, last = append(got, e.data), e.id
		}
	}
	require.Len(t, got, 12)
	for i, data := range got {
		require.Contains(t, data, fmt.Sprintf(`"attempt":%d`, 1+i))
	}
}

func TestAStreamThatIsOpenedDuringATakeOverWaitsForTheOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	n.orphan(1)
	opened := make(chan *stream)
	go func() { opened <- a.follow(path(id) + "/history") }()
	time.AfterFunc(200*time.Millisecond, func() { n.move(1, b) })
	s := <-opened
	require.Equal(t, 200, s.resp.StatusCode)
	e, _ := s.next()
	require.Equal(t, "Submitted", e.name)
	b.stop() // ends its streams
	s.finished()
}

func TestAStreamOfAnOwnerThatDiesEndsCleanly(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	die := make(chan struct{})
	dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sagalog-Answered", r.Header.Get("Sagalog-Forwarded"))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\nevent: Submitted\ndata: {}\n\nid: 2\nevent: Ste")
		w.(http.Flusher).Flush()
		<-die
		panic(http.ErrAbortHandler)
	}))
	defer dying.Close()
	a.share.Direct(1, proxy.Route{Node: "b", Addr: dying.Listener.Addr().String()})
	s := a.follow(path(idIn(1, "t")) + "/history")
	e, _ := s.next()
	require.Equal(t, "1", e.id)
	close(die)
	s.finished()
}

func TestATruncatedAnswerIsNotTakenAsComplete(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sagalog-Answered", r.Header.Get("Sagalog-Forwarded"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"events":[`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer dying.Close()
	a.share.Direct(1, proxy.Route{Node: "b", Addr: dying.Listener.Addr().String()})
	resp, err := a.client.Get(a.url + path(idIn(1, "t")) + "/history")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	require.Error(t, err)
	require.Equal(t, "1", a.count("cut"))
}

func TestAStopEndsWaitsAndStreamsAtOtherNodes(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.moving = true
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	s := a.follow(path(id) + "/history")
	s.next()
	got := make(chan reply)
	watched := n.engine.Watched()
	go func() { got <- a.do("GET", path(id)+"?wait=60s", "") }()
	<-watched
	a.stop()
	(<-got).takingOver(t, 1)
	s.finished()
	require.Eventually(t, func() bool { return b.streams() == "0" }, soon, 5*time.Millisecond)
}

// An owner that stops cleanly hands the wait back, and it continues at the next owner.
func TestAWaitOutlivesTheStopOfItsOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	got := make(chan reply)
	watched := n.engine.Watched()
	go func() { got <- a.do("GET", path(id)+"?wait=30s", "") }()
	<-watched
	b.stop()
	n.orphan(1)
	watched = n.engine.Watched()
	n.move(1, a)
	<-watched
	n.engine.Finish(id)
	r := <-got
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "processed", r.json(t)["state"])
}

func TestALongHistoryIsTheSameThroughAnyNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	const facts = 5000
	for i := 1; i < facts-1; i++ {
		n.started(id, i)
	}
	n.engine.Finish(id)
	walk := func(m *member) (all []any) {
		cursor := ""
		for {
			page := m.do("GET", path(id)+"/history?limit=1000&cursor="+cursor, "").json(t)
			all = append(all, page["events"].([]any)...)
			var more bool
			if cursor, more = page["next"].(string); !more {
				return all
			}
		}
	}
	through := walk(a)
	require.Len(t, through, facts)
	require.Equal(t, walk(b), through)
	s := a.follow(path(id) + "/history")
	for range facts {
		_, ok := s.next()
		require.True(t, ok)
	}
	end, _ := s.next()
	require.Equal(t, "end", end.name)
	s.finished()
}

// Waits hold their connections, but reads do not queue behind them.
func TestManyWaitsAtAnotherNodeDelayNoRead(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	const waits = 200 // more than there are connections for reads
	held, release := make(chan struct{}, waits), make(chan struct{})
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sagalog-Answered", r.Header.Get("Sagalog-Forwarded"))
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("wait") != "" {
			held <- struct{}{}
			<-release
		}
	}))
	defer owner.Close()
	a.share.Direct(1, proxy.Route{Node: "b", Addr: owner.Listener.Addr().String()})
	id := idIn(1, "t")
	got := make(chan reply, waits)
	for range waits {
		go func() { got <- a.do("GET", path(id)+"?wait=30s", "") }()
	}
	for range waits {
		<-held
	}
	for range 20 {
		require.Equal(t, 200, a.do("GET", path(id), "").status)
	}
	close(release)
	for range waits {
		require.Equal(t, 200, (<-got).status)
	}
}
