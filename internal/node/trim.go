package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/supervisor"
)

// trimPace is how often and how much is trimmed.
type trimPace struct {
	// every is how often the owners are asked. A request to them looks at all held requests.
	every time.Duration
	// records is how many records of a partition must be deletable, so that a busy partition is trimmed with few requests. Fewer are
	// deleted once they have been deletable for the time after.
	records int64
	after   time.Duration
}

var defaultTrimPace = trimPace{every: time.Minute, records: 10_000, after: time.Hour}

// trimSoonest is how long after its start a node looks for the first time. A process that ends again and again must trim too: without that, its
// disk would fill up, or that of its brokers.
const trimSoonest = 5 * time.Second

// trimWithin bounds the requests to the brokers of one look.
const trimWithin = 30 * time.Second

// trimmer deletes the records of inputs and of work topics that nobody needs any more. The owner of a partition says which inputs these are:
// docs/protocol.md, "Inputs are trimmed". A broker that refuses stops nothing.
type trimmer struct {
	ns     *namespace
	owners *owners
	store  *stateStore
	log    *slog.Logger
	pace   trimPace
	now    func() time.Time
	doubt  func() error

	// Owned by look. since is when something of a partition was first deletable, after it was trimmed last. refused says that the latest look
	// ended with an error, so that a refusal that lasts is logged once: its text changes with the offsets.
	since   map[place]time.Time
	refused bool

	mu sync.Mutex
	// mu guards the fields below. below are the answers of the owners, and begins is where the partitions begin.
	below    map[place]int64
	begins   map[place]int64
	refusals float64

	begin, failed *prometheus.Desc
}

func newTrimmer(n *Node) *trimmer {
	return &trimmer{
		ns: n.ns, owners: n.owners, store: n.store, log: n.cfg.Logger, pace: n.cfg.trim, now: n.cfg.Now, doubt: n.doubt(),
		since: map[place]time.Time{}, below: map[place]int64{}, begins: map[place]int64{},
		begin: prometheus.NewDesc("sagalog_input_begin_offset", "Offset of the first record that an input holds, of a partition that this node owns; the records before it are trimmed.",
			[]string{"topic", "partition"}, nil),
		failed: prometheus.NewDesc("sagalog_trim_refusals_total", "Looks at what can be trimmed that ended with an error of the brokers; the log says which.", nil, nil),
	}
}

// answer returns the function that takes the answers of the owner of a partition.
func (t *trimmer) answer(p int32) func(map[events.Input]int64) {
	return func(below map[events.Input]int64) {
		t.mu.Lock()
		defer t.mu.Unlock()
		for in, offset := range below {
			t.below[place{t.ns.topics.Input(in), p}] = offset
		}
	}
}

// look trims what the owners have answered since the last look, and asks them again. While the clock of this node is suspect, it keeps what
// may explain that.
func (t *trimmer) look(ctx context.Context) {
	if t.doubt != nil && t.doubt() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trimWithin)
	defer cancel()
	want := t.wanted()
	var err error
	if t.owners.owns(0) {
		err = t.addWork(ctx, want)
	}
	t.note(ctx, errors.Join(err, t.trim(ctx, want), t.cut(ctx)))
	for _, p := range t.owners.owned() {
		supervisor.AskToTrim(t.owners.shells[p])
	}
}

// note logs an error if the look before ended without one.
func (t *trimmer) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		t.refused = false
	case errors.Is(ctx.Err(), context.Canceled):
	default:
		t.mu.Lock()
		t.refusals++
		t.mu.Unlock()
		if !t.refused {
			t.refused = true
			t.log.Warn("records that nobody needs any more cannot be deleted; they stay, and nothing else depends on it (a cluster with ACLs must allow "+
				"Delete on the topics of the inputs, Read and Delete on those of work, and Describe on the groups of agents)", "error", err)
		}
	}
}

// wanted takes the answers about partitions that this node still owns. (An answer of an owner that was deposed since would do no harm.)
func (t *trimmer) wanted() map[place]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := t.below
	t.below = map[place]int64{}
	maps.DeleteFunc(want, func(at place, _ int64) bool { return !t.owners.owns(at.partition) })
	maps.DeleteFunc(t.begins, func(at place, _ int64) bool { return !t.owners.owns(at.partition) })
	return want
}

// trim deletes below the offsets where that is worth a request.
func (t *trimmer) trim(ctx context.Context, want map[place]int64) error {
	begins, err := t.ns.cluster.StartOffsets(ctx, partitionsOf(want))
	if err != nil {
		return err
	}
	below := kafka.Offsets{}
	for at, offset := range want {
		begin := begins[at.topic][at.partition]
		t.sees(at, begin)
		if t.due(at, offset-begin) {
			if below[at.topic] == nil {
				below[at.topic] = map[int32]int64{}
			}
			below[at.topic][at.partition] = offset
		}
	}
	begins, err = kafka.DeleteRecords(ctx, t.ns.cluster, below)
	for topic, partitions := range begins {
		for p, begin := range partitions {
			at := place{topic, p}
			delete(t.since, at)
			t.sees(at, begin)
			t.log.Debug("records that nobody needs are deleted", "topic", topic, "partition", p, "before", begin)
		}
	}
	return err
}

// due says whether records of a partition are deleted now.
func (t *trimmer) due(at place, records int64) bool {
	if records <= 0 {
		delete(t.since, at)
		return false
	}
	if _, known := t.since[at]; !known {
		t.since[at] = t.now()
	}
	return records >= t.pace.records || t.now().Sub(t.since[at]) >= t.pace.after
}

// sees takes note of where a partition begins.
func (t *trimmer) sees(at place, begin int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begins[at] = begin
}

func partitionsOf(all map[place]int64) kafka.Partitions {
	of := kafka.Partitions{}
	for at := range all {
		of[at.topic] = append(of[at.topic], at.partition)
	}
	return of
}

// Describe implements prometheus.Collector.
func (t *trimmer) Describe(ch chan<- *prometheus.Desc) {
	ch <- t.begin
	ch <- t.failed
}

// Collect implements prometheus.Collector.
func (t *trimmer) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(t.failed, prometheus.CounterValue, t.refusals)
	for _, in := range events.Inputs {
		for p := range t.ns.partitions {
			if begin, known := t.begins[place{t.ns.topics.Input(in), p}]; known && t.owners.owns(p) {
				gauge(ch, t.begin, float64(begin), string(in), label(p))
			}
		}
	}
}
