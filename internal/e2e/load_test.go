package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load is a running `dronedelivery load`.
type load struct {
	*process
	count  int
	prefix string
}

func startLoad(t *testing.T, e *engine, prefix string, count int, rate float64) *load {
	t.Helper()
	l := &load{count: count, prefix: prefix}
	l.process = start(t, command{name: "load-" + strings.TrimSuffix(prefix, "-"), dir: e.work, program: program("dronedelivery"), args: []string{
		"load", "--quiet", "--count", strconv.Itoa(count), "--rate", fmt.Sprint(rate), "--prefix", prefix, "--api", e.HTTP,
	}})
	return l
}

// acknowledged waits until every submission is acknowledged.
func (l *load) acknowledged(t *testing.T, bound time.Duration) {
	t.Helper()
	require.Zero(t, l.wait(bound), "%s", l.stderr())
	var r struct {
		Acknowledged int     `json:"acknowledged"`
		SentAgain    int     `json:"sent_again"`
		Seconds      float64 `json:"seconds"`
		AckP50       float64 `json:"ack_p50_ms"`
		AckP99       float64 `json:"ack_p99_ms"`
		AckMax       float64 `json:"ack_max_ms"`
	}
	requireJSON(t, []byte(l.stdout()), &r)
	require.Equal(t, l.count, r.Acknowledged)
	t.Logf("%d submissions acknowledged in %.1f s, %d sent again; from due time to acknowledgement p50 %.0f ms, p99 %.0f ms, max %.0f ms",
		r.Acknowledged, r.Seconds, r.SentAgain, r.AckP50, r.AckP99, r.AckMax)
}

// quiet waits until the engine has judged all submissions and no task is live. Parked tasks may remain. If that does
// not happen, quiet reports the remaining tasks.
func (e *engine) quiet(bound time.Duration) {
	e.t.Helper()
	calm := 0
	for deadline := time.Now().Add(bound); calm < 5; after(e.t, look) { // an acknowledged submission is judged within milliseconds, and the audit shows if it was not
		require.True(e.t, e.running(), "the engine has ended:\n%s", tail(e.err, 20))
		live, left := -len(e.list("limit=1000&state=error")), []task(nil) // a partition's live tasks are all its tasks that have not ended
		for _, p := range e.partitions() {
			live += p.Live
		}
		for _, state := range []string{"pending", "processing", "undoing"} {
			left = append(left, e.list("limit=1&state="+state)...)
		}
		calm++
		if live != 0 || len(left) > 0 {
			calm = 0
		}
		if calm == 0 && time.Now().After(deadline) {
			for _, left := range left {
				e.t.Logf("left: %s", e.ask(200, "GET", taskPath(left.ID), nil))
				e.t.Logf("its history: %s", e.ask(200, "GET", taskPath(left.ID)+"/history", nil))
			}
			require.FailNow(e.t, "not every task ends", "after %s; partitions: %s\nlast lines: %s", bound, e.ask(200, "GET", "/v1/partitions", nil), tail(e.err, 20))
		}
	}
}

// summary is the summary of `dronedelivery audit`.
type summary struct {
	Submitted int            `json:"submitted"`
	Ends      map[string]int `json:"ends"`
	Log       struct {
		Records  int            `json:"records"`
		Facts    int            `json:"facts"`
		Epochs   int            `json:"epochs"`
		Void     map[string]int `json:"void"`
		Attempts int            `json:"attempts"`
		Retries  int            `json:"retries"`
		Timeouts int            `json:"timeouts"`
		Undos    int            `json:"undos"`
	} `json:"log"`
	Ledgers map[string]struct {
		Lines, Applied, Undone, Refused, Hung, Repeats int
	} `json:"ledgers"`
	Lines int `json:"lines_compared"`
	Tasks int `json:"tasks_compared"`
	Lie   *struct {
		Kind, Task, Service string
		Line                int
		Found               bool
	} `json:"lie"`
	Disagreements int              `json:"disagreements"`
	First         []map[string]any `json:"first"`
}

// audit compares every delivery and every call with the log.
func (l *load) audit(t *testing.T, e *engine, ledgers string, args ...string) (int, summary) {
	t.Helper()
	code, out, errs := output(t, program("dronedelivery"), append([]string{
		"audit", "--brokers", e.Kafka, "--ledgers", ledgers, "--prefix", l.prefix, "--count", strconv.Itoa(l.count),
	}, args...)...)
	var s summary
	requireJSON(t, []byte(out+" "), &s)
	if code != 0 {
		require.Positive(t, s.Disagreements, errs)
	}
	return code, s
}

// agree runs an audit that must find no disagreement, and returns its figures.
func (l *load) agree(t *testing.T, e *engine, ledgers string, args ...string) summary {
	t.Helper()
	code, s := l.audit(t, e, ledgers, args...)
	if code != 0 {
		b, _ := json.MarshalIndent(s.First, "", " ")
		require.FailNow(t, fmt.Sprintf("%d disagreements, ends %v", s.Disagreements, s.Ends), "%s", b)
	}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	t.Logf("audit: %s", b)
	require.Equal(t, l.count, s.Submitted)
	require.Equal(t, l.count, s.Tasks)
	return s
}

// lies repeats the audit with several kinds of lies, one at a time, and requires that it finds each of them.
func (l *load) lies(t *testing.T, e *engine, ledgers string, seeds int, args ...string) {
	t.Helper()
	kinds := map[string]int{}
	for i := range seeds {
		code, s := l.audit(t, e, ledgers, append(args, "--lie", strconv.Itoa(i))...)
		require.Equal(t, 1, code, "lie %d was not found", i)
		require.NotNil(t, s.Lie)
		require.True(t, s.Lie.Found, "lie %d: %+v: %v", i, *s.Lie, s.First)
		kinds[s.Lie.Kind]++
	}
	t.Logf("%d lies in a ledger found: %v", seeds, kinds)
}
