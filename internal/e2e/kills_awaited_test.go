package e2e

import (
	"time"
)

// outageEvery is the number of take-overs between two outages of a broker.
const outageEvery = 3

// warmWithin is the maximum age of the last fact of a partition under load. A busy machine may not get there, and then the
// measured take-over is less exact.
const (
	warmWithin = 700 * time.Millisecond
	warmTries  = 10 * time.Second
)

// awaited kills owners on a Kafka of three brokers, and waits for each takeover.
type awaited struct {
	*trial
	// deaths are the owners' deaths while everything else was alive; disturbed are the deaths while a broker was away.
	deaths, disturbed []death
}

// pointsAwaited are the points at which an owner dies in this test, alternating with random moments.
var pointsAwaited = []string{"", "append-sent", "", "facts-durable", "", "committed", "", "work-sent", "", "timeout-decided", "", "input-read"}

// takeover kills an owner, waits until the other one has written facts in all its partitions, and starts it again.
func (w *awaited) takeover() {
	w.t.Helper()
	w.warm()
	m := w.owner()
	point := pointsAwaited[len(w.deaths)%len(pointsAwaited)]
	w.deaths = append(w.deaths, w.dead(m, point))
	w.taken(m)
	w.t.Logf("%3d takeovers; the last one of %s %s", len(w.deaths), m.name, point)
	w.restart(0, m)
	m.ready()
	w.even(patience)
	w.sums.write(w.t, w.dir)
}

// warm waits until facts are written in every partition, so that the last fact of an epoch shows when its owner died.
func (w *awaited) warm() {
	w.t.Helper()
	begun := time.Now()
	eventually(w.t, recoverWithin, "facts are written in every partition", func() bool {
		_ = w.look()
		oldest := time.Now().Add(-warmWithin)
		if !full && time.Since(begun) > warmTries {
			oldest = begun
		}
		for _, p := range w.log.parts {
			if at, err := time.Parse(time.RFC3339, p.at); err != nil || at.Before(oldest) || p.seq == 0 {
				return false
			}
		}
		return true
	})
}

// dead kills an owner, at a named point if there is one.
func (w *awaited) dead(m *member, point string) death {
	w.t.Helper()
	if point == "" {
		w.wait(0, 200*time.Millisecond)
		w.sums.Kinds["owner"]++
	} else {
		w.aim(m, point)
		w.sums.aim(point, w.waitDeath(m))
		w.sums.Kinds[point]++
	}
	_ = w.look()
	m.kill()
	w.died("owner")
	return death{m.name, time.Now()}
}

// taken waits until each partition of the dead owner has a new owner that has written a fact.
func (w *awaited) taken(m *member) {
	w.t.Helper()
	eventually(w.t, recoverWithin, "the partitions of "+m.name+" are taken over", func() bool {
		_ = w.look()
		for _, p := range w.log.parts {
			if p.owner == m.name || p.seq == 0 {
				return false
			}
		}
		return true
	})
}

// The kinds of broker outage, in turn. A clean stop hands over the broker's partition leaders, so it moves them.
const (
	brokerKilled  = "broker killed"
	brokerStopped = "broker stopped, its leaders moved"
)

// outage takes a broker down, by kill -9 or cleanly. Every second time of each kind, an owner dies meanwhile.
func (w *awaited) outage() {
	w.t.Helper()
	n, begun := 1+w.r.IntN(3), time.Now()
	turn := w.sums.Kinds[brokerKilled] + w.sums.Kinds[brokerStopped]
	what := brokerKilled
	if turn%2 == 0 {
		w.kafka.Kill(n)
		w.died("broker")
	} else {
		what = brokerStopped
		w.kafka.Stop(n)
	}
	var victim *member
	if turn%4 >= 2 {
		victim = w.owner()
		w.disturbed = append(w.disturbed, w.dead(victim, ""))
		w.taken(victim)
	}
	w.wait(0, 3*time.Second)
	w.kafka.Start(n)
	w.kafka.AwaitInSync()
	if victim != nil {
		w.restart(0, victim)
		victim.ready()
	}
	w.even(patience)
	w.sums.Kinds[what]++
	w.sums.recovered(inSync+what, time.Since(begun))
}

// measured adds this slice's take-overs, which it finds in the log.
func (w *awaited) measured(f findings) {
	w.t.Helper()
	pure := f.takeovers(w.deaths)
	report(w.cluster, pure)
	for _, t := range pure {
		w.sums.recovered("takeover, last fact to first fact", t.gap())
	}
	for _, t := range f.takeovers(w.disturbed) {
		w.sums.recovered(disturbed, t.gap())
	}
}
