package projector

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// rejectionKept is how long a rejection can be looked up, in the time of the log: a token is used within seconds, and an hour
	// outlasts a backlog and the retries of a client.
	rejectionKept = time.Hour
	// rejectionSweep bounds how many expired rows a commit deletes, besides two for each that it adds: a burst of rejections does
	// not cause a long commit an hour later, and the number of rows still falls.
	rejectionSweep = 64
)

var rejectionInputs = [...]events.Input{events.Submissions, events.Reports}

// rejectionRows is what a partition remembers of its rejection rows between commits, so that most commits do not read any.
type rejectionRows struct {
	// known says that oldest is known; it is not when the store was just opened.
	known bool
	// oldest is the instant of the oldest row, or zero if there are no rows.
	oldest events.Instant
	// from is, for each of rejectionInputs, the lowest offset that may have a row. Without it, a sweep would read over all
	// rows that earlier ones have deleted.
	from [len(rejectionInputs)]int64
}

// seen counts a row of that instant; zero stands for no row.
func (r *rejectionRows) seen(at events.Instant) {
	if at != 0 && (r.oldest == 0 || at < r.oldest) {
		r.oldest = at
	}
}

func (r *rejectionRows) added(row *events.Rejection) {
	if i := slices.Index(rejectionInputs[:], row.Input); i >= 0 {
		r.from[i] = min(r.from[i], row.Offset)
	}
	r.seen(row.At)
}

func rejectionKey(dst []byte, partition int32, in events.Input, offset int64) []byte {
	return appendInt(appendText(appendRow(dst, partition, rowRejection), string(in)), offset)
}

func readRejection(value []byte) (fact int64, at events.Instant, ok bool) {
	if len(value) != 2*intSize {
		return 0, 0, false
	}
	return readInt(value), events.Instant(readInt(value[intSize:])), true
}

// rejections writes the rows of a delta, and deletes some that have expired.
func (w *writer) rejections(c *change, d *events.Delta) error {
	before := d.Time.Add(-rejectionKept)
	if !c.rejections.known || (c.rejections.oldest != 0 && c.rejections.oldest < before) {
		if err := w.expire(c, d.Partition, before, rejectionSweep+2*len(d.Rejected)); err != nil {
			return fmt.Errorf("expire rejections: %w", err)
		}
	}
	for i := range d.Rejected {
		r := &d.Rejected[i]
		w.key = rejectionKey(w.key[:0], d.Partition, r.Input, r.Offset)
		w.value = appendInt(appendInt(w.value[:0], r.Fact), int64(r.At))
		if err := w.batch.Set(w.key, w.value, nil); err != nil {
			return err
		}
		c.rejections.added(r)
		if c.freshRejection == 0 {
			c.freshRejection = r.At
		}
	}
	return nil
}

// expire deletes at most limit rows. It does not see those that this batch adds.
func (w *writer) expire(c *change, partition int32, before events.Instant, limit int) error {
	left := rejectionRows{known: true, from: c.rejections.from}
	left.seen(c.freshRejection)
	for i, in := range rejectionInputs {
		until := prefixEnd(appendText(appendRow(nil, partition, rowRejection), string(in)))
		it, err := c.p.store.iterate(rejectionKey(nil, partition, in, left.from[i]), until)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			_, at, fine := readRejection(it.Value())
			if fine && (at >= before || limit == 0) {
				left.seen(at)
				break
			}
			limit = max(limit-1, 0)
			left.from[i] = readInt(it.Key()[len(it.Key())-intSize:]) + 1
			if err := w.batch.Delete(it.Key(), nil); err != nil {
				return errors.Join(err, it.Close())
			}
		}
		if err := closeIter(it); err != nil {
			return err
		}
	}
	c.rejections = left
	return nil
}

// Rejection returns the offset of the fact that rejected the input of a partition at that offset, if that was within the
// last hour.
func (s *Store) Rejection(partition int32, in events.Input, offset int64) (fact int64, found bool, err error) {
	found, err = lookup(s.db, rejectionKey(nil, partition, in, offset), func(value []byte) error {
		var ok bool
		if fact, _, ok = readRejection(value); !ok {
			return fmt.Errorf("%w: the rejection row of offset %d", ErrDamaged, offset)
		}
		return nil
	})
	return fact, found, err
}
