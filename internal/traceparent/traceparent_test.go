package traceparent

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestATraceContextIsKeptOrCreated(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	good := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	require.Equal(t, good, Or(good))
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`, Or(""), "a context that nobody exports is not sampled")
	require.NotEqual(t, Or(""), Or(""))
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(good)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			s[rapid.IntRange(0, len(s)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("-0afgFG\n \x00")).Draw(t, "to")
		}
		s = append(s, rapid.SampledFrom([]string{"", "\n", "0", "-"}).Draw(t, "more")...)
		require.Equal(t, shape.Match(s) && string(s[:2]) != "ff", Valid(string(s)), "%q", s)
	})
	for _, s := range []string{"", good[1:], good + "0", "00-" + zeros + good[35:], good[:36] + zeros[:16] + good[52:]} {
		require.False(t, Valid(s), s)
	}
}

func TestSampledReadsTheFlag(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "03": true, "0a": false, "0b": true, "ff": true} {
		require.Equal(t, want, Sampled("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"+flags), flags)
	}
	require.False(t, Sampled(""))
	require.False(t, Sampled(Or("")))
	require.False(t, Sampled(string(New())))
}

// Processes of different versions must find the same spans, so the IDs are written down here.
func TestDerivedSpansStayTheSame(t *testing.T) {
	t.Parallel()
	of := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	a := Attempt{Ticket: "1/2", Step: "pay", Operation: "do", Number: 1}
	all := map[string]bool{Span(of): true}
	for _, derived := range []string{
		OfTask(of, "1/2", 1), OfTask(of, "1/2", 2), OfDecision(of, "1/2"), OfAttempt(of, a),
		OfAttempt(of, Attempt{a.Ticket, a.Step, "undo", 1}), OfAttempt(of, Attempt{a.Ticket, a.Step, "do", 2}),
		OfAttempt(of, Attempt{a.Ticket, "pa", "ydo", 1}), OfAttempt(of, Attempt{"1/3", a.Step, a.Operation, 1}),
		OfAttempt("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01", a),
	} {
		require.True(t, Valid(derived), derived)
		require.Equal(t, Trace(of), Trace(derived))
		require.True(t, Sampled(derived))
		require.False(t, all[Span(derived)], "two spans have one ID")
		all[Span(derived)] = true
	}
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-4998c7213c009e10-01", OfAttempt(of, a))
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-8379c7a55c60b9ed-01", OfTask(of, "1/2", 1))
	require.False(t, Sampled(OfTask(of[:53]+"00", "1/2", 1)), "the flags are those of the task")
}
