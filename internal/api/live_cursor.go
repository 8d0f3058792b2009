package api

import (
	"slices"
	"strconv"
	"strings"
)

// liveCursor is the position of a stream: the next offset of each partition of events, or unknownOffset.
type liveCursor []int64

const unknownOffset = -1

// String returns the offsets with dots between them, "-" for an unknown one. Any node can read it.
func (c liveCursor) String() string {
	b := make([]byte, 0, 12*len(c))
	for i, offset := range c {
		if i > 0 {
			b = append(b, '.')
		}
		if offset == unknownOffset {
			b = append(b, '-')
			continue
		}
		b = strconv.AppendInt(b, offset, 10)
	}
	return string(b)
}

// parseLiveCursor returns false for a text that is not a cursor with that number of partitions.
func parseLiveCursor(text string, partitions int32) (liveCursor, bool) {
	c := make(liveCursor, 0, partitions)
	for part := range strings.SplitSeq(text, ".") {
		if part == "-" {
			c = append(c, unknownOffset)
			continue
		}
		offset, err := strconv.ParseInt(part, 10, 64)
		if err != nil || offset < 0 || len(c) == int(partitions) {
			return nil, false
		}
		c = append(c, offset)
	}
	return c, len(c) == int(partitions)
}

// reaches says whether a stream at c can continue at from without missing anything.
func (c liveCursor) reaches(from liveCursor) bool {
	for p, offset := range from {
		if c[p] < offset {
			return false
		}
	}
	return true
}

// advance moves a partition forward, never back.
func (c liveCursor) advance(partition int32, offset int64) {
	c[partition] = max(c[partition], offset)
}

func (c liveCursor) clone() liveCursor { return slices.Clone(c) }
