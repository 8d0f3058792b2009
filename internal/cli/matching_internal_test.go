package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyYesAgrees(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, " yes ": true, "\n": false, "": false, "n\n": false, "yes please\n": false} {
		var out bytes.Buffer
		require.Equal(t, want, agreed(strings.NewReader(answer), &out, "retry 3 tasks?"), answer)
		require.Equal(t, "retry 3 tasks? [y/N] ", out.String())
	}
}
