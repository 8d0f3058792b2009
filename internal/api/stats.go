package api

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	statsPath = "/v1/stats"
	// statsWithin is how long other nodes may take for their part.
	statsWithin = 3 * time.Second
	// maxStatInstants bounds the instants of an answer, and maxStatRows its rows: those of the first workflows by name, if there are more.
	maxStatInstants = 400
	maxStatRows     = 5000
	// statBuckets is how many durations are distinguished, each half as long again as the one before (statStep), from a millisecond up to a day
	// and more.
	statBuckets = 48
	statStep    = 1.5
)

// Stats knows what happened lately.
type Stats interface {
	// Stats returns what this node decided, a row for each instant, and since when it knows.
	Stats(q StatsQuery) ([]StatRow, events.Instant)
	// Others returns the other live nodes.
	Others() []proxy.Route
}

// StatsQuery says what to count. Since and Until are whole multiples of Every.
type StatsQuery struct {
	Workflow, Step string
	Since, Until   time.Time
	Every          time.Duration
}

// Selects says whether a query is about the tasks of a workflow (no step), or about a step of it.
func (q *StatsQuery) Selects(workflow, step string) bool {
	return (q.Workflow == "" || q.Workflow == workflow) && (q.Step == step || q.Step == "*" && step != "")
}

// StatKey is what a row is about.
type StatKey struct {
	At       events.Instant `json:"at" format:"date-time" doc:"The beginning of the interval"`
	Workflow string         `json:"workflow" doc:"_other stands for all beyond the first 200 workflows and steps of a node"`
	Step     string         `json:"step,omitempty" doc:"Absent in rows about tasks"`
}

// StatCounts is what happened: to tasks, or to attempts of a step.
type StatCounts struct {
	Started   int64 `json:"started" doc:"Tasks accepted, or attempts started"`
	Completed int64 `json:"completed" doc:"Tasks processed, or attempts completed"`
	Failed    int64 `json:"failed" doc:"Tasks terminated, or attempts failed"`
	TimedOut  int64 `json:"timed_out" doc:"Tasks whose deadline passed, or attempts that timed out"`
	Undone    int64 `json:"undone" doc:"Tasks undone, or undos completed"`
	Parked    int64 `json:"parked" doc:"Tasks parked"`
	// Durations and Queue count durations by bucket, for other nodes.
	Durations *StatDurations `json:"durations,omitempty" doc:"Only between nodes"`
	Queue     *StatDurations `json:"queue,omitempty" doc:"Only between nodes"`
}

// StatDurations counts durations by bucket.
type StatDurations [statBuckets]int32

// StatRow is what happened in some time.
type StatRow struct {
	StatKey
	StatCounts
	P50   *float64 `json:"p50_s,omitempty" doc:"How long tasks took from acceptance to end, or attempts of the step, at the median: an estimate, within a quarter. Absent if none ended"`
	P95   *float64 `json:"p95_s,omitempty"`
	P99   *float64 `json:"p99_s,omitempty"`
	Queue *float64 `json:"queue_p95_s,omitempty" doc:"How long tasks waited for their first attempt, or attempts for a free place at their agent"`
}

// StatsDocument is what happened lately.
type StatsDocument struct {
	Rows    []StatRow       `json:"rows" nullable:"false" doc:"By interval, workflow and step; an interval in which nothing happened has no row"`
	Since   events.Instant  `json:"since" format:"date-time" doc:"The time from which on all nodes that answered have counted: a restart loses earlier counts, and each node keeps six hours"`
	Every   events.Duration `json:"every" doc:"The length of an interval: each row counts one"`
	Partial bool            `json:"partial,omitzero" doc:"There are more rows, or a node did not answer"`
}

// StatsAnswer is what happened lately.
type StatsAnswer struct{ Body StatsDocument }

// StatsInput says what to count.
type StatsInput struct {
	Workflow string `query:"workflow" doc:"The name of a workflow; all by default"`
	Step     string `query:"step" doc:"The name of a step, to count its attempts instead of tasks; * means each step"`
	Since    string `query:"since" default:"1h" doc:"From this instant on, or for this long" example:"1h"`
	Until    string `query:"until" doc:"Before this instant, or until this long ago; now by default"`
	Every    string `query:"every" default:"1m" doc:"The length of an interval in whole minutes: each row counts one" example:"5m"`
}

// Took counts how long something took.
func (c *StatCounts) Took(d time.Duration) { c.Durations = c.Durations.with(d) }

// Waited counts how long something waited.
func (c *StatCounts) Waited(d time.Duration) { c.Queue = c.Queue.with(d) }

func (d *StatDurations) with(took time.Duration) *StatDurations {
	if d == nil {
		d = new(StatDurations)
	}
	i := 0
	if ms := took.Seconds() * 1000; ms > 1 {
		i = min(int(math.Ceil(math.Log(ms)/math.Log(statStep))), statBuckets-1)
	}
	d[i]++
	return d
}

// Add adds counts.
func (c *StatCounts) Add(o *StatCounts) {
	c.Started += o.Started
	c.Completed += o.Completed
	c.Failed += o.Failed
	c.TimedOut += o.TimedOut
	c.Undone += o.Undone
	c.Parked += o.Parked
	c.Durations, c.Queue = c.Durations.plus(o.Durations), c.Queue.plus(o.Queue)
}

func (d *StatDurations) plus(o *StatDurations) *StatDurations {
	if o == nil {
		return d
	}
	if d == nil {
		d = new(StatDurations)
	}
	for i, n := range o {
		d[i] += n
	}
	return d
}

// quantile estimates a quantile in seconds, nil without durations. Between the bounds of a bucket it takes their geometric middle.
func (d *StatDurations) quantile(q float64) *float64 {
	if d == nil {
		return nil
	}
	all := int64(0)
	for _, n := range d {
		all += int64(n)
	}
	rank, below := int64(math.Ceil(q*float64(all))), int64(0)
	for i, n := range d {
		if below += int64(n); below >= rank && n > 0 {
			seconds := math.Pow(statStep, float64(i)-0.5) / 1000
			rounded := math.Round(seconds*10000) / 10000
			return &rounded
		}
	}
	return nil
}

type stats struct {
	stats Stats
	proxy *proxy.Proxy
	lists *lists
	now   func() time.Time
}

func (s *stats) register(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "stats", Method: http.MethodGet, Path: statsPath, Summary: "What happened lately, by the minute", Tags: []string{"engine"},
		Description: "Each node counts in memory what it decided, so the counts of a node that stopped are lost. Use the metrics for what must be kept. An answer has at most 400 intervals " +
			"and 5,000 rows.",
	}), s.read)
}

func (s *stats) read(ctx context.Context, in *StatsInput) (*StatsAnswer, error) {
	q, err := s.query(in)
	if err != nil {
		return nil, err
	}
	rows, since := s.stats.Stats(q)
	out := &StatsAnswer{StatsDocument{Since: since, Every: events.Duration(q.Every)}}
	if exchangeOf(ctx).r.Header.Get(proxy.HeaderForwarded) != "" {
		out.Body.Rows = rows
		if rows == nil {
			out.Body.Rows = []StatRow{}
		}
		return out, nil
	}
	merged := map[StatKey]*StatCounts{}
	mergeStats(merged, rows)
	s.askOthers(ctx, q, merged, &out.Body)
	out.Body.finish(merged)
	return out, nil
}

func (s *stats) query(in *StatsInput) (StatsQuery, error) {
	q := StatsQuery{Workflow: in.Workflow, Step: in.Step}
	every, err := events.ParseDuration(in.Every)
	q.Every = every.Std()
	if err != nil || q.Every < time.Minute || q.Every%time.Minute != 0 {
		return q, parameterProblem("every", "is not a number of whole minutes, such as 1m or 1h")
	}
	since, err := s.lists.instant(in.Since)
	if err != nil {
		return q, parameterProblem("since", err.Error())
	}
	until, err := s.lists.instant(cmp.Or(in.Until, "0s"))
	if err != nil {
		return q, parameterProblem("until", err.Error())
	}
	q.Since, q.Until = since.Time().Truncate(q.Every), until.Time().Truncate(q.Every).Add(q.Every)
	if q.Until.Sub(q.Since) > maxStatInstants*q.Every {
		return q, parameterProblem("every", "is too short for the time between since and until: an answer has at most 400 intervals")
	}
	return q, nil
}

func mergeStats(into map[StatKey]*StatCounts, rows []StatRow) {
	for i := range rows {
		if into[rows[i].StatKey] == nil {
			into[rows[i].StatKey] = new(StatCounts)
		}
		into[rows[i].StatKey].Add(&rows[i].StatCounts)
	}
}

func (s *stats) askOthers(ctx context.Context, q StatsQuery, into map[StatKey]*StatCounts, out *StatsDocument) {
	there := map[proxy.Route][]int32{}
	for _, to := range s.stats.Others() {
		there[to] = []int32{0} // a question needs some
	}
	if len(there) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statsWithin)
	defer cancel()
	values := map[string][]string{
		"workflow": {q.Workflow}, "step": {q.Step}, "every": {events.Duration(q.Every).String()}, "since": {events.At(q.Since).String()},
		"until": {events.At(q.Until.Add(-q.Every)).String()},
	}
	s.proxy.AskEach(ctx, there, proxy.Question{Path: statsPath, Query: values}, func(_ []int32, answer []byte, err error) error {
		var theirs StatsDocument
		if err == nil {
			err = json.Unmarshal(answer, &theirs)
		}
		if err != nil {
			out.Partial = true
			return err
		}
		mergeStats(into, theirs.Rows)
		out.Since = max(out.Since, theirs.Since)
		return nil
	})
}

// finish makes rows for people.
func (d *StatsDocument) finish(merged map[StatKey]*StatCounts) {
	d.Rows = make([]StatRow, 0, len(merged))
	for key, c := range merged {
		r := StatRow{StatKey: key, StatCounts: *c, P50: c.Durations.quantile(.5), P95: c.Durations.quantile(.95), P99: c.Durations.quantile(.99), Queue: c.Queue.quantile(.95)}
		r.Durations, r.StatCounts.Queue = nil, nil
		d.Rows = append(d.Rows, r)
	}
	if len(d.Rows) > maxStatRows {
		slices.SortFunc(d.Rows, func(a, b StatRow) int {
			return cmp.Or(strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Step, b.Step))
		})
		d.Rows, d.Partial = d.Rows[:maxStatRows], true
	}
	slices.SortFunc(d.Rows, func(a, b StatRow) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Step, b.Step))
	})
}
