package supervisor

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// longLog holds records of one size.
type longLog struct {
	Log
	size int
}

func (l longLog) ReadRange(_ context.Context, from, to int64, give func(events.Record) error) error {
	for at := from; at < to; at++ {
		if err := give(events.Record{Offset: at, Value: bytes.Repeat([]byte("x"), l.size)}); err != nil {
			return err
		}
	}
	return nil
}

// A take-over reads what lies above the watermark. That may be more than the memory holds.
func TestAPageOfTheLogIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size, count int
	}{
		"small records":                       {10, 3 * pageRecords},
		"large records":                       {300 << 10, 100},
		"records that are larger than a page": {pageBytes + 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := int64(0)
			for next < int64(c.count) {
				p, err := readPage(t.Context(), longLog{size: c.size}, ReadFacts{From: next, To: int64(c.count)})
				require.NoError(t, err)
				require.NotEmpty(t, p.records)
				require.LessOrEqual(t, len(p.records), pageRecords)
				require.LessOrEqual(t, p.bytes, max(pageBytes, c.size))
				for _, r := range p.records {
					require.Equal(t, next, r.Offset)
					next++
				}
				require.Equal(t, next, p.next)
			}
		})
	}
}
