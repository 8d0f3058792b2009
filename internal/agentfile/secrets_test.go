package agentfile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/agentfile"
)

// A variable that comes from a file ends in a newline, and a key has several lines. What repeats them may leave the newlines out.
func TestTheLinesOfASecretAreSecret(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"pa55word!\n", "  pa55word!\r\n", "-----BEGIN KEY-----\npa55word!\n-----END KEY-----\n", "one line\n\tpa55word!"} {
		s := agentfile.NewSecrets(map[string]string{"TOKEN": value})
		require.NotContains(t, s.Text("got pa55word! here"), "pa55word", "%q", value)
		require.NotContains(t, string(s.JSON([]byte(`["-","pa55word!"]`))), "pa55word", "%q", value)
		require.NotContains(t, s.Text(strings.ToUpper("x")+value), "pa55word", "%q", value)
		require.Equal(t, "an end", s.Text("an end"), "short lines occur in any text")
	}
}
