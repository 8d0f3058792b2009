package supervisor_test

import (
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// These are the workflows of the tests.
const (
	oneStep = `
workflow: one
defaults: {complete_within: 1s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  only: {agent: alpha, undo: {retry: {attempts: 2, backoff: 100ms}}}
`
	twoSteps = `
workflow: two
defaults: {complete_within: 1s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  first: {agent: alpha, undo: {retry: {attempts: 2, backoff: 100ms}}}
  second: {agent: beta, needs: [first], undo: {retry: {attempts: 2, backoff: 100ms}}}
`
	pivoted = `
workflow: pivoted
defaults: {complete_within: 1s, retry: {attempts: 1, then: undo}}
steps:
  before: {agent: alpha, undo: {}}
  point: {agent: alpha, needs: [before], pivot: true}
  behind: {agent: alpha, needs: [point]}
`

	pivotThatUndoes = `
workflow: pivoted
steps:
  before: {agent: alpha, undo: {}}
  point: {agent: alpha, needs: [before], pivot: true, retry: {then: undo}}
`
)

func (b *bench) define(text string) {
	src, faults := scheduler.Parse("bench.yaml", []byte(text), nil)
	require.NotNil(b.t, src, "%v", faults)
	d, err := scheduler.Complete(src.Body)
	require.NoError(b.t, err)
	body, err := events.Marshal(d)
	require.NoError(b.t, err)
	n := 1
	for _, v := range b.versions {
		if v.Workflow == src.Workflow {
			n++
		}
	}
	b.versions = append(b.versions, supervisor.Version{Workflow: src.Workflow, Version: n, Hash: src.Hash, Body: body, Offset: int64(len(b.versions) + 1)})
}
