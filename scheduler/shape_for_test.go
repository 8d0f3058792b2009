package scheduler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

// Each mistake in a for has its place and says what to write instead.
func TestAWrongForSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	const each = `each: "${ input }"`
	for _, c := range []struct{ name, text, want string }{
		{"no mapping", "a: {agent: a, for: [1]}", "f:3:22: steps.a.for: expected a mapping with each, got a list"},
		{"no each", "a: {agent: a, for: {parallel: 2}}", `f:3:17: steps.a.for: each is missing: the list, such as "${ input.orders }"`},
		{"each of another type", "a: {agent: a, for: {each: {a: 1}}}", "f:3:29: steps.a.for.each: expected a list, or an expression that gives one, got a mapping"},
		{"each is a number", "a: {agent: a, for: {each: 5}}", "f:3:29: steps.a.for.each: expected a list, or an expression that gives one, got the number 5"},
		{"each is a text", "a: {agent: a, for: {each: input.orders}}", `f:3:29: steps.a.for.each: expected a list, or an expression that gives one, got the text "input.orders"`},
		{"each in a text", "a: {agent: a, for: {each: \"x ${ input }\"}}", `f:3:29: steps.a.for.each: gives a text, since the expression is not alone: write it alone, such as "${ input.orders }"`},
		{"each of two", "a: {agent: a, for: {each: \"${ input }${ input }\"}}", `f:3:29: steps.a.for.each: gives a text, since the expression is not alone: write it alone, such as "${ input.orders }"`},
		{"each gives a number", "a: {agent: a, for: {each: \"${ 1 + 2 }\"}}", "f:3:29: steps.a.for.each: gives 3, which is not a list"},
		{"each is empty", "a: {agent: a, for: {each: []}}", "f:3:29: steps.a.for.each: the list is empty, so the step would have no items"},
		{"each is too long", "a: {agent: a, for: {each: [" + strings.Repeat("1,", 10_000) + "1]}}", "f:3:29: steps.a.for.each: the list has 10001 entries, and a step has at most 10000 items: split the list, and let a child do each part"},
		{"each is long", "a: {agent: a, for: {each: [" + strings.Repeat("1,", 1_000) + "1]}}", "f:3:29: steps.a.for.each: the list has 1001 entries, and the outputs of more than 1000 are collected only on request: write collect: outputs, or collect: failures to keep only what failed, or collect: none"},
		{"each sees a state", "b: {agent: b}\n  a: {needs: [b], agent: a, for: {each: \"${ steps.b.state == 'completed' ? input : [] }\"}}", "f:4:45: steps.a.for.each: steps.b.state may change while the items are done or undone, and their list must not: use outputs of steps, or the input"},
		{"each sees a step", "b: {agent: b}\n  a: {needs: [b], agent: a, for: {each: \"${ values(steps.b) }\"}}", "f:4:52: steps.a.for.each: steps.b may change while the items are done or undone, and their list must not: use steps.b.output"},
		{"each sees the task", "a: {agent: a, for: {each: \"${ values(task) }\"}}", "f:3:40: steps.a.for.each: task may change while the items are done, and their list must not: name a member of it"},
		{"each sees items", "a: {agent: a, for: {each: \"${ item }\"}}", "f:3:33: steps.a.for.each: unknown name item: if and for.each are evaluated once, before there are items; item is for with, child, fail_if, fail_reason and undo.with"},
		{"each without needs", "a: {agent: a}\n  b: {agent: a, for: {each: \"${ steps.a.output }\"}}", "f:4:33: steps.b.for.each: step a may not have run yet: add it to needs of b"},
		{"a fault in a list", "a: {agent: a, for: {each: [1, \"${ inpt }\"]}}", `f:3:37: steps.a.for.each[1]: unknown name inpt: did you mean "input"?`},
		{"as is a variable", "a: {agent: a, for: {" + each + ", as: steps}}", `f:3:47: steps.a.for.as: "steps" is another variable already: give the entry a name such as order`},
		{"as is the index", "a: {agent: a, for: {" + each + ", as: index}}", `f:3:47: steps.a.for.as: "index" is another variable already: give the entry a name such as order`},
		{"as has a hyphen", "a: {agent: a, for: {" + each + ", as: my-order}}", `f:3:47: steps.a.for.as: "my-order" cannot be written in an expression: give the entry a name of letters, digits and _, such as order`},
		{"as is an operator", "a: {agent: a, for: {" + each + ", as: in}}", `f:3:47: steps.a.for.as: "in" cannot be written in an expression: give the entry a name of letters, digits and _, such as order`},
		{"as is no name", "a: {agent: a, for: {" + each + ", as: Order}}", `f:3:47: steps.a.for.as: "Order" is not a name: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64`},
		{"none in parallel", "a: {agent: a, for: {" + each + ", parallel: 0}}", "f:3:53: steps.a.for.parallel: 0 is not between 1 and 100"},
		{"too many in parallel", "a: {agent: a, for: {" + each + ", parallel: 101}}", "f:3:53: steps.a.for.parallel: 101 is not between 1 and 100"},
		{"tolerate is negative", "a: {agent: a, for: {" + each + ", tolerate: -1}}", "f:3:53: steps.a.for.tolerate: -1 is not between 0 and 10000"},
		{"tolerate is a fraction", "a: {agent: a, for: {" + each + ", tolerate: 0.5}}", "f:3:53: steps.a.for.tolerate: expected a number of items, or a whole percentage of them such as 1%, got the number 0.5"},
		{"tolerate is no whole percentage", "a: {agent: a, for: {" + each + ", tolerate: 1.5%}}", `f:3:53: steps.a.for.tolerate: expected a number of items, or a whole percentage of them such as 1%, got the text "1.5%"`},
		{"tolerate is more than all", "a: {agent: a, for: {" + each + ", tolerate: 101%}}", `f:3:53: steps.a.for.tolerate: expected a number of items, or a whole percentage of them such as 1%, got the text "101%"`},
		{"collect is unknown", "a: {agent: a, for: {" + each + ", collect: errors}}", `f:3:52: steps.a.for.collect: "errors" is not outputs, failures or none`},
		{"unknown key", "a: {agent: a, for: {" + each + ", paralel: 2}}", `f:3:43: steps.a.for.paralel: unknown key "paralel": did you mean "parallel"?`},
		{"a key beside it", "a: {agent: a, for: {" + each + "}, parallel: 2}", `f:3:44: steps.a.parallel: unknown key "parallel": it belongs to for: write for: {each: ..., parallel: ...}`},
		{"for a sleep", "a: {sleep: 1s, for: {" + each + "}}", "f:3:18: steps.a.for: a step that sleeps has no for: it may have needs, if"},
		{"for a wait", "a: {wait: {signal: s}, for: {" + each + "}}", "f:3:26: steps.a.for: a step that waits for a signal has no for: it may have needs, if, complete_within, on_timeout, fail_if, fail_reason, remind_after"},
		{"a pivot", "a: {agent: a, for: {" + each + "}, pivot: true}", "f:3:51: steps.a.pivot: a step with for cannot be the pivot, since some of its items may be done and others not: let a step that needs it be the pivot"},
		{"continue at a timeout", "a: {agent: a, for: {" + each + "}, on_timeout: continue}", "f:3:56: steps.a.on_timeout: a step with for goes on without the items that tolerate allows to fail or time out: write for: {tolerate: 1%}, and undo or park here"},
		{"one child for all", "a: {child: {workflow: x, id: \"${ task.id + '-x' }\"}, for: {" + each + "}}", "f:3:32: steps.a.child.id: the children of all items would have the same id: use item or index in it, or leave it out"},
		{"a condition on items", "a: {agent: a, for: {" + each + ", as: order}, if: \"${ order.paid }\"}", "f:3:63: steps.a.if: unknown name order: if and for.each are evaluated once, before there are items; order is for with, child, fail_if, fail_reason and undo.with"},
		{"an entry elsewhere", "a: {agent: a, for: {" + each + "}}\n  b: {agent: b, with: \"${ item }\"}", "f:4:27: steps.b.with: unknown name item: only the expressions of step a, which has a for, see it"},
		{"an index in the output", "a: {agent: a, for: {" + each + "}}\noutput: \"${ index }\"", "f:4:13: output: unknown name index: only the expressions of step a, which has a for, see it"},
		{"item by another name", "a: {agent: a, for: {" + each + ", as: order}, with: \"${ item }\"}", "f:3:65: steps.a.with: unknown name item: known are task, input, steps, order, index"},
		{"its own output", "a: {agent: a, for: {" + each + "}, with: \"${ steps.a.counts }\"}", "f:3:54: steps.a.with: a step cannot use its own output: it has not run yet"},
		{"an input", "a: {agent: a, for: {" + each + "}}\noutput: \"${ steps.a.input }\"", "f:4:13: output: steps.a has no input, since each of its items has one: collect: failures lists index, input and error of the items that failed"},
		{"an error", "a: {agent: a, for: {" + each + "}}\noutput: \"${ steps.a.error.message }\"", "f:4:13: output: steps.a has no error, since each of its items has one: collect: failures lists index, input and error of the items that failed"},
		{"another member", "a: {agent: a, for: {" + each + "}}\noutput: \"${ steps.a.count }\"", `f:4:13: output: steps.a has no member "count": did you mean "counts"?`},
		{"nothing collected", "a: {agent: a, for: {" + each + ", collect: none}}\noutput: \"${ steps.a.output }\"", "f:4:13: output: steps.a.output is always null, since its for says collect: none: write collect: outputs or failures, or use steps.a.counts"},
		{"counts of one", "a: {agent: a}\noutput: \"${ steps.a.counts }\"", `f:4:13: output: steps.a has no member "counts": known are state, input, output, error`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, faults := scheduler.Parse("f", []byte(head+"  "+c.text), nil)
			require.Nil(t, src)
			require.Equal(t, c.want, strings.TrimSpace(lines(faults)))
		})
	}
}

func TestAForWarnsOfWhatMayFailLater(t *testing.T) {
	t.Parallel()
	const large = "has the outputs of all items of %s, and fails if they take more than payload_bytes, by default 256 KiB: pass on what is needed of each with map, or collect failures"
	for _, c := range []struct{ name, text, want string }{
		{"all outputs as an input", `a: {agent: a, for: {each: [1, 2]}}` + "\n  b: {agent: b, needs: [a], with: {all: \"${ steps.a.output }\"}}", "f:4:45: warning: steps.b.with.all: " + fmt.Sprintf(large, "a")},
		{"all outputs as the output", `a-b: {agent: a, for: {each: "${ input }", collect: outputs}}` + "\noutput: \"${ steps['a-b'].output }\"", "f:4:13: warning: output: " + fmt.Sprintf(large, "a-b")},
		{"all outputs as the list of another", `a: {agent: a, for: {each: [1, 2]}}` + "\n  b: {agent: b, needs: [a], for: {each: \"${ steps.a.output }\", collect: none}}", "f:4:45: warning: steps.b.for.each: " + fmt.Sprintf(large, "a")},
		{"a part of the outputs", `a: {agent: a, for: {each: [1, 2]}}` + "\noutput: {n: \"${ len(steps.a.output) }\", one: \"${ steps.a.output[0] }\", ids: \"${ map(steps.a.output, #?.id) }\"}", ""},
		{"failures", `a: {agent: a, for: {each: [1, 2], tolerate: 1, collect: failures}}` + "\noutput: \"${ steps.a.output }\"", ""},
		{"failures of none", `a: {agent: a, for: {each: [1, 2], collect: failures}}`, "f:3:46: warning: steps.a.for.collect: is always an empty list, since no item may fail: say with tolerate how many may"},
		{"failures of 0%", `a: {agent: a, for: {each: [1, 2], tolerate: 0%, collect: failures}}`, "f:3:60: warning: steps.a.for.collect: is always an empty list, since no item may fail: say with tolerate how many may"},
		{"counts of a skipped step", `a: {agent: a, if: "${ input.x }", for: {each: [1, 2]}}` + "\noutput: \"${ steps.a.counts }\"", "f:4:13: warning: output: steps.a.counts is null when the step a is skipped"},
		{"an undo that needs its output", `a: {agent: a, for: {each: [1, 2]}, undo: {with: {id: "${ step.output.id }"}}}`,
			"f:3:60: warning: steps.a.undo.with.id: step.output is null when the outcome of the step is unknown, and this mapping then fails: use values that are known before the step runs, or ?. and ??"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, faults := scheduler.Parse("f", []byte(head+"  "+c.text), nil)
			require.Equal(t, c.want, strings.TrimSpace(lines(faults)))
			require.NotNil(t, src)
		})
	}
}

// Whatever an item needs can use its entry and its index.
func TestTheExpressionsOfAnItemSeeItsEntry(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`a: {agent: a, for: {each: "${ input }"}, with: "${ {'of': item, 'at': index} }", fail_if: "${ output.n > item.n + index }", fail_reason: "${ item } at ${ index }", undo: {with: "${ [item, index, step.input] }"}}`,
		`a: {child: {workflow: x, id: "${ task.id }-${ order.id }", labels: {at: "${ index }"}, priority: "${ order.priority }"}, for: {each: "${ input }", as: order}, with: "${ order }", undo: {agent: b, with: "${ order }"}}`,
		`a: {agent: a, for: {each: [1, {id: "${ task.id }"}, "${ input }"], tolerate: 100%, parallel: 100}, with: "${ item }", on_timeout: park, start_within: 1m, heartbeat: 10s}`,
		`a: {agent: a, limit: smtp, for: {each: "${ filter(input, #.paid) }", tolerate: 10000, collect: none}}` + "\n" + `output: "${ steps.a.counts.failed }"`,
	} {
		src, faults := scheduler.Parse("f", []byte(head+"  "+text), nil)
		require.Empty(t, faults)
		require.NotNil(t, src)
		compile(t, src)
	}
}
