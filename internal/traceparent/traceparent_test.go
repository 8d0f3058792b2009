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
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, Or(""))
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
