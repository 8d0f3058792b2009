package agent

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// span is a run of offsets, end not included.
type span struct{ first, end int64 }

// doneFormat begins the metadata of a commit. Then come, for each run of finished offsets above the mark, how many lie
// before it that are not finished and, behind a plus, how long it is: "sagalog-done-1 3+2,1+40". So the text grows with
// what is unfinished, whose number is bounded, and not with what is finished.
const doneFormat = "sagalog-done-1 "

// doneLimit is what a broker takes unless it is told otherwise (offset.metadata.max.bytes).
const doneLimit = 4096

// encodeDone writes runs that are sorted, apart, and not below next.
func encodeDone(next int64, done []span) string {
	if len(done) == 0 {
		return ""
	}
	b := []byte(doneFormat)
	for i, s := range done {
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

// decodeDone reads what encodeDone wrote. Anything else is another client's, which says nothing of this.
func decodeDone(next int64, text string) []span {
	list, ours := strings.CutPrefix(text, doneFormat)
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

// union returns the runs of both, which are sorted and apart, in the same way.
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

// below returns what of the runs lies before an offset.
func below(done []span, end int64) []span {
	var out []span
	for _, s := range done {
		if s.end = min(s.end, end); s.first < s.end {
			out = append(out, s)
		}
	}
	return out
}

// covers tells whether an offset lies in one of the runs.
func covers(done []span, offset int64) bool {
	for _, s := range done {
		if s.first <= offset && offset < s.end {
			return true
		}
	}
	return false
}
