package node

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

const (
	// transactionsEvery is how often a node looks for open transactions. They matter once they are a minute old.
	transactionsEvery = 10 * time.Second
	// transactionsWithin bounds a look.
	transactionsWithin = 5 * time.Second
	// hangsAfter is how long a transaction may be open. Most producers let the brokers abort it after a minute.
	hangsAfter = time.Minute
	// hangsAgain is how often the log says so.
	hangsAgain = 10 * time.Minute
)

// openTransactions notices transactions that a producer neither commits nor aborts, in the topics of the partitions that this node owns. Readers of
// committed records stop in front of them: the owner, whether or not anything waits for its inputs, and other readers of the log.
type openTransactions struct {
	cluster *kafka.Cluster
	brokers []string
	owned   func() []int32
	topics  kafka.Topics
	log     *slog.Logger
	seconds *prometheus.Desc

	// mu guards seen.
	mu   sync.Mutex
	seen map[place]*seenTransaction
}

// seenTransaction is a transaction that was open at the latest look for which the brokers answered.
type seenTransaction struct {
	kafka.OpenTransaction
	// since is when it was seen first. The time of its first record says little: a producer may have copied it from an event, or have a wrong clock.
	since time.Time
	// looks counts the looks that found it.
	looks  int
	warned time.Time
}

func newOpenTransactions(n *Node) *openTransactions {
	return &openTransactions{
		cluster: n.cfg.Cluster, brokers: n.cfg.Cluster.Brokers(), owned: n.owners.owned, topics: n.ns.topics, log: n.cfg.Logger, seen: map[place]*seenTransaction{},
		seconds: prometheus.NewDesc("sagalog_open_transaction_seconds", "For how long a transaction has been open in a topic of the partitions that this node owns. Absent until two checks, ten seconds apart, have found it.",
			[]string{"topic", "partition"}, nil),
	}
}

// look asks the brokers.
func (o *openTransactions) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, transactionsWithin)
	defer cancel()
	of := kafka.Partitions{}
	for _, p := range o.owned() {
		for _, topic := range []string{o.topics.Submissions(), o.topics.Reports(), o.topics.Events()} {
			of[topic] = append(of[topic], p)
		}
		if p == 0 {
			of[o.topics.Definitions()] = []int32{0}
		}
	}
	open, asked, err := kafka.OpenTransactions(ctx, o.cluster, of)
	if err != nil {
		o.log.Debug("open transactions are not known of all partitions", "error", err)
	}
	for i := range open {
		if !o.knows(open[i]) {
			open[i].At = kafka.TransactionBegun(ctx, o.cluster, open[i])
		}
	}
	o.judge(of, open, asked, time.Now())
}

func (o *openTransactions) knows(x kafka.OpenTransaction) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.seen[place{x.Topic, x.Partition}]
	return s != nil && s.Offset == x.Offset
}

// judge takes the answers of a look. What is known of a partition for which the brokers did not answer stays as it is: its transaction may have ended or not, and
// the next answer says which, since no other begins at the same offset.
func (o *openTransactions) judge(of kafka.Partitions, open []kafka.OpenTransaction, asked kafka.Offsets, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wanted := map[place]bool{}
	for topic, partitions := range of {
		for _, p := range partitions {
			wanted[place{topic, p}] = true
		}
	}
	still := map[place]bool{}
	for _, x := range open {
		at := place{strings.Clone(x.Topic), x.Partition}
		still[at] = true
		s := o.seen[at]
		if s == nil || s.Offset != x.Offset {
			s = &seenTransaction{OpenTransaction: x, since: now}
			o.seen[at] = s
		}
		if s.looks++; s.looks > 1 && now.Sub(s.since) > hangsAfter && now.Sub(s.warned) > hangsAgain {
			s.warned = now
			o.log.Warn("a producer has left a transaction open, so nobody reads what is behind it; abort it", "topic", x.Topic, "partition", x.Partition, "offset", x.Offset,
				"since", events.At(s.since), "first_record", s.At, "command", x.AbortCommand(o.brokers))
		}
	}
	for at := range o.seen {
		if _, answered := asked[at.topic][at.partition]; !wanted[at] || answered && !still[at] {
			delete(o.seen, at)
		}
	}
}

// Describe implements prometheus.Collector.
func (o *openTransactions) Describe(ch chan<- *prometheus.Desc) { ch <- o.seconds }

// Collect implements prometheus.Collector.
func (o *openTransactions) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, s := range o.seen {
		if s.looks > 1 {
			gauge(ch, o.seconds, time.Since(s.since).Seconds(), strings.TrimPrefix(at.topic, o.topics.Namespace+"."), label(at.partition))
		}
	}
}
