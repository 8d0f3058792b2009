package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// Marshal is a fixed point, even if a text is not UTF-8. Otherwise the hash of a task would change when it is loaded from the
// store (INV2).
func TestMarshalIsAFixedPoint(t *testing.T) {
	t.Parallel()
	type v struct {
		Text string          `json:"text"`
		Raw  json.RawMessage `json:"raw,omitempty"`
	}
	rapid.Check(t, func(t *rapid.T) {
		in := v{Text: string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))}
		raw, err := json.Marshal(rapid.String().Draw(t, "raw"))
		require.NoError(t, err)
		in.Raw = raw
		once, err := events.Marshal(in)
		require.NoError(t, err)
		var read v
		require.NoError(t, json.Unmarshal(once, &read))
		twice, err := events.Marshal(read)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
	for in, want := range map[string]string{
		"a\xffb":     `{"text":"a` + "\uFFFD" + `b"}`,
		`\ufffd`:     `{"text":"\\ufffd"}`,
		`\\ufffd`:    `{"text":"\\\\ufffd"}`,
		"<b>&\u2028": `{"text":"<b>&\u2028"}`,
	} {
		got, err := events.Marshal(v{Text: in})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := events.Marshal(v{Raw: raw("{")})
	require.Error(t, err)
}

// All user data passes Compact before it enters a fact. A value that passes can be folded, stored and read by everybody.
func TestCompact(t *testing.T) {
	t.Parallel()
	got, err := events.Compact(raw(" {\"a\" : [1.50, \"<x y>\\u00e9\"] }\n"))
	require.NoError(t, err)
	require.Equal(t, `{"a":[1.50,"<x y>\u00e9"]}`, string(got))
	got, err = events.Compact(nil)
	require.NoError(t, err)
	require.Nil(t, got)
	nested := func(n int) json.RawMessage { return raw(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err = events.Compact(nested(100))
	require.NoError(t, err)
	for name, in := range map[string]json.RawMessage{
		"nested more than 100 levels deep": nested(101), "not JSON: unexpected end of JSON input": raw(" "), "not UTF-8": raw("\"\xff\""),
	} {
		_, err = events.Compact(in)
		require.EqualError(t, err, name)
	}
	_, err = events.Compact(raw(`"[[[[\"[[[` + strings.Repeat("[", 200) + `"`))
	require.NoError(t, err, "brackets in a text are no levels")
}

// A traceparent is the only text of a task that does not come through JSON. Garbage in it neither enters the task nor changes
// the state hash when the task is loaded from the store.
func TestAForeignTraceparent(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t", func(f *events.Fact) { f.Traceparent = "00-\xff\xfe" })
	before := k.flush(nil).Sum
	k.evictAll()
	k.start("t", "a", 1)
	k.flush(nil)
	require.NotEqual(t, before, k.state.Sum())
	lines := k.log
	s := events.NewState(testPartition, nil)
	for _, e := range lines {
		f, err := events.DecodeFact(&e.record)
		require.NoError(t, err)
		_, err = s.Apply(f, e.record.Offset)
		require.NoError(t, err)
	}
	h, err := s.Hash()
	require.NoError(t, err)
	require.Equal(t, k.state.Sum(), h)
}
