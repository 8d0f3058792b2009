package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

func TestFaultsOfLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"max: 3":                            "limit is missing",
		"limit: bank":                       "max and rate are missing",
		"limit: Bank\nmax: 3":               "a lower-case letter",
		"limit: bank\nmax: 0":               "1",
		"limit: bank\nmax: 100001":          "100000",
		"limit: bank\nmax: 1.5":             "whole number",
		"limit: bank\nmax: 3\nrate: 50":     "rate",
		"- bank":                            "the keys limit, max and rate",
		"limit: bank\nmax: 3 #" + pad(5000): "up to 4096 bytes",
	} {
		d, faults := scheduler.ParseLimit("l.yaml", "", []byte(text))
		require.Nil(t, d, text)
		require.Contains(t, lines(faults), want, text)
	}
	d, faults := scheduler.ParseLimit("l.yaml", "other", []byte("limit: bank\nmax: 3"))
	require.Nil(t, d)
	require.Contains(t, lines(faults), `the URL names the limit "other"`)
	d, faults = scheduler.ParseLimit("l.yaml", "bank", []byte("max: 3"))
	require.Empty(t, faults)
	require.Equal(t, &events.LimitDefinition{Limit: "bank", Max: 3}, d)
	for text, want := range map[string]int{"0x10": 16, "1_000": 1000, "+5": 5, "0o10": 8} { // numbers of YAML that JSON does not have
		d, faults := scheduler.ParseLimit("l.yaml", "bank", []byte("max: "+text))
		require.Empty(t, faults, text)
		require.Equal(t, want, d.Max, text)
	}
}

func pad(n int) string { return fmt.Sprintf("%*s", n, "") }

func limitRecord(t *testing.T, name string, most int, offset int64) *events.Record {
	t.Helper()
	r, err := scheduler.EncodeLimit(&events.LimitDefinition{Limit: name, Max: most}, events.Subject{ID: "1", Source: "/test", Time: 7})
	require.NoError(t, err)
	r.Offset = offset
	return &r
}

// A limit that was deleted is known as deleted, so that its partition hears of it, and it may be applied again.
func TestTheCatalogKnowsTheLimits(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	require.Equal(t, int64(-1), c.LimitedUpTo())
	require.NoError(t, c.Apply(limitRecord(t, "bank", 3, 4)))
	require.NoError(t, c.Apply(limitRecord(t, "bank", 5, 6)))
	require.Equal(t, scheduler.LimitRecord{LimitDefinition: events.LimitDefinition{Limit: "bank", Max: 5}, Offset: 6, At: 7}, c.Limits()["bank"])
	require.Equal(t, []any{int64(6), 1}, []any{c.LimitedUpTo(), c.LimitCount()})

	gone := scheduler.EncodeLimitDeletion("bank", events.Subject{ID: "2", Source: "/test", Time: 8})
	gone.Offset = 9
	require.NoError(t, c.Apply(&gone))
	require.Equal(t, []any{true, int64(9), 0}, []any{c.Limits()["bank"].Deleted, c.LimitedUpTo(), c.LimitCount()})
	unknown := scheduler.EncodeLimitDeletion("post", events.Subject{ID: "3", Source: "/test", Time: 8})
	require.NoError(t, c.Apply(&unknown))
	require.Len(t, c.Limits(), 1)
	var homes []scheduler.LimitRecord
	for p := range int32(4) {
		homes = append(homes, c.LimitsOf(p, 4)...)
	}
	require.Len(t, homes, 1)

	bad := limitRecord(t, "bank", 0, 10)
	require.ErrorContains(t, c.Apply(bad), "cannot be used")
	for i := range scheduler.MaxLimits {
		require.NoError(t, c.Apply(limitRecord(t, fmt.Sprint("l", i), 1, int64(20+i))))
	}
	require.ErrorContains(t, c.Apply(limitRecord(t, "bank", 1, 9999)), "1000 already")
	require.NoError(t, c.Apply(limitRecord(t, "l7", 2, 9999)), "one that exists is changed")
}

func TestAStepNamesALimit(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(head+"  a: {agent: a, limit: bank}\n  b: {agent: a, limit: bank}\n  c: {agent: a, limit: Bank}"), openTestdata)
	require.Nil(t, src)
	require.Contains(t, lines(faults), "steps.c.limit")
	for _, text := range []string{"  a: {sleep: 1m, limit: bank}", "  a: {wait: {signal: go}, limit: bank}"} {
		_, faults := scheduler.Parse("f", []byte(head+text), openTestdata)
		require.Contains(t, lines(faults), "limit", text)
		require.Error(t, compilePublished(t).Validate(load(t, head+text)), text)
	}
}
