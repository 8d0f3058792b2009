package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// verdicts holds the log's statements about inputs, by the rule that every reader follows.
type verdicts struct {
	// submitted counts the acceptances of each ID. rejected and forwarded count the facts about each input, by cause.
	submitted, forwarded map[string]int
	rejected             map[string][]string
	facts, void, epochs  int
}

func (w *watcher) verdicts(ctx context.Context) (*verdicts, error) {
	v := &verdicts{submitted: map[string]int{}, forwarded: map[string]int{}, rejected: map[string][]string{}}
	for p := range w.parts {
		reader := &watched{past: map[string]bool{}}
		err := w.conn.ReadRange(ctx, topics.Events(), int32(p), 0, -1, func(r events.Record) error {
			if r.Control {
				return nil
			}
			if !reader.accepts(&r) {
				v.void++
				return nil
			}
			v.facts++
			cause := r.Header(events.HeaderCause)
			switch events.Name(strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)) {
			case events.NameSubmitted:
				v.submitted[string(r.Key)]++
			case events.NameInputForwarded:
				v.forwarded[cause]++
			case events.NameInputRejected:
				v.rejected[cause] = append(v.rejected[cause], r.Header(events.HeaderID))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		v.epochs += reader.n
	}
	return v, nil
}

// broken returns the entries of the list that break INV12: each acknowledged submission must be one Submitted, a
// duplicate of one, or one dead letter. dead holds the facts that dead letters name.
func (v *verdicts) broken(list []sent, dead map[string]int) (faults []string) {
	wrong := func(s sent, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("submission %d, %s by %s at %d/%d: ", s.Number, s.ID, s.Way, s.To, s.Offset)+fmt.Sprintf(format, args...))
	}
	for _, s := range list {
		cause := string(events.CauseInput(events.Submissions, s.To, s.Offset))
		rejected := v.rejected[cause]
		switch s.Way {
		case bad, conflicting:
			if len(rejected) != 1 {
				wrong(s, "was rejected %d times, instead of once", len(rejected))
			} else if dead[rejected[0]] == 0 {
				wrong(s, "has no dead letter")
			}
			continue
		case misplaced:
			if v.forwarded[cause] != 1 {
				wrong(s, "has %d facts that send it home, instead of one", v.forwarded[cause])
			}
		}
		if v.submitted[s.ID] != 1 {
			wrong(s, "was accepted %d times, instead of once", v.submitted[s.ID])
		}
		if len(rejected) != 0 {
			wrong(s, "was rejected")
		}
	}
	return faults
}

// lettersByFact counts the dead letters by the fact that caused them.
func lettersByFact(c *cluster) map[string]int {
	c.t.Helper()
	of := map[string]int{}
	records(c.t, c.conn, topics.DeadSubmissions(), func(r events.Record) { of[r.Header("__dlq.errors.fact")]++ })
	return of
}

// deliveries are the IDs of a list that must end, each listed once.
func deliveries(list []sent) map[string]bool {
	ids := map[string]bool{}
	for _, s := range list {
		if s.Way != bad && s.Way != conflicting {
			ids[s.ID] = true
		}
	}
	return ids
}

// parkedRetries is how often a parked delivery is retried. An outage that lasts longer than all attempts of a step behind the pivot leaves
// the delivery to an operator.
const parkedRetries = 3

// reopen retries a parked delivery, unless that was asked for a moment ago. It returns false if it was asked for often enough.
func (k *trial) reopen(id string, asked map[string][]time.Time) bool {
	k.t.Helper()
	n := len(asked[id])
	if n > 0 && time.Since(asked[id][n-1]) < 5*time.Second {
		return true
	}
	if n == parkedRetries {
		return false
	}
	asked[id] = append(asked[id], time.Now())
	api := k.alive("api")[0]
	reason := api.settled(id).Reason
	require.Contains(k.t, reason, " attempts failed: ", "delivery %s is parked for another reason than an outage", id)
	k.t.Logf("delivery %s is retried: %s", id, reason)
	api.request(id, "retry")
	return true
}

// over waits until each acknowledged delivery has ended.
func (k *trial) over(ids map[string]bool) {
	k.t.Helper()
	open, last, begun, reported := len(ids)+1, time.Now(), time.Now(), time.Now()
	asked := map[string][]time.Time{}
	for open > 0 {
		_ = k.look()
		left := []string{}
		for id := range ids {
			switch events.Name(k.log.tasks[id]) {
			case events.NameTaskProcessed, events.NameTaskUndone:
			case events.NameTaskParked:
				if k.reopen(id, asked) {
					left = append(left, id)
				}
			default:
				left = append(left, id)
			}
		}
		if len(left) < open {
			open, last = len(left), time.Now()
		}
		k.living()
		if time.Since(last) > stalled {
			var some []string
			for _, id := range left[:min(len(left), 20)] {
				some = append(some, fmt.Sprintf("%s: %s in partition %d", id, k.log.tasks[id], events.Home(id, int32(len(k.log.parts)))))
			}
			require.FailNow(k.t, fmt.Sprintf("%d deliveries have not ended, and no further one ended for %s", open, stalled), "%s", strings.Join(some, "\n"))
		}
		if time.Since(reported) > 10*time.Second {
			reported = time.Now()
			k.t.Logf("%d of %d deliveries have not ended", open, len(ids))
		}
		after(k.t, 5*look)
	}
	k.t.Logf("each of %d deliveries has ended, %s after the recovery from the last kill", len(ids), time.Since(begun).Round(time.Millisecond))
}

// settledEffects waits until every rejection has its dead letter, since effects are sent after their facts.
func (k *trial) settledEffects(list []sent) *verdicts {
	k.t.Helper()
	var v *verdicts
	var faults []string
	ok := func() bool {
		var err error
		if v, err = k.log.verdicts(k.t.Context()); err != nil {
			faults = []string{err.Error()}
			return false
		}
		faults = v.broken(list, lettersByFact(k.cluster))
		return len(faults) == 0
	}
	for deadline := time.Now().Add(patience); !ok(); after(k.t, time.Second) {
		if time.Now().After(deadline) {
			k.sums.Disagreements += len(faults)
			k.sums.write(k.t, k.work)
			require.FailNow(k.t, fmt.Sprintf("%d acknowledged submissions are neither accepted once nor dead letters", len(faults)),
				"%s", strings.Join(faults[:min(20, len(faults))], "\n"))
		}
	}
	return v
}

// check ends a slice. It compares the acknowledged submissions, the ledgers and the stores with the log, and shows that
// each of these checks can fail.
func (k *trial) check(list []sent) findings {
	k.t.Helper()
	ids := deliveries(list)
	k.over(ids)
	v := k.settledEffects(list)
	k.t.Logf("INV12: each of %d acknowledged submissions is one Submitted, a duplicate of one, or one dead letter", len(list))
	lost := append(list[:len(list):len(list)], sent{ID: "k-0", Way: byKafka}, sent{ID: "bad-0", Way: bad, Offset: 1 << 40})
	require.Len(k.t, v.broken(lost, nil), 2+count12(list), "the check did not notice lost submissions and missing dead letters")

	path := filepath.Join(k.work, "ids")
	var text strings.Builder
	for id := range ids {
		text.WriteString(id + "\n")
	}
	require.NoError(k.t, os.WriteFile(path, []byte(text.String()), 0o600))
	code, f := k.audited(path)
	if code != 0 {
		k.sums.Disagreements += f.Disagreements
		k.sums.write(k.t, k.work)
		b, _ := json.MarshalIndent(f.First, "", " ")
		require.FailNow(k.t, fmt.Sprintf("%d disagreements, ends %v", f.Disagreements, f.Ends), "%s", b)
	}
	require.Equal(k.t, len(ids), f.Tasks)
	k.t.Logf("audit of %d deliveries: %v; %d facts and %d void records %v in %d epochs; %d calls compared; effects %v; timeouts %d, undos %d",
		f.Submitted, f.Ends, f.Log.Facts, f.Log.Records-f.Log.Facts, f.Log.Void, f.Log.Epochs, f.Lines, f.Effects, f.Log.Timeouts, f.Log.Undos)
	k.refuted(path, text.String())
	k.sums.Deliveries, k.sums.Ends = f.Submitted, f.Ends
	k.sums.Facts, k.sums.Epochs, k.sums.Void = f.Log.Facts, f.Log.Epochs, f.Log.Records-f.Log.Facts
	k.sums.Acknowledged = map[string]int{}
	for _, s := range list {
		k.sums.Acknowledged[s.Way]++
	}
	return f
}

// count12 counts the submissions that must be dead letters.
func count12(list []sent) (n int) {
	for _, s := range list {
		if s.Way == bad || s.Way == conflicting {
			n++
		}
	}
	return n
}

func (k *trial) audited(ids string, args ...string) (int, findings) {
	k.t.Helper()
	code, out, errs := output(k.t, program("dronedelivery"), append([]string{
		"audit", "--brokers", k.brokers, "--ledgers", k.fleet.dir, "--prefix", killPrefix, "--ids", ids, "--epochs",
	}, args...)...)
	var f findings
	requireJSON(k.t, []byte(out+" "), &f)
	if code != 0 {
		require.Positive(k.t, f.Disagreements, errs)
	}
	return code, f
}

// refuted shows that the audit finds a lie in a ledger, and a submission that the log lost.
func (k *trial) refuted(path, ids string) {
	k.t.Helper()
	seed := fmt.Sprint(k.sums.Slices)
	code, f := k.audited(path, "--lie", seed)
	require.Equal(k.t, 1, code, "lie %s was not found", seed)
	require.NotNil(k.t, f.Lie)
	require.True(k.t, f.Lie.Found, "%+v: %v", *f.Lie, f.First)
	require.NoError(k.t, os.WriteFile(path+".lost", []byte(ids+"k-0\n"), 0o600))
	code, lost := k.audited(path + ".lost")
	require.Equal(k.t, 1, code, "a lost submission was not found")
	require.Equal(k.t, 1, lost.Disagreements)
	k.t.Logf("refuted: a lie in a ledger (%s), and a submission that is not in the log", f.Lie.Kind)
}

// verified runs `sagalog verify` on everything: log, inputs, effects, ledgers, stores, and the list of acknowledged
// submissions. If the list contains a submission that was not acknowledged, verify must not report success.
func (k *trial) verified(list []sent) {
	k.t.Helper()
	path := filepath.Join(k.work, "acknowledged.ndjson")
	var text strings.Builder
	for _, s := range list {
		if s.Offset < 0 { // a repeat that the node recognised and did not write
			fmt.Fprintln(&text, s.ID)
			continue
		}
		fmt.Fprintf(&text, `{"id":%q,"partition":%d,"offset":%d}`+"\n", s.ID, s.To, s.Offset)
	}
	require.NoError(k.t, os.WriteFile(path, []byte(text.String()), 0o600))
	args := []string{"verify", "--brokers", k.brokers, "--ledgers", k.fleet.dir, "--at-rest"}
	for _, m := range k.owners {
		args = append(args, "--store", m.data)
	}
	code, out, errs := output(k.t, program("sagalog"), append(args, "--acknowledged", path)...)
	if code != 0 {
		k.sums.Disagreements++
		k.sums.write(k.t, k.dir)
	}
	require.Zero(k.t, code, "%s\n%s", out, errs)
	k.t.Logf("sagalog verify:\n%s", strings.TrimSpace(out))
	require.NoError(k.t, os.WriteFile(path+".lost", []byte(text.String()+"k-0\n"), 0o600))
	code, out, _ = output(k.t, program("sagalog"), append(args, "--acknowledged", path+".lost")...)
	require.Equal(k.t, 1, code, "sagalog verify did not notice a submission that is not in the log: %s", out)
}

// look reads the new records of the log. A dead broker does not block the driver.
func (k *trial) look() error {
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Second)
	defer cancel()
	err := k.log.look(ctx)
	if errors.Is(err, kafka.ErrNoRecord) {
		require.NoError(k.t, err)
	}
	return err
}
