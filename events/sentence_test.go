package events_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestASentenceEndsOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"it is so": "it is so.", "it is so.": "it is so.", "it is so.. ": "it is so.", `did you mean "x"?`: `did you mean "x"?`,
		`did you mean "x"?.`: `did you mean "x"?`, "no!": "no!", "": "", ".": "", "at 1.5": "at 1.5.",
	} {
		require.Equal(t, want, events.Sentence(text), text)
	}
}
