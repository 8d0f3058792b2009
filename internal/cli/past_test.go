package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATaskIsReadAsItWas(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	for _, c := range []struct {
		at, says string
		code     int
	}{
		{"2030-01-01T00:00:00Z", "AS OF", 0},
		{"2020-01-01T00:00:00Z", "did not exist then", 3},
		{"yesterday", "neither an instant", 2},
		{"", "--at is empty", 2},
	} {
		r := e.run("task", "get", "x", "--at", c.at)
		require.Equal(t, c.code, r.code, r.err)
		require.Contains(t, r.out+r.err, c.says)
	}
	r := e.run("task", "get", "x", "--wait", "--at", "2030-01-01T00:00:00Z")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "leave out --wait")
}
