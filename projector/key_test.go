package projector

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

func TestIntegersSortAsKeys(t *testing.T) {
	t.Parallel()
	values := []int64{math.MinInt64, -1000, -1, 0, 1, 1000, math.MaxInt64}
	for i, a := range values {
		require.Equal(t, a, readInt(appendInt(nil, a)))
		require.Equal(t, a, readInverted(appendInverted(nil, a)))
		for _, b := range values[i+1:] {
			require.Negative(t, bytes.Compare(appendInt(nil, a), appendInt(nil, b)))
			require.Positive(t, bytes.Compare(appendInverted(nil, a), appendInverted(nil, b)))
		}
	}
}

func FuzzTextInKeys(f *testing.F) {
	f.Add("a", "a\x00", "")
	f.Add("", "\x00", "\xff")
	f.Add("a\x00\x01", "a\x00\xff", "b")
	f.Fuzz(func(t *testing.T, a, b, rest string) {
		ka, kb := appendText(nil, a), appendText(nil, b)
		require.Equal(t, strings.Compare(a, b), bytes.Compare(ka, kb), "keys sort like their texts")
		if a != b {
			require.False(t, bytes.HasPrefix(ka, kb), "no key is a prefix of another")
		}
		text, left, ok := cutText(append(ka, rest...))
		require.True(t, ok)
		require.Equal(t, a, text)
		require.Equal(t, rest, string(left))
		cutText([]byte(rest)) // no input makes it panic
	})
}

func TestReadyRowsSurviveTheirKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := events.ReadyKey{
			Agent: rapid.StringMatching("[a-z]{0,3}").Draw(t, "agent"), Function: rapid.StringMatching("[a-z]{0,3}").Draw(t, "function"), Path: rapid.String().Draw(t, "path"),
			Operation: events.Operation(rapid.String().Draw(t, "operation")),
			Since:     events.Instant(rapid.Int64().Draw(t, "since")), Priority: rapid.Int().Draw(t, "priority"),
		}
		id := rapid.String().Draw(t, "id")
		encoded := appendReady(nil, id, &key)
		line := events.Line{Queue: key.Queue(), Operation: key.Operation}
		row, ok := readReady(encoded, line)
		require.True(t, ok)
		require.Equal(t, ReadyRow{Key: key, Task: id}, row)
		_, ok = readReady(encoded[:rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")], line)
		require.False(t, ok)
	})
}

func FuzzTaskRow(f *testing.F) {
	f.Add([]byte{0, 1, 'a', '{', '}'})
	f.Add([]byte{3, 2, '{', '}'})
	f.Add([]byte{0, 0x80, 0x00, 'a'}) // a length in more bytes than necessary
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		row, err := readTaskRow(value)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		whole := append(append([]byte{}, row.encoding...), row.keys...)
		require.True(t, bytes.HasSuffix(value, whole))
		if row.others > math.MaxInt {
			return
		}
		again, err := readTaskRow(append(appendTaskLead(nil, int(row.others), row.encoding), whole...))
		require.NoError(t, err)
		require.Equal(t, row, again)
	})
}

func FuzzOtherRow(f *testing.F) {
	f.Add("a", "step", "p[0]")
	f.Add("a", "input", "")
	f.Add("a\x00", "request", "\x00q")
	f.Fuzz(func(t *testing.T, task, kind, part string) {
		_, _, _, _ = otherOf([]byte(task)) // no key makes it panic
		if strings.Contains(task, "\x00") || kind == "" {
			return
		}
		key := appendOther(taskKey(nil, 3, task), kind, part)
		id, k, p, err := otherOf(key[rowPrefix:])
		require.NoError(t, err)
		require.Equal(t, []string{task, kind, part}, []string{id, string(k), p})
		require.Negative(t, bytes.Compare(taskKey(nil, 3, task), key))
		require.Negative(t, bytes.Compare(key, taskKey(nil, 3, task+"\x01")), "no other task is between a head and its rows")
	})
}

func TestPrefixEndCarries(t *testing.T) {
	t.Parallel()
	require.Equal(t, []byte{1, 3}, prefixEnd([]byte{1, 2}))
	require.Equal(t, []byte{2}, prefixEnd([]byte{1, 0xff, 0xff}))
	require.Nil(t, prefixEnd([]byte{0xff}))
}
