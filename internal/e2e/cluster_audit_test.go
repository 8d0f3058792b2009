package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
)

// findings is the summary of `dronedelivery audit --epochs`.
type findings struct {
	summary
	Ownership struct {
		Owners     map[string]int `json:"owners"`
		Late       int            `json:"late_records"`
		Gaps       spread         `json:"gaps"`
		Partitions []struct {
			Partition int32  `json:"partition"`
			Epochs    []term `json:"epochs"`
		} `json:"partitions"`
	} `json:"ownership"`
	Waits struct {
		Accepted spread `json:"to_accepted"`
		Started  spread `json:"to_started"`
		Silent   spread `json:"silent"`
		Whole    spread `json:"whole"`
		Longest  struct {
			Task   string    `json:"task"`
			From   time.Time `json:"from"`
			To     time.Time `json:"to"`
			Behind string    `json:"behind"`
			Before string    `json:"before"`
		} `json:"longest_silence"`
	} `json:"waits"`
	Effects map[string]struct {
		Records int `json:"records"`
		Repeats int `json:"repeats"`
		Unsent  int `json:"unsent"`
	} `json:"effects"`
}

// spread holds quantiles in milliseconds.
type spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func (s spread) String() string {
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms, of %d", s.P50, s.P99, s.Max, s.Count)
}

// term is one ownership of a partition.
type term struct {
	Epoch   string    `json:"epoch"`
	Owner   string    `json:"owner"`
	Claimed time.Time `json:"claimed_at"`
	Facts   int       `json:"facts"`
	First   time.Time `json:"first_at"`
	Last    time.Time `json:"last_at"`
	Void    int       `json:"void"`
	Late    int       `json:"late"`
}

// begun is the time of the first fact, or of the claim if there is no fact. ended is the time of the last one.
func (t term) begun() time.Time {
	if t.Facts == 0 {
		return t.Claimed
	}
	return t.First
}

func (t term) ended() time.Time {
	if t.Facts == 0 {
		return t.Claimed
	}
	return t.Last
}

// audit compares every delivery of a load, every call and every effect with the log. It works while the
// nodes are down.
func (c *cluster) audit(l *load, args ...string) (int, findings) {
	c.t.Helper()
	code, out, errs := output(c.t, program("dronedelivery"), append([]string{
		"audit", "--brokers", c.brokers, "--ledgers", c.fleet.dir, "--prefix", l.prefix, "--count", strconv.Itoa(l.count), "--epochs",
	}, args...)...)
	var f findings
	requireJSON(c.t, []byte(out+" "), &f)
	if code != 0 {
		require.Positive(c.t, f.Disagreements, errs)
	}
	return code, f
}

// agree runs an audit that must find nothing wrong: each delivery ended processed or undone, each epoch had one owner,
// and no void fact had an effect. It returns the audit's figures.
func (c *cluster) agree(l *load, args ...string) findings {
	c.t.Helper()
	code, f := c.audit(l, args...)
	if code != 0 {
		b, _ := json.MarshalIndent(f.First, "", " ")
		require.FailNow(c.t, fmt.Sprintf("%d disagreements, ends %v", f.Disagreements, f.Ends), "%s", b)
	}
	require.Equal(c.t, l.count, f.Submitted)
	require.Equal(c.t, l.count, f.Tasks)
	require.Equal(c.t, l.count, f.Ends["processed"]+f.Ends["undone"], "%v", f.Ends)
	c.t.Logf("audit of %d deliveries: %v; %d facts and %d void records %v in %d epochs of %v; %d calls compared",
		f.Submitted, f.Ends, f.Log.Facts, f.Log.Records-f.Log.Facts, f.Log.Void, f.Log.Epochs, f.Ownership.Owners, f.Lines)
	c.t.Logf("attempts %d, retries %d, timeouts %d, undos %d; effects %+v", f.Log.Attempts, f.Log.Retries, f.Log.Timeouts, f.Log.Undos, f.Effects)
	c.t.Logf("submission to acceptance: %s; acceptance to the first step: %s", f.Waits.Accepted, f.Waits.Started)
	c.t.Logf("longest silence of a delivery: %s; the longest is of %s from %s to %s, %s to %s", f.Waits.Silent, f.Waits.Longest.Task,
		f.Waits.Longest.From.Format(clock), f.Waits.Longest.To.Format(clock), f.Waits.Longest.Behind, f.Waits.Longest.Before)
	return f
}

// clock formats an instant as the logs do, so that it can be searched for in them.
const clock = "15:04:05.000"

// lies repeats the audit with several kinds of lies, one at a time, and requires that it finds each of them.
func (c *cluster) lies(l *load, seeds int) {
	c.t.Helper()
	kinds := map[string]int{}
	for i := range seeds {
		code, f := c.audit(l, "--lie", strconv.Itoa(i))
		require.Equal(c.t, 1, code, "lie %d was not found", i)
		require.NotNil(c.t, f.Lie)
		require.True(c.t, f.Lie.Found, "lie %d: %+v: %v", i, *f.Lie, f.First)
		kinds[f.Lie.Kind]++
	}
	c.t.Logf("%d lies in a ledger found: %v", seeds, kinds)
}

// death is a node that died.
type death struct {
	node string
	at   time.Time
}

// takeover is a partition whose owner died and whose next fact is of a new epoch.
type takeover struct {
	partition int32
	death     death
	from, to  term
}

// gap is the time from the last fact of the old epoch to the first fact of the new one.
func (t takeover) gap() time.Duration { return t.to.begun().Sub(t.from.ended()) }

// takeovers finds, for each death, the partitions that the dead node owned at that moment. Hand-overs between living
// nodes do not count.
func (f *findings) takeovers(deaths []death) []takeover {
	var list []takeover
	for _, p := range f.Ownership.Partitions {
		for i := 1; i < len(p.Epochs); i++ {
			from, to := p.Epochs[i-1], p.Epochs[i]
			for _, d := range deaths {
				if from.Owner == d.node && !from.Claimed.After(d.at) && !from.ended().After(d.at) && to.Claimed.After(d.at) {
					list = append(list, takeover{p.Partition, d, from, to})
					break
				}
			}
		}
	}
	return list
}

// report prints the takeovers and returns the longest.
func report(c *cluster, list []takeover) time.Duration {
	c.t.Helper()
	require.NotEmpty(c.t, list, "no partition was taken over")
	var gaps, claims []time.Duration
	for _, t := range list {
		gaps, claims = append(gaps, t.gap()), append(claims, t.to.Claimed.Sub(t.from.ended()))
	}
	slices.Sort(gaps)
	slices.Sort(claims)
	line := func(what string, of []time.Duration) {
		c.t.Logf("%d takeovers from dead owners, last fact of the old epoch to %s: p50 %s, p99 %s, max %s", len(of), what,
			percentile(of, 0.5), percentile(of, 0.99), percentile(of, 1))
	}
	line("the claim", claims)
	line("the first fact of the new one", gaps)
	slices.SortFunc(list, func(a, b takeover) int { return int(b.gap() - a.gap()) })
	for _, t := range list[:min(5, len(list))] {
		c.t.Logf("  %s: partition %d of %s, dead at %s, last fact %s; claimed by %s at %s, first fact %s (%d in all)", t.gap(), t.partition, t.death.node,
			t.death.at.Format(clock), t.from.ended().Format(clock), t.to.Owner, t.to.Claimed.Format(clock), t.to.begun().Format(clock), t.to.Facts)
	}
	return gaps[len(gaps)-1]
}
