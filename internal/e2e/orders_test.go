package e2e

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// shop is the program cmd/orders.
type shop struct {
	*process
	t      *testing.T
	engine *engine
	work   string
	addr   string
	// placed are the orders that were acknowledged.
	placed []string
}

func newShop(t *testing.T, work string, e *engine) *shop {
	return &shop{t: t, engine: e, work: work, addr: freePort(t)}
}

func (s *shop) db() string { return filepath.Join(s.work, "orders.db") }

func (s *shop) start(args ...string) {
	s.t.Helper()
	s.process = start(s.t, command{name: "shop", dir: s.work, program: program("orders"),
		args: append([]string{"--db", s.db(), "--http", s.addr, "--api", s.engine.HTTP}, args...)})
}

// order places an order, as a customer who asks until there is an answer.
func (s *shop) order(id string, cents int) {
	s.t.Helper()
	body := fmt.Sprintf(`{"customer":"c-%d","cents":%d}`, cents, cents)
	eventually(s.t, patience, "the order "+id+" is acknowledged", func() bool {
		req, err := http.NewRequest(http.MethodPut, "http://"+s.addr+"/orders/"+id, strings.NewReader(body))
		require.NoError(s.t, err)
		res, err := web.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		require.Contains(s.t, []int{http.StatusCreated, http.StatusOK}, res.StatusCode)
		return true
	})
}

// orderMany places orders at the same time.
func (s *shop) orderMany(n int) (wait func()) {
	var wg sync.WaitGroup
	for range n {
		id := fmt.Sprintf("order-%d", len(s.placed))
		s.placed = append(s.placed, id)
		wg.Go(func() { s.order(id, len(id)*100) })
	}
	return wg.Wait
}

// orderRow is a row of the shop's table.
type orderRow struct{ id, state, receipt string }

// rows reads the shop's database, and how many orders are in the outbox.
func (s *shop) rows() (list []orderRow, unsent int) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db())
	require.NoError(s.t, err)
	defer db.Close()
	require.NoError(s.t, db.QueryRow(`SELECT count(*) FROM outbox`).Scan(&unsent))
	rows, err := db.Query(`SELECT id, state, receipt FROM orders ORDER BY id`)
	require.NoError(s.t, err)
	defer rows.Close()
	for rows.Next() {
		var r orderRow
		require.NoError(s.t, rows.Scan(&r.id, &r.state, &r.receipt))
		list = append(list, r)
	}
	require.NoError(s.t, rows.Err())
	return list, unsent
}

// tasksOfOrders returns the IDs of all tasks of the workflow.
func (e *engine) tasksOfOrders() (ids []string) {
	e.t.Helper()
	var page struct {
		Tasks []task `json:"tasks"`
	}
	requireJSON(e.t, e.ask(200, "GET", "/v1/tasks?workflow=order&limit=1000", nil), &page)
	for _, t := range page.Tasks {
		ids = append(ids, t.ID)
	}
	slices.Sort(ids)
	return ids
}

// The shop's process is killed at each step between an order and its end, and at random moments, also together with the engine.
// Each acknowledged order has one row, one task and one payment, and there is no task or payment without an order.
func TestOrdersSurviveKills(t *testing.T) {
	besideOthers(t)
	work := workDir(t)
	e := newEngine(t, work, "--demo", "orders")
	e.start()
	s := newShop(t, work, e)
	random := rand.New(rand.NewPCG(seed(t), 0))

	for _, step := range []string{
		"order-written", "task-written", "committed", "outbox-read", "submitted", "removed", "state-read", "state-written",
	} {
		for n := 1; n <= 2; n++ {
			s.start("--die-at", fmt.Sprintf("%s:%d", step, n))
			wait := s.orderMany(4)
			require.NotZero(t, s.wait(patience), "the shop did not die at %s", step)
			require.Contains(t, s.stderr(), "--die-at "+step)
			s.start()
			wait()
			s.kill()
		}
	}
	for i := range sized(0, 6, 40) {
		before, _ := s.rows()
		n := random.IntN(5)
		s.start()
		wait := s.orderMany(4)
		eventually(t, patience, fmt.Sprintf("%d of the orders are written", n), func() bool {
			rows, _ := s.rows()
			return len(rows)-len(before) >= n
		})
		s.kill()
		if i%3 == 0 {
			e.kill()
			e.start()
		}
		s.start()
		wait()
		s.kill()
	}

	s.start()
	s.requireEachPaidOnce()
}

// requireEachPaidOnce waits until all orders are paid, and compares them with the tasks and with the payment service's ledger.
func (s *shop) requireEachPaidOnce() {
	t := s.t
	t.Helper()
	eventually(t, patience, "all orders are paid", func() bool {
		rows, unsent := s.rows()
		return unsent == 0 && !slices.ContainsFunc(rows, func(r orderRow) bool { return r.state != "paid" })
	})
	receipts := map[string][]string{}
	for _, l := range ledgerOf(t, s.engine.Services["payment"], "") {
		if l.Applied {
			var a struct{ Receipt string }
			require.NoError(t, json.Unmarshal(l.Answer, &a))
			receipts[l.Task] = append(receipts[l.Task], a.Receipt)
		}
	}
	rows, _ := s.rows()
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.id)
		require.Equal(t, []string{r.receipt}, receipts[r.id], r.id)
	}
	slices.Sort(s.placed)
	require.Equal(t, s.placed, ids, "the orders that were acknowledged, and those in the database")
	require.Equal(t, ids, s.engine.tasksOfOrders(), "the orders, and the tasks")
	require.Len(t, receipts, len(ids), "the orders, and the payments")
	t.Logf("%d orders, each with one task and one payment", len(ids))
}

// A broken payment service parks the task, and the order says so, with the pattern's record. An operator repairs and retries.
func TestAStuckOrderIsPaidAfterARetry(t *testing.T) {
	besideOthers(t)
	work := workDir(t)
	e := newEngine(t, work, "--demo", "orders")
	e.start()
	s := newShop(t, work, e)
	s.start()
	e.ask(200, "PUT", "/v1/demo/break", []byte(`{"service":"payment","mode":"fail","for":"10m"}`))
	s.orderMany(1)()
	id := s.placed[0]
	type record struct {
		State, Reason, Receipt string
		Task                   *struct {
			ProcessState string `json:"process_state"`
			LockedBy     string `json:"locked_by"`
			FailureCount int    `json:"failure_count"`
			Reason       string `json:"reason"`
		}
	}
	get := func(path string) string {
		res, err := web.Get("http://" + s.addr + path)
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(b)
	}
	var r record
	eventually(t, patience, "the order is stuck", func() bool {
		r = record{}
		requireJSON(t, []byte(get("/orders/"+id)), &r)
		return r.State == "stuck"
	})
	require.Contains(t, r.Reason, "503")
	require.NotNil(t, r.Task)
	require.Equal(t, "error", r.Task.ProcessState)
	require.Equal(t, "dev", r.Task.LockedBy)
	require.Equal(t, 3, r.Task.FailureCount)
	require.Regexp(t, regexp.MustCompile(`(?m)^`+id+` .*stuck +error +dev +3 `), get("/orders"))

	e.ask(204, "DELETE", "/v1/demo/break", nil)
	e.request(id, "retry")
	s.requireEachPaidOnce()
}

// command of a page: the lines of all blocks without a language, as one script.
func scriptOf(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```").FindAllStringSubmatch(string(b), -1) {
		script.WriteString(block[1])
	}
	require.NotEmpty(t, script.String())
	return script.String()
}

// The commands of docs/orders.md work when they are pasted in their order. Only ports and the way to start a program differ here.
func TestTheRecipeForOrdersWorks(t *testing.T) {
	besideOthers(t)
	work := workDir(t)
	api, shop, other := freePort(t), freePort(t), freePort(t)
	script := strings.NewReplacer(
		"127.0.0.1:8700", shop, "127.0.0.1:8701", other,
		"go run ./cmd/sagalog dev", program("sagalog")+" dev --kafka 127.0.0.1:0 --http "+api,
		"go run ./cmd/sagalog", "SAGALOG_API=http://"+api+" "+program("sagalog"),
		"go run ./cmd/orders --db ./orders.db &", program("orders")+" --db ./orders.db --http "+shop+" --api http://"+api+" &",
		"go run ./cmd/orders", program("orders")+" --api http://"+api,
	).Replace(scriptOf(t, "docs/orders.md"))
	require.NotContains(t, script, "go run")
	p := start(t, command{name: "recipe", dir: work, program: "bash", args: []string{"-c", "trap 'kill $(jobs -p); wait' EXIT; set -e; cd " + work + "\n" + script}})
	require.Zero(t, p.wait(patience), "%s\n%s", p.stdout(), p.stderr())
	out := p.stdout()
	for _, says := range []string{`"state":"stuck"`, `"process_state":"error"`, `"id":"order-2","customer":"ben","cents":700,"state":"paid"`, "order-3"} {
		require.Contains(t, out, says)
	}
	require.Contains(t, p.stderr(), "--die-at submitted: the process ends here")
	require.Equal(t, 3, strings.Count(out[cmp.Or(strings.LastIndex(out, "ORDER "), 0):], " paid "))
}
