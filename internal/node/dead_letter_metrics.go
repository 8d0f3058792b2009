package node

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// deadLetterMetrics shows how many dead letters nobody has dealt with. The owner of partition 0 asks the brokers for all partitions, so that a sum
// over the nodes counts each letter once.
type deadLetterMetrics struct {
	letters *deadLetters
	owners  *owners
	open    *prometheus.Desc

	mu     sync.Mutex // guards the fields below
	asked  time.Time
	ranges []api.DeadRange
}

// deadLettersAgain is how old the offsets may be.
const deadLettersAgain = 10 * time.Second

func newDeadLetterMetrics(n *Node) *deadLetterMetrics {
	return &deadLetterMetrics{letters: &deadLetters{ns: n.ns}, owners: n.owners, open: prometheus.NewDesc("sagalog_dead_letters_open", "Dead letters of an input that are neither redriven nor dismissed, at most 10 s old. "+
		"Only the owner of partition 0 shows it, and not while the brokers do not answer. A namespace remembers the latest 100,000 marks; letters whose marks were dropped count as open again until they expire, and marks from before a topic was deleted may hide its new letters.",
		[]string{"topic"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *deadLetterMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.open }

// Collect implements prometheus.Collector.
func (m *deadLetterMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.owners.owns(0) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) >= deadLettersAgain {
		m.ask()
	}
	marked := m.letters.ns.catalog.letters.markedIn(m.ranges)
	for _, in := range events.Inputs {
		n, known := int64(0), int32(0)
		for i, r := range m.ranges {
			if r.Input == in {
				n += max(0, r.End-r.Start-marked[i])
				known++
			}
		}
		if known == m.letters.ns.partitions {
			gauge(ch, m.open, float64(n), string(in))
		}
	}
}

// ask learns the offsets of the dead-letter topics.
func (m *deadLetterMetrics) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), lagWithin)
	defer cancel()
	var err error
	m.asked = time.Now()
	if m.ranges, err = m.letters.Ranges(ctx); err != nil {
		m.letters.ns.log.Debug("the number of open dead letters is not known, so its metric is absent", "error", err)
	}
}

// markedIn counts the marks of letters that are still in their topics, by range.
func (m *letterMarks) markedIn(ranges []api.DeadRange) []int64 {
	type key struct {
		input     string
		partition int32
	}
	index := make(map[key]int, len(ranges))
	for i, r := range ranges {
		index[key{string(r.Input), r.Partition}] = i
	}
	n := make([]int64, len(ranges))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for letter := range m.all {
		input, at, _ := strings.Cut(letter, "-")
		p, o, _ := strings.Cut(at, "-")
		partition, err := strconv.ParseInt(p, 10, 32)
		offset, bad := strconv.ParseInt(o, 10, 64)
		if i, ok := index[key{input, int32(partition)}]; ok && err == nil && bad == nil && offset >= ranges[i].Start && offset < ranges[i].End {
			n[i]++
		}
	}
	return n
}
