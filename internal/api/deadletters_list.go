package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// deadPageBytes bounds the values of one page, so that a list of rejected half-megabyte inputs does not become a download. mostChunk bounds
// the offsets of a partition that are read at once; a chunk grows only as long as it holds less than chunkBytes.
const (
	deadPageBytes = 4 << 20
	mostChunk     = 500
	chunkBytes    = 1 << 20
)

// deadRoom bounds what is read for a page: a page reads no further chunks once it has read that much.
type deadRoom struct{ records, bytes int }

// deadPageRoom is for lists, and deadKeyRoom for a look by key: each command that asks for a task that is not known makes one, so it takes only
// what a broker gives within milliseconds.
var (
	deadPageRoom = deadRoom{10_000, 32 << 20}
	deadKeyRoom  = deadRoom{2_000, 4 << 20}
)

// deadWithin is how long a partition of a dead-letter topic may take, so that the others are answered.
const deadWithin = 3 * time.Second

// deadTail is the end of one partition of a dead-letter topic, walked backwards.
type deadTail struct {
	DeadRange
	// size is how many offsets the next chunk has.
	size int64
	// chunk holds records below End that were read and are not in a page yet, newest last.
	chunk []events.Record
	// away says that the brokers do not answer for the partition.
	away bool
	// records and bytes count what was read for the page, and last is how many bytes the latest chunk had.
	records, bytes, last int
}

// grow makes the next chunk larger, up to a number of offsets.
func (t *deadTail) grow(most int64) {
	if t.last < chunkBytes {
		t.size = max(t.size, min(2*t.size, most))
	}
}

// spent says whether a page has read all that it may.
func (room deadRoom) spent(tails []*deadTail) bool {
	for _, t := range tails {
		room.records -= t.records
		room.bytes -= t.bytes
	}
	return room.records <= 0 || room.bytes <= 0
}

// fromItsEnd is the offset in a cursor of a partition that was away when the walk began.
const fromItsEnd = -1

// left says whether the partition may hold more.
func (t *deadTail) left() bool { return t.End > t.Start || t.End == fromItsEnd }

// list merges all partitions.
func (s *deadLetters) list(ctx context.Context, in *DeadLetterQuery) (*DeadLettersAnswer, error) {
	tails, err := s.tails(ctx, in.Cursor)
	if err != nil {
		return nil, err
	}
	return s.merged(ctx, in, tails)
}

// merged merges the ends of partitions by time, newest first. The cursor holds, for each partition, the offset below which the next page
// continues, so records that arrive meanwhile do not affect it.
func (s *deadLetters) merged(ctx context.Context, in *DeadLetterQuery, tails []*deadTail) (*DeadLettersAnswer, error) {
	limit := int(in.Limit)
	// Small chunks: most partitions have only a few records on a page.
	chunk := int64(limit/max(1, len(tails)) + 4)
	out := &DeadLettersAnswer{}
	out.Body.DeadLetters = []DeadLetterDocument{}
	size, looked, room := 0, 0, deadPageRoom
	if in.Key != "" {
		room = deadKeyRoom
	}
	most := min(mostChunk, int64(room.records/max(1, len(tails))))
	for _, t := range tails {
		t.size = chunk
	}
	for ; len(out.Body.DeadLetters) < limit && size < deadPageBytes; looked++ {
		if looked > 0 && room.spent(tails) && slices.ContainsFunc(tails, (*deadTail).empty) {
			break
		}
		newest, err := s.newestTail(ctx, tails)
		if err != nil {
			return nil, s.log.internal(ctx, "read dead letters", err)
		}
		if newest == nil {
			break
		}
		r := newest.chunk[len(newest.chunk)-1]
		newest.chunk = newest.chunk[:len(newest.chunk)-1]
		newest.End = r.Offset
		d := s.document(deadRef{newest.Input, newest.Partition, r.Offset}, &r)
		if in.Open && d.Mark != nil || in.Reason != "" && in.Reason != d.Reason || in.Key != "" && in.Key != d.Key {
			newest.grow(most) // a filter passes over many
			continue
		}
		size += len(r.Value)
		out.Body.DeadLetters = append(out.Body.DeadLetters, d)
	}
	read := false
	for _, t := range tails {
		if t.away && t.left() {
			out.Body.Missing = append(out.Body.Missing, MissingPartition{Partition: t.Partition, Input: string(t.Input), Reason: codeUnavailable})
		}
		read = read || !t.away
	}
	if looked == 0 && len(out.Body.Missing) > 0 && (in.Cursor != "" || !read) {
		return nil, s.log.internal(ctx, "read dead letters", ErrNoAnswer)
	}
	if slices.ContainsFunc(tails, (*deadTail).left) {
		out.Body.Next = deadCursor(tails)
	}
	return out, nil
}

// tails returns where a cursor's page begins in each partition.
func (s *deadLetters) tails(ctx context.Context, cursor string) ([]*deadTail, error) {
	within, cancel := context.WithTimeout(ctx, deadWithin)
	defer cancel()
	ranges, err := s.letters.Ranges(within)
	if err != nil {
		return nil, s.log.internal(ctx, "list dead letters", err)
	}
	ends, ok := parseDeadCursor(cursor)
	if !ok {
		return nil, parameterProblem("cursor", "is not a cursor of this list")
	}
	var tails []*deadTail
	for _, in := range events.Inputs {
		for p := range s.cfg.Partitions {
			t := &deadTail{DeadRange: DeadRange{Input: in, Partition: p, End: fromItsEnd}, away: true}
			if i := slices.IndexFunc(ranges, func(r DeadRange) bool { return r.Input == in && r.Partition == p }); i >= 0 {
				t.DeadRange, t.away = ranges[i], false
			}
			if cursor != "" {
				t.begin(ends[string(in)])
			}
			tails = append(tails, t)
		}
	}
	return tails, nil
}

// begin moves the tail to its place in the cursor.
func (t *deadTail) begin(ends []int64) {
	switch {
	case int(t.Partition) >= len(ends):
		t.End = t.Start // it did not exist when the walk began
	case ends[t.Partition] == fromItsEnd:
	case t.away:
		t.End = ends[t.Partition]
	default:
		t.End = max(t.Start, min(t.End, ends[t.Partition]))
	}
}

// newestTail returns the partition whose last record is the newest of all, or nil if no records are left.
func (s *deadLetters) newestTail(ctx context.Context, tails []*deadTail) (*deadTail, error) {
	if err := s.readChunks(ctx, tails); err != nil {
		return nil, err
	}
	var newest *deadTail
	for _, t := range tails {
		if len(t.chunk) == 0 {
			continue
		}
		if newest == nil || t.chunk[len(t.chunk)-1].Timestamp > newest.chunk[len(newest.chunk)-1].Timestamp {
			newest = t
		}
	}
	return newest, nil
}

// readChunks reads the next chunk of each partition that has none. It reads all at once, so that brokers that do not answer delay
// the page only once.
func (s *deadLetters) readChunks(ctx context.Context, tails []*deadTail) error {
	ctx, cancel := context.WithTimeout(ctx, deadWithin)
	defer cancel()
	errs := make([]error, len(tails))
	var wait sync.WaitGroup
	for i, t := range tails {
		if t.empty() {
			wait.Go(func() { errs[i] = s.readChunk(ctx, t) })
		}
	}
	wait.Wait()
	for i, err := range errs {
		if errors.Is(err, ErrNoAnswer) {
			tails[i].away, errs[i] = true, nil
		}
	}
	return errors.Join(errs...)
}

// empty says that the next chunk must be read before it is known which record is the newest.
func (t *deadTail) empty() bool { return len(t.chunk) == 0 && !t.away && t.left() }

// readChunk reads the next chunk backwards, past ranges without records.
func (s *deadLetters) readChunk(ctx context.Context, t *deadTail) error {
	for len(t.chunk) == 0 && t.End > t.Start {
		from := max(t.Start, t.End-t.size)
		list, err := s.letters.Read(ctx, t.Input, t.Partition, from, t.End)
		if err != nil {
			return err
		}
		t.last = 0
		for _, r := range list {
			if !r.Control {
				t.chunk = append(t.chunk, r)
				t.last += len(r.Value)
			}
		}
		t.records += len(list)
		t.bytes += t.last
		if len(t.chunk) == 0 {
			t.End = from
		}
	}
	return nil
}

func parseDeadCursor(cursor string) (ends map[string][]int64, ok bool) {
	if cursor == "" {
		return nil, true
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(b, &ends) != nil {
		return nil, false
	}
	return ends, true
}

func deadCursor(tails []*deadTail) string {
	ends := map[string][]int64{}
	for _, t := range tails {
		list := ends[string(t.Input)]
		for int(t.Partition) >= len(list) {
			list = append(list, 0)
		}
		list[t.Partition] = t.End
		ends[string(t.Input)] = list
	}
	return base64.RawURLEncoding.EncodeToString(encode(ends))
}
