package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// member is one of several nodes on one log, with its API on a real socket.
type member struct {
	*world
	name  string
	addr  string
	share *apitest.Share
	stop  func()
}

// nodes are the members. Each partition is owned by one of them, and every member knows the owner.
type nodes struct {
	t       *testing.T
	engine  *apitest.Engine
	members []*member
	// moving says that partitions move during requests, so that reads at such a moment are discarded.
	moving bool
}

// setupNodes starts nodes with these names, which own the partitions in turn.
func setupNodes(t *testing.T, names ...string) *nodes {
	t.Helper()
	n := &nodes{t: t, engine: apitest.New()}
	for _, name := range names {
		n.join(name)
	}
	for p := range int32(apitest.Partitions) {
		if len(names) > 0 {
			n.move(p, n.members[int(p)%len(names)])
		}
	}
	return n
}

func (n *nodes) join(name string, change ...func(*api.Config)) *member {
	share := n.engine.Share(name)
	cfg := share.Config()
	for _, c := range change {
		c(&cfg)
	}
	base, stop := apitest.Start(n.t, cfg)
	n.t.Cleanup(stop)
	transport := &http.Transport{}
	n.t.Cleanup(transport.CloseIdleConnections)
	m := &member{
		world: &world{t: n.t, engine: n.engine, url: base, client: &http.Client{Transport: transport}},
		name:  name, addr: strings.TrimPrefix(base, "http://"), share: share, stop: stop,
	}
	n.members = append(n.members, m)
	n.t.Cleanup(func() {
		if !n.moving {
			require.Empty(n.t, share.Misreads(), "node %s read a partition that it does not own", name)
		}
	})
	return m
}

// move gives a partition to a node, and updates the routes of all nodes.
func (n *nodes) move(partition int32, to *member) {
	for _, m := range n.members {
		if m == to {
			m.share.Direct(partition, proxy.Route{Here: true})
		} else {
			m.share.Direct(partition, proxy.Route{Node: to.name, Addr: to.addr})
		}
	}
}

// orphan leaves a partition without an owner.
func (n *nodes) orphan(partition int32) {
	for _, m := range n.members {
		m.share.Direct(partition, proxy.Route{})
	}
}

// idIn returns an ID with the given prefix whose home is the given partition.
func idIn(partition int32, prefix string) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("%s%d", prefix, i); events.Home(id, apitest.Partitions) == partition {
			return id
		}
	}
}

func path(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// submit submits a task, no step of which is finished.
func (m *member) submit(id string) (token string) {
	m.t.Helper()
	r := m.do("PUT", path(id), good)
	require.Equal(m.t, 202, r.status, r.body)
	return r.json(m.t)["token"].(string)
}

// count returns the value of one of this node's counters.
func (m *member) count(outcome string) string {
	m.t.Helper()
	name := `sagalog_api_forwarded_total{outcome="` + outcome + `"} `
	_, rest, ok := strings.Cut(m.do("GET", "/metrics", "").body, name)
	require.True(m.t, ok, outcome)
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// takingOver checks that the answer reports these partitions as being taken over.
func (r reply) takingOver(t *testing.T, partitions ...int32) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, r.status, r.body)
	p := r.problem(t)
	require.Equal(t, "taking-over", p.Code())
	require.Equal(t, partitions, p.Partitions)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	for name := range r.header {
		require.False(t, strings.HasPrefix(name, "Sagalog-") && name != api.HeaderAPI, name)
	}
}
