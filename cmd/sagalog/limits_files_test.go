package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limits that lie beside the workflows are there before them. A restart changes none that was changed meanwhile.
func TestAStartAppliesTheLimitsBesideTheWorkflows(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	write(t, at.dir+"/w/a.yaml", "workflow: pay\nsteps:\n  charge: {agent: bank, limit: bank}\n")
	write(t, at.dir+"/w/z.yaml", "limit: bank\nmax: 2\n")
	dev := []string{"dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w"}
	p := at.start(t, dev...)
	url := p.endpoints(at.dir + "/sagalog-data").HTTP
	p.eventually("the limit", func() bool {
		return strings.Contains(at.run(t, "limit", "list", "--all", "--api", url).out.String(), "bank")
	})
	set := at.run(t, "limit", "set", "bank", "--max", "7", "--api", url)
	require.Zero(t, set.code(), set.err.String())

	write(t, at.dir+"/w/b.yaml", "workflow: pay2\nsteps:\n  charge:\n    agent: bank\n    limit: nobody\n")
	b := at.run(t, "workflow", "apply", "w/b.yaml", "--api", url)
	require.Equal(t, 1, b.code())
	require.Contains(t, b.err.String(), `w/b.yaml:5:5: /steps/charge/limit: there is no limit "nobody": apply it first`)
	require.Zero(t, p.stop())

	p = at.run(t, dev...)
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), `w/b.yaml:5:5: /steps/charge/limit: there is no limit "nobody"`)

	write(t, at.dir+"/w/b.yaml", strings.Repeat("# none\n", 3)+"limit: other\nmax: 0\n")
	p = at.run(t, dev...)
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "w/b.yaml:5:6: max: ")

	write(t, at.dir+"/w/b.yaml", "limit: other\nmax: 1\n")
	p = at.start(t, dev...)
	p.eventually("the limit of the operator", func() bool { // endpoints.json may be that of the start before
		url := p.endpoints(at.dir + "/sagalog-data").HTTP
		return strings.Contains(at.run(t, "limit", "get", "bank", "--api", url, "-o", "json").out.String(), `"max": 7`)
	})
	require.Zero(t, p.stop())
	require.Contains(t, p.err.String(), "the limit differs from the one in the file, which is not applied")
}

// Limits may be JSON, as workflows may.
func TestALimitInJSONIsApplied(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	write(t, at.dir+"/w/a.yaml", "workflow: pay\nsteps:\n  charge: {agent: bank, limit: bank}\n")
	write(t, at.dir+"/w/bank.json", `{"limit": "bank", "max": 2}`)
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w")
	url := p.endpoints(at.dir + "/sagalog-data").HTTP
	p.eventually("the limit", func() bool {
		return strings.Contains(at.run(t, "limit", "list", "--all", "--api", url).out.String(), "bank")
	})
	require.Zero(t, p.stop())
}

// An operator applied a version without the limit, and deleted the limit. The old files still lie there: a start warns of both and goes on.
func TestADeletedLimitDoesNotPreventAStart(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	write(t, at.dir+"/w/a.yaml", "workflow: pay\nsteps:\n  charge: {agent: bank, limit: bank}\n")
	write(t, at.dir+"/w/z.yaml", "limit: bank\nmax: 2\n")
	write(t, at.dir+"/new.yaml", "workflow: pay\nsteps:\n  charge: {agent: bank}\n")
	dev := []string{"dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w"}
	p := at.start(t, dev...)
	url := p.endpoints(at.dir + "/sagalog-data").HTTP
	p.eventually("the limit", func() bool {
		return strings.Contains(at.run(t, "limit", "list", "--all", "--api", url).out.String(), "bank")
	})
	p.eventually("the workflow", func() bool { return strings.Contains(at.run(t, "workflow", "list", "--api", url).out.String(), "pay") })
	a := at.run(t, "workflow", "apply", "new.yaml", "--api", url)
	require.Zero(t, a.code(), a.err.String())
	d := at.run(t, "limit", "delete", "bank", "--api", url)
	require.Zero(t, d.code(), d.err.String())
	require.Zero(t, p.stop())
	p = at.start(t, dev...)
	p.eventually("the start", func() bool {
		s := p.err.String()
		return strings.Contains(s, "older version") || strings.Contains(s, "there is no limit")
	})
	require.NotContains(t, p.err.String(), "there is no limit")
	require.Zero(t, p.stop())
}
