package offsets

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// span is a run of offsets, end not included.
type span struct{ first, end int64 }

// metadataFormat begins the metadata of a commit. The runs of finished offsets above the position follow. Each is written as
// the number of unfinished offsets before it, a plus sign, and its length, as in "sagalog-done-1 3+2,1+40". The text grows with
// the number of unfinished requests, which is bounded, and not with the number of finished ones.
const metadataFormat = "sagalog-done-1 "

// metadataLimit is the default of the broker setting offset.metadata.max.bytes.
const metadataLimit = 4096

// encodeMetadata writes runs that are sorted, apart, and not below next.
func encodeMetadata(next int64, finished []span) string {
	if len(finished) == 0 {
		return ""
	}
	b := []byte(metadataFormat)
	for i, s := range finished {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.first-next, 10)
		b = append(b, '+')
		b = strconv.AppendInt(b, s.end-s.first, 10)
		next = s.end
	}
	return string(b)
}

// decodeMetadata reads what encodeMetadata wrote. Any other text was written by another client and means no runs.
func decodeMetadata(next int64, text string) []span {
	list, ours := strings.CutPrefix(text, metadataFormat)
	if !ours {
		return nil
	}
	var out []span
	for item := range strings.SplitSeq(list, ",") {
		gap, length, _ := strings.Cut(item, "+")
		g, errGap := strconv.ParseInt(gap, 10, 64)
		n, errLength := strconv.ParseInt(length, 10, 64)
		if errGap != nil || errLength != nil || g < 0 || n < 1 || g > math.MaxInt64-next || n > math.MaxInt64-next-g {
			return nil
		}
		s := span{next + g, next + g + n}
		out = append(out, s)
		next = s.end
	}
	return out
}

// union merges two lists of runs, both sorted and without overlap.
func union(a, b []span) []span {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y span) int { return cmp.Compare(x.first, y.first) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && s.first <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// below cuts the runs off at end.
func below(finished []span, end int64) []span {
	var out []span
	for _, s := range finished {
		if s.end = min(s.end, end); s.first < s.end {
			out = append(out, s)
		}
	}
	return out
}

// covers reports whether an offset lies in one of the runs.
func covers(finished []span, offset int64) bool {
	for _, s := range finished {
		if s.first <= offset && offset < s.end {
			return true
		}
	}
	return false
}
