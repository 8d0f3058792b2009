package node

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

// ownerMetrics reads what the owners say of themselves when it is scraped, so that it costs nothing while owners decide. Only partitions that
// are owned now are shown, except whether they are owned or stopped, so that sums over nodes are right.
type ownerMetrics struct {
	owners *owners
	stalls *stalls
	clocks *liveness
	// tooOld says why this build may own nothing, or nil.
	tooOld func() error

	owned, stopped, suspended, stalled, inMemory, inFlight *prometheus.Desc
	void, foreign, epochs, resent, inputs                  *prometheus.Desc
	records, bytes, oldest, waiting                        *prometheus.Desc
	blocked, offset, heldInputs, heldTasks                 *prometheus.Desc
}

func newOwnerMetrics(o *owners, stalls *stalls, clocks *liveness, tooOld func() error) *ownerMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_"+name, help, labels, nil)
	}
	return &ownerMetrics{
		owners: o, stalls: stalls, clocks: clocks, tooOld: tooOld,
		owned: desc("partition_owned", "1 while this node owns the partition.", "partition"),
		stopped: desc("partition_stopped", "1 while the partition cannot run here and needs an operator. The reason is input_lost, log, state, level, closed or other, and empty while it runs; `sagalog nodes list`, /readyz and the log say more.",
			"partition", "reason"),
		suspended: desc("owner_suspended", "1 while nothing is decided because the clock of this machine is suspect.", "partition"),
		stalled:   desc("owner_stalled_seconds", "How long nothing has been decided although inputs wait; 0 until that is too long.", "partition"),
		inMemory:  desc("owner_tasks_in_memory", "Tasks held in memory.", "partition"),
		inFlight:  desc("owner_appends_in_flight", "Appends without an answer.", "partition"),
		void:      desc("void_records_total", "Records of the log that this node's owners folded and that count for nobody: they were written after another node's claim."),
		foreign:   desc("owner_foreign_records_total", "Records of others found behind this node's facts; each ended an epoch."),
		epochs:    desc("owner_epochs_total", "Claims of this node that were accepted."),
		resent:    desc("owner_facts_resent_total", "Facts of earlier epochs whose effects were sent again."),
		inputs:    desc("inputs_total", "Inputs that this node judged, by what became of them: accepted, duplicate (it led to no fact), forwarded, held or rejected.", "topic", "result"),
		records:   desc("outbox_records", "Effects in memory that no broker has acknowledged, as of the last second.", "class"),
		bytes:     desc("outbox_bytes", "Size of the effects in memory that no broker has acknowledged, as of the last second.", "class"),
		oldest:    desc("outbox_oldest_seconds", "Age of the oldest effect that no broker has acknowledged.", "class"),
		waiting: desc("owner_oldest_effect_seconds",
			"Age of the oldest effect that no broker has acknowledged; its topic, with the partition for a forwarded input. Each delayed destination has its own.", "partition", "topic"),
		blocked:    desc("input_blocked_seconds", "How long timers have waited for records of an input that cannot be read, for example behind an open transaction.", "topic", "partition"),
		heldInputs: desc("inputs_held_for_keys", "Inputs that wait to be judged at, or behind, one whose content cannot be opened now.", "topic"),
		heldTasks:  desc("tasks_held_for_keys", "Tasks of which something waits because their content cannot be opened now."),
		offset: desc("clock_offset_seconds", "How far another clock is ahead of this node's: against broker is that of the leader of the topic presence, against log is the time of the facts in the partitions "+
			"that this node owns, 0 if it is behind.", "against"),
	}
}

// Describe implements prometheus.Collector.
func (m *ownerMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.owned, m.stopped, m.suspended, m.stalled, m.inMemory, m.inFlight, m.void, m.foreign, m.epochs, m.resent, m.inputs,
		m.records, m.bytes, m.oldest, m.waiting, m.blocked, m.offset, m.heldInputs, m.heldTasks,
	} {
		ch <- d
	}
}

// effectClasses are the kinds of effects, which are the classes of the outbox.
var effectClasses = []string{
	events.EffectWork, events.EffectReply, events.EffectAlert, events.EffectDeadLetter, events.EffectForward, events.EffectPermit, events.EffectStart, events.EffectEnd, events.EffectCancel,
}

// ownerSums are the values of all partitions together.
type ownerSums struct {
	void, foreign, epochs, resent uint64
	judged                        supervisor.PerInput[supervisor.Judged]
	effects                       map[string]supervisor.EffectClass
	unopened                      supervisor.Unopened
	// ahead is how far the log is ahead of the clock.
	ahead time.Duration
}

// Collect implements prometheus.Collector.
func (m *ownerMetrics) Collect(ch chan<- prometheus.Metric) {
	sums := ownerSums{effects: map[string]supervisor.EffectClass{}}
	for p, s := range m.owners.shells {
		status, err := s.Status()
		if old := m.tooOld(); err == nil {
			err = old
		}
		reason := stopReason(err)
		gauge(ch, m.owned, flag(m.owners.owns(int32(p))), label(int32(p)))
		gauge(ch, m.stopped, flag(err != nil), label(int32(p)), reason)
		sums.add(&status)
		if m.owners.owns(int32(p)) {
			m.partition(ch, int32(p), &status)
			sums.addOwned(&status)
		}
	}
	m.total(ch, &sums)
	if len(m.owners.shells) > 0 {
		gauge(ch, m.offset, sums.ahead.Seconds(), "log")
	}
	if offset, known := m.clocks.brokerOffset(); known {
		gauge(ch, m.offset, offset.Seconds(), "broker")
	}
}

// partition sends what concerns one partition that is owned.
func (m *ownerMetrics) partition(ch chan<- prometheus.Metric, p int32, status *supervisor.Status) {
	gauge(ch, m.suspended, flag(status.Suspended), label(p))
	gauge(ch, m.stalled, m.stalls.stalled(p).Seconds(), label(p))
	gauge(ch, m.inMemory, float64(status.InMemory), label(p))
	gauge(ch, m.inFlight, float64(status.InFlight), label(p))
	for _, in := range supervisor.Inputs() {
		blocked := 0.0
		if b := status.Blocked; b.Since != 0 && b.Input == in {
			blocked = status.Time.Sub(b.Since).Seconds()
		}
		gauge(ch, m.blocked, blocked, string(in), label(p))
	}
	seen := map[string]bool{}
	for _, o := range append(status.Delayed[:len(status.Delayed):len(status.Delayed)], status.Oldest) {
		if o.Since != 0 && !seen[o.Topic] {
			seen[o.Topic] = true
			gauge(ch, m.waiting, status.Time.Sub(o.Since).Seconds(), label(p), o.Topic)
		}
	}
}

// total sends what concerns all partitions.
func (m *ownerMetrics) total(ch chan<- prometheus.Metric, sums *ownerSums) {
	count(ch, m.void, sums.void)
	count(ch, m.foreign, sums.foreign)
	count(ch, m.epochs, sums.epochs)
	count(ch, m.resent, sums.resent)
	for i, in := range supervisor.Inputs() {
		j := &sums.judged[i]
		for result, n := range map[string]uint64{"accepted": j.Accepted, "duplicate": j.Duplicate, "forwarded": j.Forwarded, "held": j.Held, "rejected": j.Rejected} {
			count(ch, m.inputs, n, string(in), result)
		}
	}
	for i, in := range supervisor.Inputs() {
		gauge(ch, m.heldInputs, float64(sums.unopened.Inputs[i]), string(in))
	}
	gauge(ch, m.heldTasks, float64(sums.unopened.Tasks))
	now := events.At(time.Now())
	for _, kind := range effectClasses {
		c := sums.effects[kind]
		gauge(ch, m.records, float64(c.Records), kind)
		gauge(ch, m.bytes, float64(c.Bytes), kind)
		age := 0.0
		if c.Since != 0 {
			age = max(0, now.Sub(c.Since).Seconds())
		}
		gauge(ch, m.oldest, age, kind)
	}
}

func (s *ownerSums) add(status *supervisor.Status) {
	x := &status.Stats
	s.void, s.foreign, s.epochs, s.resent = s.void+x.Void, s.foreign+x.Foreign, s.epochs+x.Epochs, s.resent+x.Resent
	for i := range s.judged {
		a, b := &s.judged[i], &x.Judged[i]
		a.Accepted, a.Duplicate, a.Forwarded, a.Held, a.Rejected = a.Accepted+b.Accepted, a.Duplicate+b.Duplicate, a.Forwarded+b.Forwarded, a.Held+b.Held, a.Rejected+b.Rejected
	}
}

func (s *ownerSums) addOwned(status *supervisor.Status) {
	for _, c := range status.Effects {
		sum := s.effects[c.Kind]
		sum.Records, sum.Bytes = sum.Records+c.Records, sum.Bytes+c.Bytes
		if sum.Since == 0 || c.Since < sum.Since {
			sum.Since = c.Since
		}
		s.effects[c.Kind] = sum
	}
	for i := range s.unopened.Inputs {
		s.unopened.Inputs[i] += status.Unopened.Inputs[i]
	}
	s.unopened.Tasks += status.Unopened.Tasks
	s.ahead = max(s.ahead, status.Time.Sub(events.At(time.Now())))
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func count(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func flag(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

// stopReason is the value of the label reason for what stopped a partition; empty while it runs.
func stopReason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, events.ErrReaderTooOld):
		return events.StoppedLevel
	case errors.Is(err, supervisor.ErrClosed):
		return events.StoppedClosed
	case errors.Is(err, ErrStore), errors.Is(err, projector.ErrRead), isOfStore(err):
		return events.StoppedState
	case errors.Is(err, supervisor.ErrInputLost):
		return events.StoppedInputLost
	case errors.Is(err, supervisor.ErrFold), errors.Is(err, supervisor.ErrPosition), errors.Is(err, ErrLog), errors.Is(err, ErrGap):
		return events.StoppedLog
	}
	return events.StoppedOther
}
