package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// list returns the IDs of one page, and the cursor of the next.
func (m *member) list(query string) (ids []string, next string) {
	m.t.Helper()
	r := m.do("GET", "/v1/tasks?"+query, "")
	for range 20 { // on a busy machine another node may need longer than it gets
		if r.status != 503 && r.status != 504 && !strings.Contains(r.body, `"missing"`) {
			break
		}
		r = m.do("GET", "/v1/tasks?"+query, "")
	}
	require.Equal(m.t, 200, r.status, r.body)
	require.NotContains(m.t, r.body, `"missing"`)
	var page struct {
		Tasks []struct {
			ID string `json:"id"`
		} `json:"tasks"`
		Next string `json:"next"`
	}
	require.NoError(m.t, json.Unmarshal([]byte(r.body), &page))
	for _, x := range page.Tasks {
		ids = append(ids, x.ID)
	}
	return ids, page.Next
}

func TestAListHoldsTheTasksOfAllNodes(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	single := &member{world: &world{t: t, engine: n.engine, url: n.engine.Serve(t), client: n.members[0].client}}
	for i := range 40 {
		single.do("PUT", fmt.Sprintf("/v1/tasks/t%d", i), fmt.Sprintf(`{"workflow":"order","input":{"item":"x","big":12345678901234567890},"labels":{"k,l":"%d:,","a&b":"ü %%"}}`, i%3))
		if i%4 == 0 {
			n.engine.Finish(fmt.Sprintf("t%d", i))
		}
	}
	for _, query := range []string{
		"", "limit=1000", "limit=7", "limit=1", "state=processed&limit=3", "state=pending", "state=processed&state=pending&limit=6", "state=processed,pending", "state=undone,processed", "state=&limit=9", "workflow=order&limit=9", "workflow=nope",
		"label=" + url.QueryEscape("a&b:ü %") + "&label=" + url.QueryEscape("k,l:1:,") + "&limit=4", "since=2026-11-21T14:00:20Z&until=2026-11-21T14:00:31.500Z&limit=4",
	} {
		var walks [][]string
		for _, m := range append([]*member{single}, n.members...) {
			var walk []string
			for cursor := ""; ; {
				ids, next := m.list(query + "&cursor=" + cursor)
				walk = append(walk, ids...)
				if cursor = next; next == "" {
					break
				}
			}
			walks = append(walks, walk)
		}
		for i, m := range n.members {
			require.Equal(t, walks[0], walks[1+i], "%q through %s", query, m.name)
		}
	}
	whole := n.members[0].do("GET", "/v1/tasks?limit=1000", "").body
	require.Contains(t, whole, `"big":12345678901234567890`, "numbers keep their digits")
	require.Equal(t, whole, n.members[1].do("GET", "/v1/tasks?limit=1000", "").body)
	for _, bad := range []string{"cursor=zz", "state=x", "state=pending&state=x", "state=pending,", "limit=0", "limit=1001", "label=x", "since=x", "nope=1"} {
		require.Equal(t, 422, n.members[0].do("GET", "/v1/tasks?"+bad, "").status, bad)
	}
}

// The client asks one node after the other for pages, while tasks are submitted and end and partitions move. It still
// sees each task that existed at the beginning exactly once.
func TestPagingOverNodesShowsEachTaskOnce(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.moving = true
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var want []string
	for i := range 60 {
		id := fmt.Sprintf("old%d", i)
		n.members[i%2].submit(id)
		want = append(want, id)
	}
	slices.Reverse(want)
	for range 5 {
		var got []string
		for cursor, i := "", 0; ; i++ {
			ids, next := n.members[random.IntN(2)].list(fmt.Sprintf("limit=%d&cursor=%s", 1+random.IntN(9), cursor))
			for _, id := range ids {
				if strings.HasPrefix(id, "old") {
					got = append(got, id)
				}
			}
			if cursor = next; next == "" {
				break
			}
			n.members[random.IntN(2)].submit(fmt.Sprintf("new%d", random.Uint64()))
			n.engine.Finish(want[random.IntN(len(want))])
			n.move(random.Int32N(apitest.Partitions), n.members[random.IntN(2)])
		}
		require.Equal(t, want, got)
	}
}

// known is a page that may lack partitions.
type known struct {
	Tasks []struct {
		ID string `json:"id"`
	} `json:"tasks"`
	Next    string                 `json:"next"`
	AsOf    []api.PartitionOffset  `json:"as_of"`
	Missing []api.MissingPartition `json:"missing"`
}

func (m *member) known(query string) (page known) {
	m.t.Helper()
	r := m.do("GET", "/v1/tasks?"+query, "")
	require.Equal(m.t, 200, r.status, r.body)
	require.NoError(m.t, json.Unmarshal([]byte(r.body), &page))
	return page
}

// partitions returns the partitions of the page's tasks, in order.
func (k known) partitions() (list []int32) {
	for _, x := range k.Tasks {
		list = append(list, events.Home(x.ID, apitest.Partitions))
	}
	slices.Sort(list)
	return list
}

func away(partitions ...int32) (list []api.MissingPartition) {
	for _, p := range partitions {
		list = append(list, api.MissingPartition{Partition: p, Reason: "taking-over"})
	}
	return list
}

func TestAListAnswersWhatIsKnown(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	for p := range int32(apitest.Partitions) {
		b.submit(idIn(p, "x"))
	}
	whole := a.known("")
	require.Equal(t, []int32{0, 1, 2, 3}, whole.partitions())
	require.Equal(t, []api.PartitionOffset{{Partition: 0, Offset: 1}, {Partition: 1, Offset: 1}, {Partition: 2, Offset: 1}, {Partition: 3, Offset: 1}}, whole.AsOf)
	require.Empty(t, whole.Missing)
	b.stop()
	page := a.known("")
	require.Equal(t, []int32{0, 2}, page.partitions())
	require.Equal(t, []api.PartitionOffset{{Partition: 0, Offset: 1}, {Partition: 2, Offset: 1}}, page.AsOf)
	require.Equal(t, away(1, 3), page.Missing)
	n.orphan(3)
	require.Equal(t, away(1, 3), a.known("").Missing)
	a.share.Direct(2, proxy.Route{Stopped: "a record cannot be folded."})
	page = a.known("")
	require.Equal(t, []int32{0}, page.partitions())
	require.Equal(t, []api.MissingPartition{{Partition: 1, Reason: "taking-over"}, {Partition: 2, Reason: "stopped", Detail: "a record cannot be folded."}, {Partition: 3, Reason: "taking-over"}}, page.Missing)
	a.share.Direct(2, proxy.Route{})
	n.orphan(0)
	a.do("GET", "/v1/tasks", "").takingOver(t, 0, 1, 2, 3)
}

// While nobody owns a partition, it is listed as it was here.
func TestAPartitionWithoutAnOwnerIsListedAsItWas(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	n.moving = true
	a := n.members[0]
	a.submit(idIn(1, "x"))
	n.orphan(1)
	a.share.Direct(1, proxy.Route{Stale: true})
	page := a.known("")
	require.Equal(t, []int32{1}, page.partitions())
	require.Contains(t, page.AsOf, api.PartitionOffset{Partition: 1, Offset: 1})
	require.Empty(t, page.Missing)
	require.Equal(t, 200, a.do("GET", path(idIn(1, "x")), "").status)
}

// One node is paused: it accepts connections and never answers. The tasks of the others are answered in time.
func TestASilentNodeDoesNotHoldUpAList(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	for p := range int32(apitest.Partitions) {
		b.submit(idIn(p, "x"))
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	a.share.Direct(2, proxy.Route{Node: "c", Addr: silent.Addr().String()})
	page := a.known("")
	require.Equal(t, []int32{0, 1, 3}, page.partitions())
	require.Equal(t, away(2), page.Missing)
}

// A node that has lost one of its partitions still answers for the others.
func TestANodeAnswersForThePartitionsThatItKept(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	for p := range int32(apitest.Partitions) {
		b.submit(idIn(p, "x"))
	}
	b.share.Direct(3, proxy.Route{}) // a has not heard of it
	page := a.known("")
	require.Equal(t, []int32{0, 1, 2}, page.partitions())
	require.Equal(t, away(3), page.Missing)
}

// Whatever is missing while a client walks through the list, it gets each task exactly once when all partitions are back.
func TestAWalkLosesNoTaskOfAMissingPartition(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("t%d", i))
		n.members[0].submit(want[i])
	}
	for range 30 {
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			for p := range int32(apitest.Partitions) {
				n.move(p, n.members[int(p)%2])
				if random.IntN(3) == 0 && pages < 40 {
					n.orphan(p)
				}
			}
			m := n.members[random.IntN(2)]
			r := m.do("GET", fmt.Sprintf("/v1/tasks?limit=%d&cursor=%s", 1+random.IntN(9), cursor), "")
			if r.status == 503 {
				continue
			}
			require.Equal(t, 200, r.status, r.body)
			var page known
			require.NoError(t, json.Unmarshal([]byte(r.body), &page))
			for _, x := range page.Tasks {
				got = append(got, x.ID)
			}
			require.False(t, page.Next == "" && len(page.Missing) > 0, r.body)
			if cursor = page.Next; cursor == "" {
				break
			}
			require.Less(t, pages, 200)
		}
		require.ElementsMatch(t, want, got)
	}
	for _, bad := range []string{".", "~", "5~1", "5~4~", "5~x~", "5~1~zz", "~~", ".~0.1.2.3~."} {
		require.Equal(t, 422, n.members[0].do("GET", "/v1/tasks?cursor="+bad, "").status, bad)
	}
}

func TestAListIsReadAgainIfAPartitionMoved(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b", "c")
	n.moving = true
	f := &flighty{}
	d := n.join("d", func(c *api.Config) { f.Share = c.Cluster.(*apitest.Share); c.Cluster = f })
	for p := range int32(apitest.Partitions) {
		n.move(p, n.members[2])
	}
	n.members[2].submit("x")
	stale := proxy.Route{Node: "b", Addr: n.members[1].addr}
	f.routes = []proxy.Route{stale, stale, stale, stale}
	ids, _ := d.list("")
	require.Equal(t, []string{"x"}, ids)
	require.Equal(t, "1", d.count("moved"))
	f.routes = []proxy.Route{{Here: true}, {Here: true}, {Here: true}, {Here: true}} // the partitions have left by the time they are read
	ids, _ = d.list("")
	require.Equal(t, []string{"x"}, ids)
}

// A client's choice of partitions is ignored. Between nodes, it only restricts the answer.
func TestOnlyNodesRestrictAListToPartitions(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a := n.members[0]
	for p := range int32(apitest.Partitions) {
		a.submit(idIn(p, "t"))
	}
	count := func(headers ...string) int {
		r := a.do("GET", "/v1/tasks", "", headers...)
		require.Equal(t, 200, r.status, r.body)
		return len(r.json(t)["tasks"].([]any))
	}
	require.Equal(t, 4, count("Sagalog-Partitions", "0"))
	require.Equal(t, 1, count("Sagalog-Partitions", "0", "Sagalog-Forwarded", apitest.NamespaceID+"/a"))
	require.Equal(t, 2, count("Sagalog-Partitions", "2,0", "Sagalog-Forwarded", apitest.NamespaceID+"/a"))
	for _, bad := range []string{"", "x", "4", "-1", "0,,2", "0 ,2"} {
		require.Equal(t, 422, a.do("GET", "/v1/tasks", "", "Sagalog-Partitions", bad, "Sagalog-Forwarded", apitest.NamespaceID+"/a").status, bad)
	}
	r := a.do("GET", "/v1/tasks", "", "Sagalog-Partitions", "0,1", "Sagalog-Forwarded", apitest.NamespaceID+"/a")
	require.Equal(t, 503, r.status, "it has only one of the partitions")
	require.Equal(t, "1", r.header.Get("Sagalog-Moved"))
	require.Equal(t, []int32{1}, r.problem(t).Partitions)
	require.Equal(t, 503, a.do("GET", "/v1/tasks", "", "Sagalog-Partitions", "0", "Sagalog-Forwarded", apitest.NamespaceID+"/b").status, "the request names another node")
}

func TestAPageOfHugeTasksIsCutShort(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector, forty megabytes of JSON take a node longer than the timeout; run without -short")
	}
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a := n.members[0]
	huge := events.Error{Detail: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("t%d", i)
		a.submit(id)
		n.engine.Change(id, &events.StepStarted{}, func(t *events.Task) {
			t.Steps = []*events.Step{{Path: "reserve", State: events.StepStateRunning, Error: &huge}}
		})
		want = append(want, id)
	}
	slices.Reverse(want)
	for _, m := range n.members {
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			ids, next := m.list("limit=1000&cursor=" + cursor)
			require.Less(t, len(ids), 20)
			got = append(got, ids...)
			if cursor = next; next == "" {
				require.Equal(t, 1, pages)
				break
			}
		}
		require.Equal(t, want, got)
	}
}

func TestPartitionsOfASilentOwnerAreShown(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	a, b := n.members[0], n.members[1]
	for p := range int32(apitest.Partitions) {
		a.submit(idIn(p, "t"))
	}
	show := func(m *member) (list []map[string]any) {
		r := m.do("GET", "/v1/partitions", "")
		require.Equal(t, 200, r.status, r.body)
		require.NoError(t, json.Unmarshal([]byte(r.body), &list))
		require.Len(t, list, apitest.Partitions)
		return list
	}
	require.Equal(t, show(a), show(b))
	for p, d := range show(a) {
		require.Equal(t, []string{"a", "b"}[p%2], d["owner"])
		require.EqualValues(t, 1, d["live"])
		require.EqualValues(t, 0, d["due"])
		require.Equal(t, "1-e", d["epoch"])
	}
	a.share.Direct(3, proxy.Route{Node: "a", Addr: a.addr}) // a asks itself and finds nothing
	b.stop()
	list := show(a)
	for _, p := range []int{1, 3} {
		require.Equal(t, map[string]any{"partition": float64(p), "end_offset": 1.0, "begins": beginsOf(p)}, list[p])
	}
	require.Equal(t, "a", list[2]["owner"])
	n.orphan(1)
	require.Equal(t, map[string]any{"partition": 1.0, "end_offset": 1.0, "begins": beginsOf(1)}, show(a)[1])
}

// From another node's answer, only the requested and readable parts are merged.
func TestGarbageFromAnotherNodeIsNotMerged(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	body := ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sagalog-Answered", r.Header.Get("Sagalog-Forwarded"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}))
	defer other.Close()
	a.share.Direct(1, proxy.Route{Node: "b", Addr: other.Listener.Addr().String()})
	for _, body = range []string{"", "[]", "{", `{"tasks":[{"id":5}]}`, `{"tasks":[],"next":"zz"}`} {
		require.Equal(t, away(1), a.known("").Missing, body)
	}
	body = `[{"partition":0,"owner":"b","applied_offset":7},{"partition":1,"owner":"b","epoch":"2-x","applied_offset":7},{"partition":9}]`
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.do("GET", "/v1/partitions", "").body), &list))
	require.Equal(t, "a", list[0]["owner"])
	require.Equal(t, "b", list[1]["owner"])
}

// No other node takes over a partition that its node stopped with an error. The answer says why, and contains what can
// still be read.
func TestAStoppedPartitionIsNamedWithItsReason(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a")
	a := n.members[0]
	id, other := "", ""
	for i := 0; id == "" || other == ""; i++ {
		if name := fmt.Sprintf("t%d", i); events.Home(name, apitest.Partitions) == 1 {
			id = name
		} else {
			other = name
		}
	}
	a.submit(id)
	a.submit(other)
	a.share.Direct(1, proxy.Route{Stopped: "a record cannot be folded."})
	for _, path := range []string{"/v1/tasks/" + id, "/v1/tasks/" + id + "/history"} {
		r := a.do("GET", path, "")
		require.Equal(t, 503, r.status, path)
		require.Equal(t, "stopped", r.problem(t).Code(), path)
		require.Equal(t, []int32{1}, r.problem(t).Partitions, path)
		require.Contains(t, r.problem(t).Detail, "Partition 1 is stopped: a record cannot be folded. It continues once", path)
		require.Empty(t, r.header.Get("Retry-After"), path)
	}
	require.Equal(t, 200, a.do("GET", "/v1/tasks/"+other, "").status)
}

func TestAListOfSeveralStates(t *testing.T) {
	t.Parallel()
	n := setupNodes(t, "a", "b")
	for _, id := range []string{"pending", "done", "parked"} {
		n.members[0].do("PUT", "/v1/tasks/"+id, `{"workflow":"order","input":{"item":"x"}}`)
	}
	n.engine.Finish("done")
	n.engine.Park("parked", "no lamp")
	for _, m := range n.members {
		for query, want := range map[string][]string{
			"state=error": {"parked"}, "state=parked": {"parked"}, "state=parked&state=error": {"parked"},
			"state=processed&state=parked": {"parked", "done"}, "state=pending,processed": {"done", "pending"},
		} {
			ids, next := m.list(query)
			require.Equal(t, want, ids, "%s: %s", m.name, query)
			require.Empty(t, next)
		}
		r := m.do("GET", "/v1/tasks?state=pending&state=stuck", "")
		require.Equal(t, 422, r.status)
		require.Contains(t, r.body, "is not a state; the states are pending, processing, processed, undoing, undone, error, terminated, rejected; parked means error")
	}
}

// All but one of the values would be ignored.
func TestAParameterOfOneValueIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("GET", "/v1/tasks?limit=5&limit=7", "")
	require.Equal(t, 422, r.status, r.body)
	require.Equal(t, []api.ProblemPlace{{Parameter: "limit", Message: "is given more than once"}}, r.problem(t).Errors)
	require.Equal(t, 200, w.do("GET", "/v1/tasks?state=error&state=undone&limit=5", "").status)
}

// A task may wait for much; a list, which has many tasks, says the first of it.
func TestAListShortensWhatTasksWaitFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("%02d%s", i, strings.Repeat("s", 62))
	}
	for i := range 40 {
		id := fmt.Sprintf("t%d", i)
		w.do("PUT", "/v1/tasks/"+id, good)
		w.engine.Change(id, &events.StepStarted{}, func(t *events.Task) {
			t.State = events.TaskStateProcessing
			for s := range 200 {
				t.Steps = append(t.Steps, &events.Step{Path: fmt.Sprintf("s%d", s), State: events.StepStateWaiting, Wait: &events.Wait{Signals: names}})
			}
		})
	}
	r := w.do("GET", "/v1/tasks?limit=1000&fields=id,waiting_for", "")
	require.Equal(t, 200, r.status, r.body)
	require.Less(t, len(r.body), 40*4<<10)
}

// beginsOf is where the topics of a partition begin.
func beginsOf(p int) map[string]any {
	return map[string]any{"events": 0.0, "submissions": float64(p), "reports": 0.0}
}
