package supervisor_test

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
