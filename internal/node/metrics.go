package node

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// ownerMetrics reads the owners' counters when it is scraped, so that they cost nothing while owners decide.
type ownerMetrics struct {
	owners *owners
	stalls *stalls
	// tooOld says why this build may own nothing, or nil.
	tooOld func() error

	owning, stopped, suspended, stalled          *prometheus.Desc
	inMemory, inFlight, unsent                   *prometheus.Desc
	facts, void, passed, epochs, resent, timeout *prometheus.Desc
	oldest, blocked                              *prometheus.Desc
}

func newOwnerMetrics(o *owners, stalls *stalls, tooOld func() error) *ownerMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("sagalog_owner_"+name, help, []string{"partition"}, nil)
	}
	return &ownerMetrics{
		owners: o, stalls: stalls, tooOld: tooOld,
		owning: desc("owning", "1 while this node owns the partition."),
		stopped: prometheus.NewDesc("sagalog_owner_stopped",
			"1 while the partition cannot run here and needs an operator. The reason is input_lost, log, level or other; /readyz and the log say more.", []string{"partition", "reason"}, nil),
		suspended: desc("suspended", "1 while nothing is decided because the clock of this machine is suspect."),
		stalled:   desc("stalled_seconds", "How long nothing has been decided although inputs wait; 0 until that is too long."),
		inMemory:  desc("tasks_in_memory", "Tasks held in memory."),
		inFlight:  desc("appends_in_flight", "Appends without an answer."),
		unsent:    desc("facts_above_watermark", "Facts whose effects are not all acknowledged."),
		facts:     desc("facts_total", "Facts decided by this node."),
		void:      desc("foreign_records_total", "Records of others found behind this node's facts; each ended an epoch."),
		passed:    desc("inputs_passed_total", "Inputs judged without a fact, such as repeats."),
		epochs:    desc("epochs_total", "Claims of this node that were accepted."),
		resent:    desc("facts_resent_total", "Facts of earlier epochs whose effects were sent again."),
		timeout:   desc("timeouts_total", "Attempts whose complete-by time passed without a report."),
		oldest: prometheus.NewDesc("sagalog_owner_oldest_effect_seconds",
			"Age of the oldest effect that no broker has acknowledged; its topic, with the partition for a forwarded input. Each delayed destination has its own.", []string{"partition", "topic"}, nil),
		blocked: prometheus.NewDesc("sagalog_owner_input_blocked_seconds",
			"How long timers have waited for records of an input that cannot be read, for example behind an open transaction.", []string{"partition", "topic"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *ownerMetrics) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(m, ch)
	ch <- m.oldest // which exists only while a topic takes nothing
	ch <- m.blocked
}

// Collect implements prometheus.Collector.
func (m *ownerMetrics) Collect(ch chan<- prometheus.Metric) {
	for p, s := range m.owners.shells {
		status, err := s.Status()
		err = cmp.Or(err, m.tooOld())
		stats := status.Stats
		label := strconv.Itoa(p)
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
		}
		count := func(d *prometheus.Desc, v uint64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label)
		}
		flag := map[bool]float64{true: 1}
		gauge(m.owning, flag[status.Owning])
		ch <- prometheus.MustNewConstMetric(m.stopped, prometheus.GaugeValue, flag[err != nil], label, stopReason(err))
		gauge(m.suspended, flag[status.Suspended])
		gauge(m.stalled, m.stalls.stalled(int32(p)).Seconds())
		gauge(m.inMemory, float64(status.InMemory))
		gauge(m.inFlight, float64(status.InFlight))
		gauge(m.unsent, float64(status.Unsent))
		count(m.facts, stats.Facts)
		count(m.void, stats.Void)
		count(m.passed, stats.Passed)
		count(m.epochs, stats.Epochs)
		count(m.resent, stats.Resent)
		count(m.timeout, stats.Timeouts)
		if b := status.Blocked; b.Since != 0 {
			ch <- prometheus.MustNewConstMetric(m.blocked, prometheus.GaugeValue, status.Time.Sub(b.Since).Seconds(), label, string(b.Input))
		}
		waiting := status.Delayed
		if o := status.Oldest; o.Since != 0 && !slices.Contains(waiting, o) {
			waiting = append(slices.Clip(waiting), o)
		}
		for _, o := range waiting {
			ch <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, status.Time.Sub(o.Since).Seconds(), label, o.Topic)
		}
	}
}

// stopReason is the value of the label reason for what stopped a partition; empty while it runs.
func stopReason(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, supervisor.ErrInputLost):
		return "input_lost"
	case errors.Is(err, events.ErrReaderTooOld):
		return "level"
	case errors.Is(err, supervisor.ErrFold), errors.Is(err, supervisor.ErrPosition):
		return "log"
	}
	return "other"
}
