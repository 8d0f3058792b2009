package scheduler_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

// An author who corrects one fault at a time needs as many runs as there are faults.
func TestAFaultHidesNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"beside a cycle": {`workflow: w
steps:
  a: {agent: x, needs: [b]}
  b: {agent: x, needs: [a], with: "${ steps.far.output }"}
  behind: {agent: x, needs: [a], with: "${ steps.b.output + steps.far.output }"}
  far: {agent: x, pivot: true}
  after: {agent: x, needs: [far], retry: {then: undo}, with: "${ steps.behind.output }"}
  two: {agent: x, needs: [far], pivot: true}
`, []string{
			"f:3:3: steps.a: steps need each other in a cycle: a -> b -> a",
			"f:4:39: steps.b.with: step far may not have run yet: add it to needs of b",
			"f:5:61: steps.behind.with: step far may not have run yet: add it to needs of behind",
			"f:7:49: steps.after.retry.then: the steps after the pivot are never undone: write park, or leave then out",
			"f:7:66: steps.after.with: step behind may not have run yet: add it to needs of after",
			"f:8:40: steps.two.pivot: a workflow has one pivot, which is far already",
		}},
		"the pivot in a cycle": {`workflow: w
steps:
  a: {agent: x, needs: [b], retry: {then: undo}}
  b: {agent: x, needs: [a], pivot: true}
  c: {agent: x}
`, []string{"f:3:3: steps.a: steps need each other in a cycle: a -> b -> a"}},
		"in one expression": {`workflow: w
steps:
  a: {agent: x, with: "${ inptu.a + outptu(task.nmae) + steps.b.output + inptu.b + sum(map(list, # + single)) + now() }"}
  b: {agent: x, if: "${ nothing && output.x == input.y.matches('a') && input.z matches 'a**' }"}
`, []string{
			`f:3:27: steps.a.with: unknown name inptu: did you mean "input"?`,
			`f:3:37: steps.a.with: unknown name outptu: known are task, input, steps`,
			`f:3:44: steps.a.with: task has no member "nmae": known are id, run, workflow, version, labels, priority, submitted_at, deadline, reason`,
			`f:3:57: steps.a.with: step b may not have run yet: add it to needs of a`,
			`f:3:92: steps.a.with: unknown name list: known are task, input, steps`,
			`f:3:102: steps.a.with: unknown name single: known are task, input, steps`,
			`f:3:113: steps.a.with: now is not available: an expression must give the same result in every replay; pass the time in the input`,
			`f:4:25: steps.b.if: unknown name nothing: known are task, input, steps`,
			`f:4:36: steps.b.if: unknown name output: known are task, input, steps`,
			"f:4:56: steps.b.if: only the functions of the expression language can be called, not members",
			"f:4:80: steps.b.if: error parsing regexp: invalid nested repetition operator: `**`",
		}},
		"beside a missing file": {`workflow: w
input:
  properties:
    a: {$ref: nowhere.json}
    b: {$ref: "nowhere.json#/x"}
    c: {type: objekt}
    d: {minLength: -1, $ref: elsewhere.json}
steps: {a: {agent: x, with: "${ inptu }"}}
`, []string{
			"f:4:15: $ref: nowhere.json: file does not exist",
			"f:5:15: $ref: nowhere.json: file does not exist",
			"f:6:15: input.properties.c.type: not a JSON Schema: got string, want array",
			"f:6:15: input.properties.c.type: not a JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
			"f:7:20: input.properties.d.minLength: not a JSON Schema: is -1, and must be at least 0",
			"f:7:30: $ref: elsewhere.json: file does not exist",
			`f:8:33: steps.a.with: unknown name inptu: did you mean "input"?`,
		}},
	} {
		src, faults := scheduler.Parse("f", []byte(c.text), func(string) ([]byte, error) { return nil, os.ErrNotExist })
		require.Nil(t, src, name)
		require.Equal(t, strings.Join(c.want, "\n")+"\n", lines(faults), name)
	}
}

// The check must not take long for a definition that is a single cycle.
func TestALargeCycleIsCheckedQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	var b strings.Builder
	b.WriteString("workflow: w\nsteps:\n")
	for i := range 400 {
		var needs []string
		for j := range 400 {
			if j != i {
				needs = append(needs, fmt.Sprint("s", j))
			}
		}
		fmt.Fprintf(&b, "  s%d: {agent: x, needs: [%s]}\n", i, strings.Join(needs, ","))
	}
	src, faults := scheduler.Parse("f", []byte(b.String()), nil)
	require.Nil(t, src)
	for _, f := range faults {
		require.Contains(t, f.Message, "in a cycle")
	}
}
