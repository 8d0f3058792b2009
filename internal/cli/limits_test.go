package cli_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestLimitsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.PutLimit(t, "concurrency/payment/c-17", 1,
		events.Permit{GrantedAt: 1, EndsAt: 2000, Link: events.Link{Task: "order-9", Run: 1, N: 1}}, events.Permit{Priority: 4, Link: events.Link{Task: "x", Run: 1, N: 1}})
	r := e.run("limit", "list")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `LIMIT +STATE +MAX +HELD +HALTED +WAITING +SINCE\npayment/c-17 +open +1 +1 +0 +1`, r.out)
	r = e.run("limits", "get", "payment/c-17")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `HOLDER +order-9, given back, free at 1970-01-01T00:00:02.000Z\nWAITER +x, priority 4`, r.out)
	require.Equal(t, 3, e.run("limit", "get", "payment/c-18").code)

	r = e.run("limit", "pause", "payment/c-17", "--reason", "the bank is closed", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "limit payment/c-17: pause is granted\n", r.out)
	require.Regexp(t, `payment/c-17 +paused +1`, e.run("limit", "list").out)
	require.Regexp(t, `PAUSED +\S+ ada: why`, e.run("limit", "get", "payment/c-17").out)
	require.Contains(t, e.run("limit", "resume", "payment/c-17").out, "resume is granted")
	require.Equal(t, 3, e.run("limit", "pause", "nobody/c-17").code)
	require.Equal(t, 2, e.run("limit", "pause", "payment/c-17", "--wait-for", "2m").code)
}
