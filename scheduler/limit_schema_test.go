package scheduler_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

func TestThePublishedSchemaJudgesLimitsAsParseLimitDoes(t *testing.T) {
	t.Parallel()
	const id = "https://sagalog.dev/schema/limit.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(scheduler.LimitSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(id, doc))
	s, err := c.Compile(id)
	require.NoError(t, err)
	for text, valid := range map[string]bool{
		"{limit: bank, max: 20}":                true,
		"{limit: bank, max: 100000}":            true,
		"{limit: bank, rate: 50/s}":             true,
		"{limit: bank, max: 20, rate: 1/h}":     true,
		"{limit: bank, rate: 1000000/m}":        true,
		"{limit: bank, rate: +010/m}":           true,
		"{limit: bank}":                         false,
		"{max: 20}":                             false,
		"{limit: Bank, max: 20}":                false,
		"{limit: bank, max: 0}":                 false,
		"{limit: bank, max: 100001}":            false,
		"{limit: bank, max: 1.5}":               false,
		"{limit: bank, max: '20'}":              false,
		"{limit: bank, rate: 0/s}":              false,
		"{limit: bank, rate: 1000001/s}":        false,
		"{limit: bank, rate: 50/d}":             false,
		"{limit: bank, rate: 50}":               false,
		"{limit: bank, rate: ''}":               false,
		"{limit: bank, max: 20, paused: false}": false,
		"[bank]":                                false,
	} {
		d, faults := scheduler.ParseLimit("l.yaml", "", []byte(text))
		require.Equal(t, valid, d != nil, "%s\n%s", text, lines(faults))
		require.Equal(t, valid, s.Validate(load(t, text)) == nil, text)
	}
	var keys struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(scheduler.LimitSchema(), &keys))
	require.Equal(t, slices.Sorted(slices.Values(scheduler.LimitKeys)), slices.Sorted(maps.Keys(keys.Properties)))
}
