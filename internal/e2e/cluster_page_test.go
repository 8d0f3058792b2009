package e2e

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// glimpse is what the page showed from an instant on.
type glimpse struct {
	Task  string    `json:"task"`
	State string    `json:"state"`
	Badge string    `json:"badge"`
	At    time.Time `json:"at"`
}

// words are what the page calls the states that a delivery can have here.
var words = map[string]string{"waiting to start": "pending", "running": "processing", "undoing": "undoing", "processed": "processed", "undone": "undone"}

// rank says which states can follow a state: those of a higher rank.
var rank = map[string]int{"pending": 1, "processing": 2, "undoing": 3, "processed": 4, "undone": 4}

// A browser looks at deliveries through a node without partitions, while the owners are killed in turn on three brokers. Whatever it
// shows of a delivery is a state that the delivery had, in the right order, and in the end it is what `sagalog task get` says. The
// lag is from the instant in the last fact to the instant at which the page shows the end.
func TestClusterPage(t *testing.T) {
	ui, err := filepath.Abs("../ui")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(ui, "node_modules")); err != nil {
		t.Skip("the page's tools are not installed; this installs them: cd internal/ui && npm ci")
	}
	r := rand.New(rand.NewPCG(seed(t), 47))
	c := newCluster(t, replicated(nil), "--refuse", "drone=0.1")
	owners := []*member{c.up("n1"), c.up("n2")}
	window := c.up("n3", "api")
	c.even(patience)
	seen, stop := filepath.Join(c.work, "seen.jsonl"), filepath.Join(c.work, "stop")
	s := c.stream("p-", sized(*rateFlag, 5, 20), owners...)

	browser := exec.CommandContext(t.Context(), "npx", "--no-install", "playwright", "test", "cluster.spec.ts")
	browser.Dir = ui
	browser.Env = append(os.Environ(), "PAGE_CLUSTER="+window.HTTP, "PAGE_SEEN="+seen, "PAGE_STOP="+stop, "PAGE_OUT="+filepath.Join(c.work, "browser"))
	log, err := os.Create(filepath.Join(c.work, "browser.log"))
	require.NoError(t, err)
	browser.Stdout, browser.Stderr = log, log
	require.NoError(t, browser.Start())
	looks := make(chan error, 1)
	go func() { looks <- browser.Wait() }()
	eventually(t, 5*patience, "the page shows a delivery", func() bool { return len(glimpses(t, seen)) > 0 })

	kills := sized(*killsFlag, 3, 10)
	for range kills {
		after(t, time.Duration((3+4*r.Float64())*float64(time.Second)))
		m := owners[r.IntN(2)]
		m.kill()
		after(t, time.Duration(5*r.Float64()*float64(time.Second)))
		m.launch()
	}
	after(t, 5*time.Second)
	require.NoError(t, os.WriteFile(stop, nil, 0o600))
	require.NoError(t, <-looks, tail(log.Name(), 40))
	l := s.end()
	c.ended(l)
	c.shown(glimpses(t, seen), window, kills)
	c.agree(l)
}

// shown compares what the page showed with what the command line says.
func (c *cluster) shown(list []glimpse, window *member, kills int) {
	c.t.Helper()
	byTask := map[string][]glimpse{}
	for _, g := range list {
		byTask[g.Task] = append(byTask[g.Task], g)
	}
	var lags []time.Duration
	stale := 0
	for id, list := range byTask {
		code, out, errs := output(c.t, program("sagalog"), "task", "get", id, "-o", "json", "--api", window.HTTP)
		require.Zero(c.t, code, errs)
		var now task
		requireJSON(c.t, []byte(out), &now)
		last := ""
		for _, g := range list {
			state, ok := words[g.State]
			require.True(c.t, ok, "%+v", g)
			require.GreaterOrEqual(c.t, rank[state], rank[last], "%s: %s after %s", id, state, last)
			if state != last && rank[state] == rank["processed"] {
				lags = append(lags, g.At.Sub(now.EndedAt))
			}
			if g.Badge != "live" {
				stale++
			}
			last = state
		}
		require.Equal(c.t, now.State, last, "%s: the page says %s", id, list[len(list)-1].State)
	}
	require.NotEmpty(c.t, lags)
	slices.Sort(lags)
	quantile := func(q float64) time.Duration { return lags[int(q*float64(len(lags)-1))].Round(time.Millisecond) }
	c.t.Logf("the page showed %d deliveries through %d kills as they were; from the last fact to the page: p50 %s, p99 %s, max %s; %d of %d glimpses under a badge other than live",
		len(byTask), kills, quantile(0.5), quantile(0.99), quantile(1), stale, len(list))
}

// glimpses reads what the page has shown so far.
func glimpses(t *testing.T, path string) (list []glimpse) {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var g glimpse
		if json.Unmarshal(lines.Bytes(), &g) != nil {
			break // the last line is being written
		}
		if g.State != "" {
			list = append(list, g)
		}
	}
	return list
}
