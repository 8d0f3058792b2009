package cli_test

import (
	"os"
	"path/filepath"
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
	require.Regexp(t, `LIMIT +STATE +MAX +RATE +HELD +HALTED +WAITING +SINCE\npayment/c-17 +open +1 +- +1 +0 +1`, r.out)
	r = e.run("limits", "get", "payment/c-17")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `HOLDER +order-9, given back, free at 1970-01-01T00:00:02.000Z\nWAITER +x, priority 4`, r.out)
	require.Equal(t, 3, e.run("limit", "get", "payment/c-18").code)
	r = e.run("limit", "waiting", "payment/c-17")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `TASK +STEP +UNDO +PRIORITY +STATE +SINCE\nx +- +no +4 +-\n`, r.out)

	r = e.run("limit", "pause", "payment/c-17", "--reason", "the bank is closed", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "limit payment/c-17: pause is granted\n", r.out)
	require.Regexp(t, `payment/c-17 +paused +1`, e.run("limit", "list").out)
	require.Regexp(t, `PAUSED +\S+ ada: why`, e.run("limit", "get", "payment/c-17").out)
	require.Contains(t, e.run("limit", "resume", "payment/c-17").out, "resume is granted")
	require.Equal(t, 3, e.run("limit", "pause", "nobody/c-17").code)
	require.Equal(t, 2, e.run("limit", "pause", "payment/c-17", "--wait-for", "2m").code)
}

func TestNamedLimitsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	e := setup(t)
	file := filepath.Join(t.TempDir(), "bank.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"limit":"bank","max":20}`), 0o600))
	for _, changed := range []string{"yes", "no"} {
		r := e.run("limit", "apply", file)
		require.Equal(t, 0, r.code, r.err)
		require.Regexp(t, `LIMIT +CHANGED +MAX +RATE +HELD +WAITING\nbank +`+changed+` +20 +- +0 +0`, r.out)
	}
	link := func(id string, op events.Operation) events.Link {
		return events.Link{Task: id, Run: 1, Path: "charge", Operation: op, N: 1}
	}
	e.PutLimit(t, "limit/bank", 20, events.Permit{GrantedAt: 1, Link: link("order-9", events.Do)}, events.Permit{Link: link("x", events.Undo)})
	require.Regexp(t, `bank +open +20 +- +1 +0 +1`, e.run("limit", "list").out)
	require.Regexp(t, `HOLDER +order-9, step charge\nWAITER +x, undo of step charge`, e.run("limit", "get", "bank").out)
	require.Contains(t, e.run("limit", "pause", "bank").out, "limit bank: pause is granted")
	require.Contains(t, e.run("limit", "resume", "bank").out, "limit bank: resume is granted")

	require.Regexp(t, `bank +yes +20 +5/h`, e.run("limit", "set", "bank", "--rate", "5/h").out)
	require.Regexp(t, `bank +yes +30 +5/h`, e.run("limit", "set", "bank", "--max", "30").out)
	require.Regexp(t, `bank +open +30 +5/h`, e.run("limit", "list").out)
	require.Regexp(t, `bank +yes +- +5/h`, e.run("limit", "set", "bank", "--max", "0").out)
	require.Regexp(t, `MAX +-\nRATE +5/h`, e.run("limit", "get", "bank").out)
	require.Equal(t, 2, e.run("limit", "set", "bank", "--rate", "").code, "nothing would limit it")
	require.Equal(t, 2, e.run("limit", "set", "bank").code)

	r := e.run("limit", "delete", "bank", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "limit bank is deleted\n", r.out)
	for _, verb := range []string{"get", "delete", "pause"} {
		require.Equal(t, 3, e.run("limit", verb, "bank").code, verb)
	}

	require.NoError(t, os.WriteFile(file, []byte("limit: used\nmax: 1\n"), 0o600))
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("limit: Bank\nmax: 0\n"), 0o600))
	r = e.run("limit", "apply", file, bad)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "nothing is applied: 2 faults")
	require.Equal(t, 3, e.run("limit", "get", "used").code)
	r = e.run("limit", "apply", bad+".missing")
	require.Contains(t, r.err, "read the limit: ")
}
