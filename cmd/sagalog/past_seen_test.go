package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var (
	pastInstants = flag.Int("past.instants", 10, "how many instants of a live run are compared with the past that the log tells")
	pastKills    = flag.Int("past.kills", 2, "how many times a node is killed in that run, so that the other takes its partitions over")
)

const (
	pastPartitions = 4
	// pastPace bounds how many tasks are submitted: nothing is seen of a partition that is never still.
	pastPace = 20 * time.Millisecond
	// pastRecent is how many of the last tasks are looked at. One of the two of a look is among the last few, most of which have not ended.
	pastRecent, pastLast = 60, 4
)

// standing is where a partition stands, and in whose hands.
type standing struct {
	Owner string `json:"owner"`
	Epoch string `json:"epoch"`
	Next  int64  `json:"applied_offset"`
	Hash  string `json:"state_hash"`
}

// seen is what the owner of a partition said of it and of some of its tasks while it stood still.
type seen struct {
	standing
	partition int32
	task      string
	// documents are the answers of the API, by their paths.
	documents map[string]string
}

// watched is a run of two nodes, and what was seen of it.
type watched struct {
	t       *testing.T
	at      place
	brokers string
	names   []string
	nodes   map[string]*program
	apis    map[string]string

	tasks     []string
	submitted time.Time
	all       []seen
	// known are the places that were seen.
	known map[string]bool
	// lost is how many partitions were owned by a node when it was killed.
	lost, kills int
}

// watch starts two nodes on a broker, with agents whose service often fails.
func watch(t *testing.T) *watched {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := rand.IntN(100); {
		case n < 12:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n < 15:
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = io.WriteString(w, `{"done":true}`)
	}))
	t.Cleanup(service.Close)
	w := &watched{
		t: t, at: place{dir: t.TempDir(), env: []string{"SHOP_URL=" + service.URL}}, brokers: kafkatest.StartBroker(t, embedded.Config{}).Addr(),
		names: []string{"n1", "n2"}, nodes: map[string]*program{}, apis: map[string]string{}, known: map[string]bool{},
	}
	for _, agent := range []string{"stock", "card", "ship"} {
		write(t, filepath.Join(w.at.dir, "agents", agent+".yaml"), "agent: "+agent+"\nhttp: {base: \"${ env.SHOP_URL }\"}\ndo: {method: PUT, path: \"/"+agent+"/${ input.id }\"}\nundo: {method: DELETE, path: \"/"+agent+"/${ input.id }\"}\n")
	}
	write(t, filepath.Join(w.at.dir, "workflows", "order.yaml"), `workflow: order
defaults:
  complete_within: 30s
  retry: {attempts: 3, backoff: 20ms, factor: 2, max_backoff: 1s, then: undo}
steps:
  stock: {agent: stock, with: {id: "${ task.id }"}, undo: {with: {id: "${ task.id }"}}}
  card: {agent: card, needs: [stock], with: {id: "${ task.id }"}, undo: {with: {id: "${ task.id }"}}}
  rest: {needs: [stock], sleep: 30ms}
  ship: {agent: ship, needs: [card, rest], with: {id: "${ task.id }"}}
`)
	for _, name := range w.names {
		w.start(name)
	}
	return w
}

// start starts a node, and waits until it owns partitions.
func (w *watched) start(name string) {
	w.t.Helper()
	data := w.data(name)
	_ = os.Remove(filepath.Join(data, endpointsFile)) // of the run that was killed
	n := w.at.start(w.t, "serve", "--brokers", w.brokers, "--data", data, "--http", "127.0.0.1:0", "--node", name, "--partitions", fmt.Sprint(pastPartitions),
		"--agents", "agents", "--workflows", "workflows", "--checkpoint-records", "200", "--checkpoint-keep", "1000", "--quiet")
	api := n.endpoints(data).HTTP
	n.eventually("ready", func() bool { return get(w.t, api+"/readyz", nil) == http.StatusOK })
	w.nodes[name], w.apis[name] = n, api
	n.eventually(name+" owns partitions", func() bool { w.look(); return w.owned(name) > 0 })
}

func (w *watched) data(name string) string { return filepath.Join(w.at.dir, name) }

// owned counts the partitions that a node owns, by its own word.
func (w *watched) owned(name string) (n int) {
	w.t.Helper()
	for _, p := range partitionsOf(w.t, w.apis[name]) {
		if p.Owner == name {
			n++
		}
	}
	return n
}

// kill kills a node, and waits until the other owns its partitions.
func (w *watched) kill(name, other string) {
	w.t.Helper()
	n := w.owned(name)
	require.Positive(w.t, n, "%s owns nothing that could be taken over", name)
	require.NoError(w.t, w.nodes[name].cmd.Process.Kill())
	w.nodes[name].end()
	delete(w.nodes, name)
	w.kills++
	w.lost += n
	w.nodes[other].eventually("taken over", func() bool { w.look(); return w.owned(other) == pastPartitions })
}

// submit submits a task to a node that runs, if the last one was a while ago.
func (w *watched) submit() {
	if time.Since(w.submitted) < pastPace {
		return
	}
	w.submitted = time.Now()
	for name := range w.nodes {
		id := fmt.Sprintf("o-%d", len(w.tasks))
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, w.apis[name]+"/v1/tasks/"+id, strings.NewReader(`{"workflow":"order","input":{}}`))
		require.NoError(w.t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			w.tasks = append(w.tasks, id)
		}
		return
	}
}

// look reads some tasks of a partition from its owner, and where the partition was. Nothing is seen if the partition went on meanwhile, or was seen there before.
func (w *watched) look() {
	w.t.Helper()
	p := rand.Int32N(pastPartitions)
	for _, name := range w.names {
		api := w.apis[name]
		before := partitionsOf(w.t, api)
		if w.nodes[name] == nil || len(before) != pastPartitions || before[p].Owner != name || before[p].Hash == "" {
			continue
		}
		place := fmt.Sprintf("%d@%d", p, before[p].Next)
		recent := w.recent(p)
		if w.known[place] || len(recent) == 0 || before[p].Next == 0 {
			w.submit()
			return
		}
		s := seen{standing: before[p], partition: p, task: recent[max(0, len(recent)-1-rand.IntN(pastLast))], documents: map[string]string{}}
		for _, path := range []string{"/v1/tasks/" + s.task, "/v1/tasks/" + s.task + "/history", "/v1/tasks/" + recent[rand.IntN(len(recent))]} {
			s.documents[path] = body(w.t, api+path)
			if s.documents[path] == "" {
				return
			}
		}
		if after := partitionsOf(w.t, api); len(after) == pastPartitions && after[p] == before[p] {
			w.known[place] = true
			w.all = append(w.all, s)
			w.submit()
		}
		return
	}
}

// recent are some of the last tasks of a partition.
func (w *watched) recent(p int32) (list []string) {
	for _, id := range w.tasks[max(0, len(w.tasks)-pastRecent):] {
		if events.Home(id, pastPartitions) == p {
			list = append(list, id)
		}
	}
	return list
}

// until looks until so much was seen.
func (w *watched) until(n int) {
	w.t.Helper()
	for _, node := range w.nodes {
		node.eventually("looks", func() bool {
			for begun := time.Now(); len(w.all) < n && time.Since(begun) < time.Second; {
				w.look()
			}
			return len(w.all) >= n || w.t.Context().Err() != nil
		})
		return
	}
}

// draw puts what was seen into a random order, with something from each owner in front.
func (w *watched) draw() {
	w.t.Helper()
	owned := func(name string) int { return slices.IndexFunc(w.all, func(s seen) bool { return s.Owner == name }) }
	for _, name := range w.names {
		w.nodes[name].eventually(name+" was seen as an owner", func() bool { w.look(); return owned(name) >= 0 })
	}
	rand.Shuffle(len(w.all), func(i, j int) { w.all[i], w.all[j] = w.all[j], w.all[i] })
	for i, name := range w.names {
		j := owned(name)
		w.all[i], w.all[j] = w.all[j], w.all[i]
	}
}

// What the owners of two nodes said at many instants, between kills and take-overs, is what the log tells of these instants: the same documents, byte for byte, and the same
// hashes. Half of the pasts are asked for as a whole and half for one task, and of each half, half may begin with a checkpoint.
func TestThePastIsAsItWasSeen(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	w := watch(t)
	for kill := range *pastKills {
		for n := 1; n <= 10; n++ { // a step of the test is short, however many instants there are
			w.until(*pastInstants * (10*kill + n) / (10 * (*pastKills + 1)))
		}
		name := w.names[kill%2]
		w.kill(name, w.names[1-kill%2])
		w.start(name)
	}
	for n := 1; n <= 10; n++ {
		w.until(*pastInstants * (10**pastKills + n) / (10 * (*pastKills + 1)))
	}
	w.draw()
	for _, n := range w.nodes { // the past needs no node
		require.Equal(t, 0, n.stop())
	}
	taken := takeOvers(t, w.brokers)
	require.GreaterOrEqual(t, taken, w.lost, "each partition of a killed node was taken over")
	begun := time.Now()
	var c compared
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(2 * runtime.GOMAXPROCS(0)) // each waits for the disk about as long as it computes
	for i := range *pastInstants {
		g.Go(func() error { return c.compare(ctx, w, i) })
	}
	require.NoError(t, g.Wait())
	t.Logf("%d instants of a run with %d kills and %d take-overs (%d partitions lost by kills), in %d epochs of %d owners: %d documents compared, %d states hashed, %d of the pasts from a checkpoint, states of tasks %v, in %s",
		c.instants, w.kills, taken, w.lost, len(c.epochs), len(c.owners), c.documents, c.hashes, c.checkpoints, c.states, time.Since(begun).Round(time.Second))
	require.Equal(t, *pastInstants, c.instants)
	require.True(t, c.checkpoints > 0 || *pastInstants < 100, "no past began with a checkpoint")
	require.Len(t, c.owners, 2)
}

// compared counts what was compared.
type compared struct {
	mu                                       sync.Mutex // guards the fields below
	instants, documents, hashes, checkpoints int
	epochs, owners, states                   map[string]int
}

// compare compares what was seen at an instant with the past.
func (c *compared) compare(ctx context.Context, w *watched, i int) error {
	s := w.all[i]
	log := &logPlace{connection: connection{brokers: []string{w.brokers}}, namespace: events.DefaultNamespace}
	of := cli.PastOf{At: fmt.Sprintf("%d@%d", s.partition, s.next())}
	if i%2 == 1 {
		of.Task = s.task
	}
	if i%4 >= 2 {
		of.Checkpoints = filepath.Join(w.data(w.names[i/4%2]), node.CheckpointsDir)
	}
	p, stop, err := log.Past(ctx, of, io.Discard)
	if err != nil {
		return fmt.Errorf("%s: %w", of.At, err)
	}
	read := pastReader{ctx: ctx, past: p, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for path, live := range s.documents {
		if then := read.get(path); settled(then) != settled(live) {
			read.fail("%s (%+v): %s was\n%s\nand is\n%s", of.At, of, path, live, then)
		}
	}
	var list []standing
	if err := json.Unmarshal([]byte(read.get("/v1/partitions")), &list); err != nil || len(list) != pastPartitions {
		read.fail("%s: %d partitions: %w", of.At, len(list), err)
	} else if then := list[s.partition]; then.Next != s.Next || then.Hash != s.Hash || then.Epoch != s.Epoch {
		read.fail("%s (%+v): the state was %+v and is %+v", of.At, of, s.standing, then)
	}
	read.past.Token = ""
	if read.get("/v1/tasks/"+s.task) != "" {
		read.fail("anybody may read it")
	}
	if err := errors.Join(read.err, stop()); err != nil {
		return err
	}
	c.count(&s, p.Checkpoint != "")
	return nil
}

// next is the offset of the last fact that was folded.
func (s *seen) next() int64 { return s.Next - 1 }

func (c *compared) count(s *seen, checkpoint bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epochs == nil {
		c.epochs, c.owners, c.states = map[string]int{}, map[string]int{}, map[string]int{}
	}
	c.instants++
	c.hashes++
	c.documents += len(s.documents)
	if checkpoint {
		c.checkpoints++
	}
	c.epochs[fmt.Sprint(s.partition, s.Epoch)]++
	c.owners[s.Owner]++
	var doc struct{ State string }
	_ = json.Unmarshal([]byte(s.documents["/v1/tasks/"+s.task]), &doc)
	c.states[doc.State]++
}

// pastReader reads documents of the past, and keeps the first error.
type pastReader struct {
	ctx    context.Context
	client http.Client
	past   cli.Past
	err    error
}

func (r *pastReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// get returns a document; "" unless the answer is 200.
func (r *pastReader) get(path string) string {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "http://"+r.past.Address+path, nil)
	if err != nil {
		r.fail("%w", err)
		return ""
	}
	if r.past.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.past.Token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.fail("%w", err)
		return ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.fail("%w", err)
	}
	if res.StatusCode != http.StatusOK {
		return ""
	}
	return string(b)
}

// partitionsOf returns where the partitions stand, by the word of a node.
func partitionsOf(t *testing.T, api string) (list []standing) {
	t.Helper()
	_ = json.Unmarshal([]byte(body(t, api+"/v1/partitions")), &list)
	return list
}

// takeOvers counts the claims in the log by which another node got a partition.
func takeOvers(t *testing.T, brokers string) (n int) {
	t.Helper()
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{brokers}})
	require.NoError(t, err)
	defer c.Close()
	topic := kafka.Topics{Namespace: events.DefaultNamespace}.Events()
	for p := range int32(pastPartitions) {
		s := events.NewState(p, nil)
		require.NoError(t, c.ReadRange(t.Context(), topic, p, 0, -1, func(r events.Record) error {
			f, err := events.DecodeFact(&r)
			if err != nil {
				return err
			}
			owner := s.Partition.Owner
			if _, err := s.Apply(f, r.Offset); err != nil {
				return err
			}
			if owner != "" && s.Partition.Owner != owner {
				n++
			}
			return nil
		}))
	}
	return n
}

// settled is a document without what a task waited for: it depends on the agents that were running, of which the log knows nothing.
func settled(document string) string {
	before, after, waits := strings.Cut(document, `,"waiting_for":[`)
	if _, rest, ok := strings.Cut(after, "]"); waits && ok {
		return before + rest
	}
	return document
}
