package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/sagalog/sagalog/events"
	"golang.org/x/sync/errgroup"
)

// TopicBytes says what a submitted task leaves in a topic; those of work are one.
type TopicBytes struct {
	Topic string `json:"topic"`
	// Records is the number of records per task, and Bytes the size of their keys, values and headers before compression.
	Records float64 `json:"records_per_task"`
	Bytes   float64 `json:"bytes_per_task"`
	Keys    float64 `json:"key_bytes_per_task"`
	Values  float64 `json:"value_bytes_per_task"`
	Headers float64 `json:"header_bytes_per_task"`
	// Files is the size of the files of the broker in this process, with what batches and compression add or save; 0 if unknown.
	Files float64 `json:"file_bytes_per_task,omitzero"`
	// Sampled says that the sizes are those of the last records of each partition, as if all were like these.
	Sampled bool `json:"sampled,omitzero"`
	// ByHeader are Headers by their names, the largest first. A name is part of each record.
	ByHeader []HeaderBytes `json:"by_header,omitempty"`
}

// HeaderBytes says how much the headers with one name take.
type HeaderBytes struct {
	Name string `json:"name"`
	// Names and Values are bytes per task.
	Names  float64 `json:"name_bytes_per_task"`
	Values float64 `json:"value_bytes_per_task"`
}

// topicSum adds up the records of one or several topics.
type topicSum struct {
	records, keys, values, files int64
	headers                      map[string][2]int64 // of names and values
}

func (s *topicSum) add(r *events.Record) {
	s.records++
	s.keys += int64(len(r.Key))
	s.values += int64(len(r.Value))
	for _, h := range r.Headers {
		x := s.headers[h.Key]
		s.headers[h.Key] = [2]int64{x[0] + int64(len(h.Key)), x[1] + int64(len(h.Value))}
	}
}

func (s *topicSum) merge(o *topicSum) {
	s.records, s.keys, s.values = s.records+o.records, s.keys+o.keys, s.values+o.values
	for name, x := range o.headers {
		y := s.headers[name]
		s.headers[name] = [2]int64{x[0] + y[0], x[1] + y[1]}
	}
}

// stand makes the sum stand for a number of records of the same kind.
func (s *topicSum) stand(records int64) {
	if s.records == 0 {
		return
	}
	of := func(n int64) int64 { return n * records / s.records }
	s.keys, s.values = of(s.keys), of(s.values)
	for name, x := range s.headers {
		s.headers[name] = [2]int64{of(x[0]), of(x[1])}
	}
	s.records = records
}

func newTopicSum() *topicSum { return &topicSum{headers: map[string][2]int64{}} }

// sampled is how many of the last records of each partition tell the size of all of them, unless all are read: several dozen tasks in each,
// and few enough to be read in no time.
const sampled = 500

// fillTopics says what each task left in the topics. It reads all records of them, or the last ones of each partition.
func (b *bench) fillTopics(ctx context.Context, all bool) error {
	switch {
	case b.load.sent() == 0:
		return nil
	case b.before.records > 0:
		if all {
			b.result.note("bytes by topic: left out; the topics hold records of an earlier run, and most records do not say which run wrote them")
		}
		return nil
	case all:
		fmt.Fprintln(b.cfg.Progress, "reading all topics, to count the bytes of a task")
	}
	groups := []struct {
		name   string
		topics []string
	}{{"submissions", []string{b.topics.Submissions()}}, {"events", []string{b.topics.Events()}}, {"work.*", nil}, {"reports", []string{b.topics.Reports()}}}
	for _, name := range steps {
		groups[2].topics = append(groups[2].topics, b.topics.Work(name))
	}
	for _, g := range groups {
		sum, err := b.sumOf(ctx, g.topics, all)
		if err != nil {
			return fmt.Errorf("read %s for its bytes: %w", g.name, err)
		}
		t := sum.per(g.name, int64(b.load.sent()))
		if !all {
			t.Sampled, t.ByHeader = true, nil
		}
		b.result.Topics = append(b.result.Topics, t)
	}
	return nil
}

func (b *bench) sumOf(ctx context.Context, topics []string, whole bool) (*topicSum, error) {
	all, mu := newTopicSum(), sync.Mutex{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, topic := range topics {
		all.files += b.filesOf(topic)
		for p := range b.partitions {
			g.Go(func() error {
				part, from, end := newTopicSum(), int64(0), int64(-1)
				if !whole {
					var err error
					if end, err = b.cluster.EndOffset(ctx, topic, p); err != nil || end == 0 {
						return err
					}
					from = max(0, end-sampled)
				}
				err := b.cluster.ReadRange(ctx, topic, p, from, end, func(r events.Record) error { part.add(&r); return nil })
				if !whole {
					part.stand(end)
				}
				mu.Lock()
				defer mu.Unlock()
				all.merge(part)
				return err
			})
		}
	}
	return all, g.Wait()
}

// filesOf returns the size of the files of a topic at the broker in this process.
func (b *bench) filesOf(topic string) (n int64) {
	root := b.brokerDir() + "/partitions"
	list, err := os.ReadDir(root)
	if err != nil {
		return 0 // a cluster
	}
	for _, d := range list {
		if cut := strings.LastIndexByte(d.Name(), '-'); cut > 0 && d.Name()[:cut] == topic {
			n += sizeOf(root + "/" + d.Name())
		}
	}
	return n
}

func (s *topicSum) per(topic string, tasks int64) TopicBytes {
	of := func(n int64) float64 { return round(per(float64(n), tasks), 1) }
	t := TopicBytes{Topic: topic, Records: round(per(float64(s.records), tasks), 2), Keys: of(s.keys), Values: of(s.values), Files: of(s.files)}
	var headers int64
	for name, x := range s.headers {
		headers += x[0] + x[1]
		t.ByHeader = append(t.ByHeader, HeaderBytes{name, of(x[0]), of(x[1])})
	}
	slices.SortFunc(t.ByHeader, func(a, b HeaderBytes) int {
		return cmp.Or(cmp.Compare(b.Names+b.Values, a.Names+a.Values), strings.Compare(a.Name, b.Name))
	})
	t.Headers, t.Bytes = of(headers), of(s.keys+s.values+headers)
	return t
}

// headersShown is how many headers of a topic the table shows; -o json has them all.
const headersShown = 4

func printTopics(out io.Writer, list []TopicBytes) {
	if list[0].Sampled {
		printTopicLine(out, list)
		return
	}
	fmt.Fprintln(out, "\n  bytes of a submitted task by topic; keys, values and headers before compression")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "TOPIC\tRECORDS\tBYTES\tKEYS\tVALUES\tHEADERS\tFILES\t")
	var sum TopicBytes
	row := func(t *TopicBytes) {
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", t.Topic, t.Records, t.Bytes, t.Keys, t.Values, t.Headers, t.Files)
	}
	for i := range list {
		t := &list[i]
		row(t)
		sum = TopicBytes{
			Topic: "all", Records: sum.Records + t.Records, Bytes: sum.Bytes + t.Bytes, Keys: sum.Keys + t.Keys, Values: sum.Values + t.Values,
			Headers: sum.Headers + t.Headers, Files: sum.Files + t.Files,
		}
	}
	row(&sum)
	_ = w.Flush()
	for _, t := range list {
		var largest []string
		for _, h := range t.ByHeader[:min(headersShown, len(t.ByHeader))] {
			largest = append(largest, fmt.Sprintf("%s %.0f (%.0f of them its name)", h.Name, h.Names+h.Values, h.Names))
		}
		fmt.Fprintf(out, "  headers of %s: %s\n", t.Topic, strings.Join(largest, ", "))
	}
}

func printTopicLine(out io.Writer, list []TopicBytes) {
	all, each := 0.0, make([]string, len(list))
	for i := range list {
		all += list[i].Bytes
		each[i] = fmt.Sprintf("%s %.0f", list[i].Topic, list[i].Bytes)
	}
	fmt.Fprintf(out, "\n  bytes of a submitted task before compression: %.0f (%s); --bytes says more\n", all, strings.Join(each, ", "))
}
