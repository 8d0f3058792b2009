package past

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"golang.org/x/sync/errgroup"
)

// Moment is when the past is looked at: an instant, or a fact.
type Moment struct {
	// Time is the instant; of a fact, zero.
	Time events.Instant
	// Fact says that the past is looked at after the fact at Partition and Offset, or before it.
	Fact      bool
	Partition int32
	Offset    int64
	Before    bool
}

// Parse reads an instant, a duration before now, or the place of a fact, such as 3@1207.
func Parse(text string, now time.Time) (Moment, error) {
	if p, o, place := strings.Cut(text, "@"); place {
		partition, errP := strconv.ParseInt(p, 10, 32)
		offset, errO := strconv.ParseInt(o, 10, 64)
		if errP != nil || errO != nil || partition < 0 || offset < 0 {
			return Moment{}, fmt.Errorf("%q is not the place of a fact: PARTITION@OFFSET, such as 3@1207", text)
		}
		return Moment{Fact: true, Partition: int32(partition), Offset: offset}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 && !strings.HasPrefix(text, "+") {
		return Moment{Time: events.At(now.Add(-d))}, nil
	}
	at, err := events.ParseInstant(text)
	if err != nil || at <= 0 {
		return Moment{}, fmt.Errorf("%q is neither an instant such as 2026-11-29T14:00:00Z, nor a duration before now such as 10m, nor the place of a fact such as 3@1207", text)
	}
	if at > events.At(now) {
		return Moment{}, fmt.Errorf("%s is in the future", at)
	}
	return Moment{Time: at}, nil
}

// Cut is where the topics of a namespace were at a moment.
type Cut struct {
	// Time is the moment. Of a fact it is the fact's time.
	Time events.Instant
	// Begins and Ends are the first offset that a partition still holds, and the one after the last that belongs to the past.
	Begins, Ends kafka.Offsets
}

// ErrBeforeLog says that the log no longer holds the moment.
var ErrBeforeLog = errors.New("the log no longer holds that moment")

// Resolve finds the place of each partition at a moment: behind the last record whose time is not later. The partition of a fact is cut at the fact,
// and the others at its time.
func Resolve(ctx context.Context, c *kafka.Cluster, topics kafka.Topics, partitions int32, m Moment) (Cut, error) {
	log := all(topics.Events(), partitions)
	begins, err := c.StartOffsets(ctx, log)
	if err != nil {
		return Cut{}, err
	}
	if m.Fact {
		if m.Partition >= partitions {
			return Cut{}, fmt.Errorf("there is no partition %d: the namespace has %d partitions, numbered from 0", m.Partition, partitions)
		}
		if m.Offset < begins[topics.Events()][m.Partition] {
			return Cut{}, fmt.Errorf("%w: partition %d begins at %d@%d", ErrBeforeLog, m.Partition, m.Partition, begins[topics.Events()][m.Partition])
		}
		r, err := c.ReadAt(ctx, topics.Events(), m.Partition, m.Offset)
		if err != nil {
			return Cut{}, fmt.Errorf("read the fact %d@%d: %w", m.Partition, m.Offset, err)
		}
		f, err := events.DecodeFact(&r)
		if err != nil {
			return Cut{}, fmt.Errorf("read the fact %d@%d: %w", m.Partition, m.Offset, err)
		}
		m.Time = f.Time
	}
	cut := Cut{Time: m.Time, Begins: begins}
	of := kafka.Partitions{topics.Definitions(): {0}}
	for _, topic := range []string{topics.Events(), topics.DeadSubmissions(), topics.DeadReports()} {
		of[topic] = all(topic, partitions)[topic]
	}
	delete(of, topics.Events())
	rest, err := c.StartOffsets(ctx, of)
	if err != nil {
		return Cut{}, err
	}
	for topic, offsets := range rest {
		cut.Begins[topic] = offsets
	}
	of[topics.Events()] = log[topics.Events()]
	if cut.Ends, err = kafka.OffsetsAfter(ctx, c, of, int64(cut.Time)); err != nil {
		return Cut{}, err
	}
	if err := cut.passAll(ctx, c, topics.Events(), partitions); err != nil {
		return Cut{}, err
	}
	if m.Fact {
		end := m.Offset + 1
		if m.Before {
			end = m.Offset
		}
		cut.Ends[topics.Events()][m.Partition] = end
	}
	return cut, cut.held(ctx, c, topics)
}

// asked bounds the partitions that are asked at the same time.
const asked = 16

func (x *Cut) passAll(ctx context.Context, c *kafka.Cluster, topic string, partitions int32) error {
	ends := make([]int64, partitions)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asked)
	for p := range partitions {
		g.Go(func() (err error) {
			ends[p], err = x.passDecided(ctx, c, topic, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for p, end := range ends {
		x.Ends[topic][int32(p)] = end
	}
	return nil
}

// passDecided moves the end of a partition past the facts that were decided by then, and reached the broker a moment later: its index knows the times
// of appends, and everything else those of decisions.
func (x *Cut) passDecided(ctx context.Context, c *kafka.Cluster, topic string, p int32) (int64, error) {
	end := x.Ends[topic][p]
	err := c.ReadRange(ctx, topic, p, end, -1, func(r events.Record) error {
		if !r.Control {
			f, err := events.DecodeFact(&r)
			if err != nil || f.Time > x.Time {
				return errPassed
			}
		}
		end = r.Offset + 1
		return nil
	})
	if errors.Is(err, errPassed) {
		return end, nil
	}
	return end, err
}

var errPassed = errors.New("a fact that was decided later")

// held refuses a moment before the first facts that the log still holds.
func (x *Cut) held(ctx context.Context, c *kafka.Cluster, topics kafka.Topics) error {
	var begin events.Instant
	for p, first := range x.Begins[topics.Events()] {
		if first == 0 || x.Ends[topics.Events()][p] > first {
			continue
		}
		r, err := c.ReadAt(ctx, topics.Events(), p, first)
		if errors.As(err, new(*kafka.OutOfRangeError)) {
			continue // an empty partition
		}
		if err != nil {
			return err
		}
		begin = max(begin, r.Timestamp)
	}
	if begin != 0 {
		return fmt.Errorf("%w: it was cut (keep_log), and has all facts only from %s on; ask for a later moment", ErrBeforeLog, begin)
	}
	return nil
}

// Namespace is the namespace of a log.
func Namespace(ctx context.Context, c *kafka.Cluster, name string) (id string, partitions int32, err error) {
	ns, err := node.ReadNamespace(ctx, c, name)
	return ns.ID, ns.Partitions, err
}

func all(topic string, partitions int32) kafka.Partitions {
	of := kafka.Partitions{topic: nil}
	for p := range partitions {
		of[topic] = append(of[topic], p)
	}
	return of
}
