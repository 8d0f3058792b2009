package api_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

func TestATaskIsReadThroughAnyNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	for i, id := range []string{
		"plain", "a/b", "a/b/history", "/", "//", "a b", "100%", "%2F", "%25", "a+b", "a?b#c", "a;b=c&d", "заказ/№ 7", "注文", "é", "a\"b<c>", "...", "~a:b@c,d",
		strings.Repeat("長", 85),
	} {
		owner := n.members[events.Home(id, apitest.Partitions)%2]
		for _, m := range n.members {
			if i%2 == 0 && m != owner || i%2 == 1 && m == owner {
				token := m.submit(id)
				n.engine.Finish(id)
				for _, reader := range n.members {
					r := reader.do("GET", path(id)+"?wait=1s&token="+token, "")
					require.Equal(t, 200, r.status, "%q through %s: %s", id, reader.name, r.body)
					require.Equal(t, id, r.json(t)["id"])
					require.Equal(t, "processed", r.json(t)["state"])
				}
			}
		}
		var answers []reply
		for _, m := range n.members {
			r := m.do("GET", path(id)+"/history?limit=1", "")
			require.Equal(t, 200, r.status, r.body)
			for name := range r.header {
				require.False(t, strings.HasPrefix(name, "Sagalog-") && name != api.HeaderAPI, name)
				require.Len(t, r.header[name], 1, name)
			}
			next := m.do("GET", path(id)+"/history?limit=1&cursor="+r.json(t)["next"].(string), "").json(t)
			require.Len(t, next["events"], 1)
			r.header.Del("Date")
			answers = append(answers, r)
		}
		require.Equal(t, answers[0].body, answers[1].body)
		answers[0].header.Del("Content-Length") // a proxied answer keeps its Content-Length, if it had one
		answers[1].header.Del("Content-Length")
		require.Equal(t, answers[0].header, answers[1].header)
	}
}

func TestThePartsOfARequestReachTheOwnerUnchanged(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	var mu sync.Mutex
	var seen []*http.Request
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
		h := w.Header()
		h.Set("Sagalog-Answered", r.Header.Get("Sagalog-Forwarded"))
		h.Set("Set-Cookie", "a=b")
		h.Set("Server", "s")
		h.Set("X-Frame-Options", "ALLOW")
		h.Set("Content-Type", "application/json")
		h.Set("Retry-After", "7")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, `{}`)
	}))
	defer owner.Close()
	a := n.members[0]
	for p := range int32(apitest.Partitions) {
		a.share.Direct(p, proxy.Route{Node: "b", Addr: owner.Listener.Addr().String()})
	}
	for _, uri := range []string{
		"/v1/tasks/a%2Fb", "/v1/tasks/a%2fb", "/v1/tasks/%41", "/v1/tasks/%E6%97%A5", "/v1/tasks/%e6%97%a5/history", "/v1/tasks/a+b%20c",
		"/v1/tasks/100%25", "/v1/tasks/%252F?wait=1s&token=x", "/v1/tasks/x/history?limit=5&&cursor=%2F&x=a+b;c", "/v1/tasks/x?", "/v1/tasks/x?wait=%zz",
	} {
		seen = nil
		r := a.do("GET", uri, "", "Accept", "text/plain", "Last-Event-ID", "e", "Cookie", "secret=1", "Authorization", "Bearer x",
			"Origin", "http://"+a.addr, "Sec-Fetch-Site", "same-origin", "X-Forwarded-For", "1.2.3.4", "Sagalog-Moved", "1", "Sagalog-Partitions", "1",
			"Connection", "Upgrade", "Upgrade", "websocket", "Traceparent", "00-1-2-3")
		require.Equal(t, http.StatusTeapot, r.status, uri)
		require.Len(t, seen, 1)
		require.Equal(t, strings.TrimSuffix(uri, "?"), strings.TrimSuffix(seen[0].RequestURI, "?"))
		require.Equal(t, http.Header{
			"Accept": {"text/plain"}, "Last-Event-Id": {"e"}, "Traceparent": {"00-1-2-3"}, "User-Agent": {"Go-http-client/1.1"},
			"Sagalog-Forwarded": {apitest.NamespaceID + "/b"},
		}, seen[0].Header)
		require.Equal(t, "7", r.header.Get("Retry-After"))
		require.Equal(t, []string{"DENY"}, r.header.Values("X-Frame-Options"), "this node's header, and not the owner's")
		for _, name := range []string{"Set-Cookie", "Server", "Sagalog-Answered"} {
			require.Empty(t, r.header.Get(name), name)
		}
	}
	require.Equal(t, "11", a.count("answered"))
}

func TestAWaitContinuesAtTheNextOwner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, asked, to int
	}{
		"from another node to here": {1, 0, 0}, "from here to another": {0, 0, 1}, "from one to another": {1, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := setupNodes(t, "a", "b", "c")
			n.moving = true
			id := idIn(0, "t")
			n.move(0, n.members[c.from])
			token := n.members[c.asked].submit(id)
			watched := n.engine.Watched()
			got := make(chan reply)
			go func() { got <- n.members[c.asked].do("GET", path(id)+"?wait=30s&token="+token, "") }()
			<-watched
			watched = n.engine.Watched()
			n.orphan(0)
			n.move(0, n.members[c.to])
			<-watched // it waits at the next owner
			n.engine.Finish(id)
			r := <-got
			require.Equal(t, 200, r.status, r.body)
			require.Equal(t, "processed", r.json(t)["state"])
		})
	}
}

func TestATokenIsWaitedForAtTheNextOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.engine.Manual = true
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	token := a.submit(id)
	b.stop() // its heartbeats count for a little while longer
	got := make(chan reply)
	go func() { got <- a.do("GET", path(id)+"?token="+token, "") }()
	require.Eventually(t, func() bool { return a.count("unreachable") != "0" }, soon, 10*time.Millisecond)
	n.orphan(1)
	n.move(1, a)
	n.engine.Judge()
	r := <-got
	require.Equal(t, 200, r.status, r.body)
}

func TestAWaitWithoutAnOwnerEndsInTime(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.orphan(1)
	n.members[0].do("GET", path(idIn(1, "t"))+"?wait=300ms", "").takingOver(t, 1)
	require.Equal(t, "1", n.members[0].count("nowhere"))
}

func TestAReadOfAPartitionWithoutAnOwnerIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	n.orphan(1)
	a.do("GET", path(id), "").takingOver(t, 1)
	b.do("GET", path(id), "").takingOver(t, 1)
	a.do("GET", path(id)+"/history", "").takingOver(t, 1)

	n.move(1, b)
	b.stop()
	a.do("GET", path(id), "").takingOver(t, 1)
	require.Equal(t, "", a.do("HEAD", path(id), "").body)

	for _, addr := range []string{"", "x", "x:0", "x:y", "a/b:80", ":80", "host:99999"} {
		a.share.Direct(1, proxy.Route{Node: "b", Addr: addr})
		a.do("GET", path(id), "").takingOver(t, 1)
	}
	a.share.Direct(1, proxy.Route{Node: "b"})
	require.Contains(t, a.do("GET", path(id)+"?wait=60s", "").problem(t).Detail, "Node b owns the partition, but serves no API")
}

// A stopped process keeps its sockets: connections are accepted, but never answered.
func TestAPausedOwnerIsLeftWhenAnotherTakesOver(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	paused, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer paused.Close()
	id := idIn(1, "t")
	a.submit(id)
	n.engine.Finish(id)
	a.share.Direct(1, proxy.Route{Node: "b", Addr: paused.Addr().String()})
	got := make(chan reply)
	for _, query := range []string{"", "?wait=20s"} {
		go func() { got <- a.do("GET", path(id)+query, "") }()
		conn, err := paused.Accept() // the request has arrived
		require.NoError(t, err)
		a.share.Direct(1, proxy.Route{})
		n.move(1, a)
		require.Equal(t, 200, (<-got).status)
		conn.Close()
		a.share.Direct(1, proxy.Route{Node: "b", Addr: paused.Addr().String()})
	}
}

func TestNodesThatDisagreeDoNotLoop(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.share.Direct(1, proxy.Route{Node: "b", Addr: b.addr})
	b.share.Direct(1, proxy.Route{Node: "a", Addr: a.addr})
	a.do("GET", path(id), "").takingOver(t, 1)
	require.Equal(t, "1", a.count("moved"))
	require.Equal(t, "0", b.count("moved"), "a request that was passed on is not passed on again")
	a.do("GET", path(id)+"?wait=300ms", "").takingOver(t, 1)
	require.Equal(t, "0", b.count("moved"))

	a.share.Direct(1, proxy.Route{Node: "a", Addr: a.addr}) // its own heartbeat, from before the pause
	a.do("GET", path(id), "").takingOver(t, 1)
}

// flighty is a node's view in which each lookup of a partition returns the next of several routes, and after that
// always the last one.
type flighty struct {
	*apitest.Share
	mu     sync.Mutex
	routes []proxy.Route
}

func (f *flighty) Route(partition int32) proxy.Route {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.routes) == 0 {
		return f.Share.Route(partition)
	}
	now := f.routes[0]
	f.routes = f.routes[1:]
	return now
}

func TestAReadIsTriedOnceMoreAtTheNextOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	f := &flighty{}
	d := n.join("d", func(c *api.Config) { f.Share = c.Cluster.(*apitest.Share); c.Cluster = f })
	b, c := n.members[1], n.members[2]
	id := idIn(1, "t")
	n.move(1, c)
	d.submit(id)
	f.routes = []proxy.Route{{Node: "b", Addr: b.addr}}
	require.Equal(t, 200, d.do("GET", path(id), "").status)
	require.Equal(t, "1", d.count("moved"))
	require.Equal(t, "1", d.count("answered"))
	require.Equal(t, "0", b.count("answered"))
}

func TestAReadDuringAMoveIsNotAnswered(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	f := &flighty{}
	d := n.join("d", func(c *api.Config) { f.Share = c.Cluster.(*apitest.Share); c.Cluster = f })
	id := idIn(1, "t")
	d.submit(id)
	here, there := proxy.Route{Here: true}, proxy.Route{Node: "b", Addr: n.members[1].addr}
	d.share.Direct(1, here) // its store is read
	f.routes = []proxy.Route{here, there, there, there}
	r := d.do("GET", path(id), "")
	require.Equal(t, 200, r.status, r.body)
	require.Equal(t, "b", r.json(t)["locked_by"])
}

func TestAnotherServerAtANodesAddressIsNotTrusted(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a := n.members[0]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"t"}`) }))
	defer other.Close()
	a.share.Direct(1, proxy.Route{Node: "b", Addr: other.Listener.Addr().String()})
	id := idIn(1, "t")
	a.do("GET", path(id), "").takingOver(t, 1)
	require.Equal(t, away(1), a.known("").Missing)

	a.share.Direct(1, proxy.Route{Node: "b", Addr: "localhost" + n.members[1].addr[strings.LastIndex(n.members[1].addr, ":"):]})
	require.Equal(t, 404, a.do("GET", path(id), "").status, "the node itself is trusted under any name of its machine")

	// A node of the same name in another cluster, and a node of this cluster under another name.
	foreign := setupNodes(t)
	b := foreign.join("b", func(c *api.Config) { c.NamespaceID = "other" })
	foreign.move(1, b)
	b.submit(id)
	for _, at := range []proxy.Route{{Node: "b", Addr: b.addr}, {Node: "c", Addr: n.members[1].addr}} {
		a.share.Direct(1, at)
		a.do("GET", path(id), "").takingOver(t, 1)
	}
	a.share.Direct(1, proxy.Route{Node: "b", Addr: b.addr})
	require.Equal(t, 202, a.do("POST", path(id)+"/cancel", "").status, "the request goes to our log")
	require.Empty(t, foreign.engine.Inputs(events.Reports))
	require.Len(t, n.engine.Inputs(events.Reports), 1)
}

func TestARequestToChangeATaskGoesToItsOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "a/b ")
	a.submit(id)
	require.Equal(t, 404, a.do("POST", path(idIn(1, "none"))+"/cancel", "").status)
	require.Equal(t, 422, a.do("POST", path(id)+"/retry", `{"step":"nope"}`).status)
	require.Equal(t, 413, a.do("POST", path(id)+"/cancel", `{"reason":"`+strings.Repeat("x", events.MaxPayloadBytes+20<<10)+`"}`).status)
	r := a.do("POST", path(id)+"/cancel", `{"reason":"because"}`, "Idempotency-Key", "k/1")
	require.Equal(t, 202, r.status, r.body)
	require.Equal(t, "k/1", r.json(t)["request"])
	require.Equal(t, "undoing", a.do("GET", path(id)+"?token="+r.json(t)["token"].(string), "").json(t)["state"])
	require.Equal(t, 200, a.do("POST", path(id)+"/cancel", "", "Idempotency-Key", "k/1").status, "a repeat")
	require.Equal(t, 200, b.do("POST", path(id)+"/cancel", "", "Idempotency-Key", "k/1").status, "and a repeat at the owner")
	n.engine.Finish(id)
	require.Equal(t, 409, a.do("POST", path(id)+"/cancel", "").status)
	require.Len(t, n.engine.Inputs(events.Reports), 1)
}

func TestARequestToChangeATaskSurvivesADeadOwner(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	// The owner dies while it handles the request, and may or may not have carried it out.
	keys := make(chan string, 100)
	dying := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		a.share.Direct(1, proxy.Route{})
		panic(http.ErrAbortHandler)
	}))
	defer dying.Close()
	n.orphan(1)
	a.share.Direct(1, proxy.Route{Node: "x", Addr: dying.Listener.Addr().String()})
	got := make(chan reply)
	go func() { got <- a.do("POST", path(id)+"/cancel", `{"reason":"because"}`) }()
	key := <-keys
	n.move(1, b)
	r := <-got
	require.Equal(t, 202, r.status, r.body)
	require.NotEmpty(t, key)
	require.Equal(t, key, r.json(t)["request"], "so that the log keeps one of the two")

	other := idIn(1, "o")
	a.submit(other)
	a.share.Direct(1, proxy.Route{Node: "x"}) // an owner without an API
	r = a.do("POST", path(other)+"/cancel", "")
	require.Equal(t, 202, r.status, r.body)
	n.move(1, b)
	require.Equal(t, "undoing", a.do("GET", path(other)+"?token="+r.json(t)["token"].(string), "").json(t)["state"])
}

func TestASubmissionWaitsForNoOtherNode(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	id := idIn(1, "t")
	a.submit(id)
	require.Equal(t, 200, b.do("PUT", path(id), good).status, "the owner knows the task")
	require.Equal(t, 202, a.do("PUT", path(id), good).status, "another node leaves the decision to the owner")
	b.stop()
	require.Equal(t, 202, a.do("PUT", path(idIn(1, "u")), good).status)
	n.orphan(1)
	require.Equal(t, 202, a.do("PUT", path(idIn(1, "v")), good).status)
	conflict := a.do("PUT", path(id), `{"workflow":"order","input":{"item":"desk"}}`)
	require.Equal(t, 202, conflict.status)
	bulk := a.do("POST", "/v1/tasks", `{"id":"`+idIn(1, "w")+`",`+good[1:]+"\n"+`{"id":"`+id+`",`+good[1:], "Content-Type", "application/x-ndjson")
	require.Equal(t, 2, strings.Count(bulk.body, `"status":202`), bulk.body)
	n.move(1, a)
	r := a.do("GET", path(id)+"?token="+conflict.json(t)["token"].(string), "")
	require.Equal(t, 409, r.status, r.body)
}

func TestRequestsAboutNoTaskStayLocal(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	b.stop()
	n.orphan(1)
	for _, p := range []string{"/healthz", "/readyz", "/v1/info", "/v1/agents", "/v1/workflows", "/v1/workflows/order", "/v1/dead-letters", "/metrics", "/openapi.yaml"} {
		require.Equal(t, 200, a.do("GET", p, "").status, p)
	}
	require.Equal(t, 422, a.do("GET", "/v1/tasks/"+strings.Repeat("x", 256), "").status, "an ID that no task can have is refused at every node")
	require.Equal(t, 405, a.do("DELETE", "/v1/tasks/x", "").status)
}
