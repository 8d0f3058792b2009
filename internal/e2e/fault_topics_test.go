package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// Somebody trims, deletes, recreates or enlarges topics without the engine. The engine must repair each of these, or
// refuse to start and say what to do. It must not silently lose anything that it accepted.

// deliver completes some deliveries on a running node.
func (r *rig) deliver(e *engine, prefix string, count int) *load {
	r.t.Helper()
	l := startLoad(r.t, e, prefix, count, 0)
	l.acknowledged(r.t, patience)
	e.settled(l.id(count)) // until the projection has seen tasks, it is quiet
	e.quiet(5 * patience)
	return l
}

// Somebody deletes records of events that a stopped node has not folded.
func TestALogTrimmedPastTheCheckpointIsRefused(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	one, two := r.node("n1"), r.node("n2")
	one.start()
	r.deliver(one, "a-", 20)
	one.stop()
	before := stateHash(t, one.data, "--brokers", r.addr)
	two.start()
	r.deliver(two, "b-", 20)
	two.stop()
	r.trim(topics.Events(), 1)

	said := one.refused()
	require.Contains(t, said, "accepted facts are gone")
	require.Contains(t, said, "begins at offset")
	require.Equal(t, before, stateHash(t, one.data, "--brokers", r.addr), "the state is kept, since it may be the only copy")
	fresh := r.node("n3").refused()
	require.Contains(t, fresh, "the state here ends at offset 0")

	// The other node has folded the deleted records, but it does not know whether all their effects
	// were sent.
	two.launch()
	two.says("level=ERROR", "the partition stopped", "is outside the log")
	two.stop()
}

// Somebody deletes records of events that a running node has already folded. The node continues, and its next start
// succeeds too.
func TestALogTrimmedUnderARunningNodeGoesOn(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	two := r.node("n2")
	two.start()
	r.deliver(two, "c-", 20)
	r.trim(topics.Events(), 0)
	l := r.deliver(two, "d-", 20)
	for i := range 20 {
		require.Equal(t, "processed", two.settled(l.id(i+1)).State)
	}
	two.ready()
	two.stop()
}

// An input is trimmed to its end and the embedded broker restarts. Its offsets begin at 0 again, below the last judged
// offset.
func TestAnInputTrimmedToItsEndIsRefused(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	for _, topic := range []string{topics.Submissions(), topics.Reports()} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.node("n1")
			one.start()
			r.deliver(one, "a-", 20)
			one.stop()
			r.trim(topic, 1) // as the engine itself would do it
			r.restartBroker()
			one.start()
			r.deliver(one, "b-", 20)
			one.stop()
			ends := r.trim(topic, 0)
			r.restartBroker()
			end, err := r.conn().EndOffset(r.patiently(), topic, 0)
			require.NoError(t, err)
			require.Less(t, end, ends[0], "the fault did not occur")

			// Without the check, new submissions would now be lost silently, because they get the offsets of records
			// that were already judged.
			for p := range int32(4) {
				id := livesIn(p, 4)
				c := newClient(t, r.conn())
				require.NoError(t, c.send(r.patiently(), events.Record{Topic: topics.Submissions(), Partition: p, Key: []byte(id), Value: delivery(id, 1)}))
			}
			one.launch()
			one.says("level=ERROR", "no longer holds the record that was judged last")
			t.Logf("not ready: %s", one.unready())
			one.stop()
		})
	}
}

// livesIn returns an ID whose home is the given partition.
func livesIn(partition, partitions int32) string {
	for i := 0; ; i++ {
		if id := fmt.Sprintf("lives-%d", i); events.Home(id, partitions) == partition {
			return id
		}
	}
}

// Topics are deleted and recreated while every node is stopped.
func TestATopicRecreatedWhileStopped(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	one := r.node("n1")
	one.start()
	l := r.deliver(one, "a-", 20)
	one.stop()

	// Topics that can be recreated.
	for _, topic := range []string{topics.Work("drone"), topics.Work("package"), topics.Presence(), topics.Alerts(), topics.DeadReports(), topics.DeadSubmissions()} {
		n := int32(4)
		if topic == topics.Presence() || topic == topics.Alerts() {
			n = 1
		}
		r.recreate(topic, n)
	}
	one.start()
	r.deliver(one, "b-", 20)
	require.Equal(t, "processed", one.settled(l.id(1)).State)
	one.stop()

	// Topics that cannot be recreated. Each gets a separate broker directory, because nothing repairs the damage.
	kept := filepath.Join(r.work, "kept")
	r.broker.end()
	require.NoError(t, os.CopyFS(kept, os.DirFS(filepath.Join(r.work, "broker"))))
	for topic, says := range map[string]string{
		topics.Events(): "accepted facts are gone", topics.Definitions(): "these brokers have no namespace sagalog",
		topics.Submissions(): "", topics.Reports(): "",
	} {
		require.NoError(t, os.RemoveAll(filepath.Join(r.work, "broker")))
		require.NoError(t, os.CopyFS(filepath.Join(r.work, "broker"), os.DirFS(kept)))
		r.broker.launch()
		r.broker.ready()
		n := int32(4)
		if topic == topics.Definitions() {
			n = 1
		}
		r.recreate(topic, n)
		if says != "" {
			require.Contains(t, one.refused(), says)
		} else {
			one.launch()
			one.says("level=ERROR", "no longer holds the record that was judged last", topic[len("sagalog."):])
			one.stop()
		}
		r.broker.end()
	}
	require.NoError(t, os.RemoveAll(filepath.Join(r.work, "broker")))
	require.NoError(t, os.Rename(kept, filepath.Join(r.work, "broker")))
	r.broker.launch()
	r.broker.ready()
	one.start() // none of this has changed the node's state
	r.deliver(one, "c-", 10)
	r.sameState(one)
}

// Topics get more partitions. If a topic must have the namespace's number of partitions, the next start is refused.
// Until then every key stays in its partition.
func TestARaisedPartitionCount(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	one := r.node("n1")
	one.start()
	r.deliver(one, "a-", 20)
	adm := r.admin()
	of := append([]string{topics.Work("drone")}, baseNames()...)
	res, err := adm.CreatePartitions(r.patiently(), 3, of...)
	require.NoError(t, err)
	require.NoError(t, res.Error())
	l := r.deliver(one, "b-", 20) // while it runs
	n := 0
	records(t, r.conn(), topics.Submissions(), func(rec events.Record) {
		require.Equal(t, events.Home(string(rec.Key), 4), rec.Partition)
		n++
	})
	require.Equal(t, 40, n)
	require.Equal(t, "processed", one.settled(l.id(20)).State)
	one.stop()
	p := start(t, command{name: "enlarged", dir: one.work, program: program("sagalog"), args: append(one.args, "--data", one.data), env: one.env})
	require.Equal(t, 1, p.wait(patience))
	said := p.stderr()
	for _, topic := range baseNames() {
		require.Contains(t, said, "topic "+topic+": partitions is")
	}
	t.Logf("it says: %s", tailOf(said, 8))
}

func baseNames() (names []string) {
	for _, s := range topics.Base(4) {
		names = append(names, s.Name)
	}
	return names
}

// A topic is deleted and recreated under a running node.
func TestATopicRecreatedWhileRunning(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	for topic, n := range map[string]int32{topics.Work("drone"): 4, topics.Presence(): 1, topics.Alerts(): 1, topics.DeadSubmissions(): 4} {
		t.Run("healed/"+topic, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "--refuse", "drone=0.2")
			one := r.node("n1")
			one.start()
			l := startLoad(t, one, "a-", 60, 20)
			after(t, 500*time.Millisecond)
			begun := time.Now()
			r.recreate(topic, n)
			if topic == topics.Work("drone") { // its reader reports the change, and the process ends
				one.wait(patience)
				t.Logf("after %s it ends: %s", time.Since(begun).Round(time.Millisecond), tail(one.err, 1))
				require.Contains(t, tail(one.err, 1), "was deleted and created again: restart this process")
				one.start()
			}
			l.acknowledged(t, patience)
			one.quiet(5 * patience)
			t.Logf("%s was recreated; all deliveries had ended %s later", topic, time.Since(begun).Round(time.Millisecond))
			if topic == topics.DeadSubmissions() { // dead letters can be written again
				c := newClient(t, r.conn())
				require.NoError(t, c.send(r.patiently(), submission(0, "bad", []byte("no object"))))
				eventually(t, patience, "a dead letter is there", func() bool {
					found := 0
					records(t, r.conn(), topic, func(events.Record) { found++ })
					return found == 1
				})
			}
			one.ready()
			var args []string
			if topic == topics.Work("drone") {
				args = append(args, "--allow-missing-work") // the requests in the old topic are gone
			}
			s := l.agree(t, one, r.fleet.dir, args...)
			refused := s.Ledgers["drone"].Refused
			require.LessOrEqual(t, s.Ends["undone"], refused, "no delivery was undone because of the topic")
			if topic != topics.Work("drone") { // where a process ended, a refusal may have come before its report was sent, and then comes again
				require.Equal(t, refused, s.Ends["undone"])
			}
			r.sameState(one)
		})
	}
	for topic, n := range map[string]int32{topics.Events(): 4, topics.Submissions(): 4, topics.Reports(): 4} {
		t.Run("refused/"+topic, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one := r.node("n1")
			one.start()
			r.deliver(one, "a-", 20)
			r.recreate(topic, n)
			// From now on, no acknowledged submission may be forgotten.
			c := newClient(t, r.conn())
			for i := range 40 {
				id := fmt.Sprintf("later-%d", i)
				require.NoError(t, c.send(r.patiently(), submission(events.Home(id, 4), id, delivery(id, i))))
			}
			one.says("level=ERROR", "the partition stopped")
			t.Logf("not ready: %s", one.unready())
			one.stop()
			one.launchOrRefused()
		})
	}
}
