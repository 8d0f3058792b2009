package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// deadPageBytes bounds the values of one page, so that a list of rejected half-megabyte inputs does not become a
// download.
const deadPageBytes = 4 << 20

// deadTail is the end of one partition of a dead-letter topic, walked backwards.
type deadTail struct {
	DeadRange
	// chunk holds records below End that were read and are not yet in a page, the newest last.
	chunk []events.Record
}

// list merges the partitions by time, the newest first. The cursor is, for each partition, the offset below
// which the next page continues; so records that arrive meanwhile do not affect it.
func (s *deadLetters) list(ctx context.Context, in *DeadLetterQuery) (*DeadLettersAnswer, error) {
	ranges, err := s.letters.Ranges(ctx)
	if err != nil {
		return nil, s.log.internal(ctx, "list dead letters", err)
	}
	tails, ok := deadTails(ranges, in.Cursor)
	if !ok {
		return nil, parameterProblem("cursor", "is not a cursor of this list")
	}
	limit := int(in.Limit)
	// Small chunks: most partitions have only a few records on a page.
	chunk := int64(limit/max(1, len(tails)) + 4)
	out := &DeadLettersAnswer{}
	out.Body.DeadLetters = []DeadLetterDocument{}
	size := 0
	for len(out.Body.DeadLetters) < limit && size < deadPageBytes {
		newest, err := s.newestTail(ctx, tails, chunk)
		if err != nil {
			return nil, s.log.internal(ctx, "read dead letters", err)
		}
		if newest == nil {
			return out, nil
		}
		r := newest.chunk[len(newest.chunk)-1]
		newest.chunk = newest.chunk[:len(newest.chunk)-1]
		newest.End = r.Offset
		size += len(r.Value)
		out.Body.DeadLetters = append(out.Body.DeadLetters, deadDocument(deadRef{newest.Input, newest.Partition, r.Offset}, &r))
	}
	if slices.ContainsFunc(tails, func(t *deadTail) bool { return t.End > t.Start }) {
		out.Body.Next = deadCursor(tails)
	}
	return out, nil
}

// newestTail returns the partition whose last record is the newest of all, nil at the end.
func (s *deadLetters) newestTail(ctx context.Context, tails []*deadTail, chunk int64) (*deadTail, error) {
	var newest *deadTail
	for _, t := range tails {
		if err := s.readChunk(ctx, t, chunk); err != nil {
			return nil, err
		}
		if len(t.chunk) == 0 {
			continue
		}
		if newest == nil || t.chunk[len(t.chunk)-1].Timestamp > newest.chunk[len(newest.chunk)-1].Timestamp {
			newest = t
		}
	}
	return newest, nil
}

// readChunk reads the next chunk backwards, past ranges without records.
func (s *deadLetters) readChunk(ctx context.Context, t *deadTail, chunk int64) error {
	for len(t.chunk) == 0 && t.End > t.Start {
		from := max(t.Start, t.End-chunk)
		list, err := s.letters.Read(ctx, t.Input, t.Partition, from, t.End)
		if err != nil {
			return err
		}
		for _, r := range list {
			if !r.Control {
				t.chunk = append(t.chunk, r)
			}
		}
		if len(t.chunk) == 0 {
			t.End = from
		}
	}
	return nil
}

func deadTails(ranges []DeadRange, cursor string) ([]*deadTail, bool) {
	ends := map[string][]int64{}
	if cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || json.Unmarshal(b, &ends) != nil {
			return nil, false
		}
	}
	tails := make([]*deadTail, len(ranges))
	for i, r := range ranges {
		t := &deadTail{DeadRange: r}
		if cursor != "" {
			list := ends[string(r.Input)]
			if int(r.Partition) >= len(list) {
				t.End = t.Start // it did not exist when the walk began
			} else {
				t.End = max(t.Start, min(t.End, list[r.Partition]))
			}
		}
		tails[i] = t
	}
	return tails, true
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
