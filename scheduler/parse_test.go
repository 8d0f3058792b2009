package scheduler_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/scheduler"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files of this package")

func openTestdata(ref string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", ref)) }

func parseExample(t testing.TB) *scheduler.Source {
	t.Helper()
	data, err := openTestdata("drone-delivery.yaml")
	require.NoError(t, err)
	src, faults := scheduler.Parse("drone-delivery.yaml", data, openTestdata)
	require.Empty(t, faults)
	return src
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func lines(faults []scheduler.Fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

func TestTheExampleOfTheDesignParsesWithoutAFault(t *testing.T) {
	t.Parallel()
	src := parseExample(t)
	require.Equal(t, "drone-delivery", src.Workflow)
	require.Len(t, src.Hash, 64)
	golden(t, "drone-delivery.body.json", append([]byte(src.Body), '\n'))
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	pretty, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	golden(t, "drone-delivery.complete.json", append(pretty, '\n'))
}

func TestEveryFaultIsReportedAtOnceByItsPlace(t *testing.T) {
	t.Parallel()
	data, err := openTestdata("bad.yaml")
	require.NoError(t, err)
	src, faults := scheduler.Parse("bad.yaml", data, openTestdata)
	require.Nil(t, src)
	golden(t, "bad.golden", []byte(lines(faults)))
}

func TestTheSameContentHasTheSameHashInYAMLAndJSON(t *testing.T) {
	t.Parallel()
	src := parseExample(t)
	again, faults := scheduler.Parse("x.json", src.Body, nil)
	require.Empty(t, faults)
	require.Equal(t, src.Hash, again.Hash)
	require.Equal(t, string(src.Body), string(again.Body))
}

const head = "workflow: w\nsteps:\n"

// Each case is a definition and its faults. The cases that only give steps get head in front, so their first line is 3.
func TestAFaultSaysWhereItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"f:1:1: the document is empty"}},
		{"only a comment", "# nothing\n", []string{"f:1:1: the document is empty"}},
		{"syntax", "workflow: w\nsteps: [a\n", []string{"f:3:1: while parsing a flow sequence: did not find expected ',' or ']'"}},
		{"a tab as indentation", "workflow: w\nsteps:\n\ta: {agent: a}\n", []string{"f:3:1: YAML does not allow a tab in the indentation: indent with spaces"}},
		{"a tab behind spaces", head + "  a:\n    agent: a\n  \tneeds: []\n", []string{"f:5:3: YAML does not allow a tab in the indentation: indent with spaces"}},
		{"no tab", head + "  a: {agent: @}", []string{"f:3:14: while scanning for the next token: found character that cannot start any token"}},
		{"two documents", "workflow: w\n---\nworkflow: v\n", []string{"f:1:1: a file holds one definition, and this has several documents"}},
		{"no mapping", "[a]", []string{"f:1:1: expected a mapping with the key workflow, got a list"}},
		{"nothing there", "{}", []string{"f:1:1: steps is missing: a mapping of at least one step", "f:1:1: workflow is missing: the name of the workflow"}},
		{"name", "workflow: My Flow\nsteps: {a: {agent: a}}", []string{`f:1:11: workflow: "My Flow" is not a name: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64`}},
		{"name of a number", "workflow: 5\nsteps: {a: {agent: a}}", []string{"f:1:11: workflow: expected text, got the number 5"}},
		{"long name", "workflow: " + strings.Repeat("a", 65) + "\nsteps: {a: {agent: a}}", []string{`f:1:11: workflow: "` + strings.Repeat("a", 60) + `..." is not a name: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64`}},
		{"no steps", "workflow: w\nsteps: {}", []string{"f:2:8: steps: a workflow has at least one step"}},
		{"steps as a list", "workflow: w\nsteps: [a]", []string{"f:2:8: steps: expected a mapping of steps by name, got a list"}},
		{"unknown key", "workflow: w\ndescripton: d\nsteps: {a: {agent: a}}", []string{`f:2:1: descripton: unknown key "descripton": did you mean "description"?`}},
		{"unknown key of a step", head + "  a: {agent: a, retrys: 3}", []string{`f:3:17: steps.a.retrys: unknown key "retrys": did you mean "retry"?`}},
		{"later key", head + "  a: {agent: a, on_failure: b}", []string{`f:3:17: steps.a.on_failure: "on_failure" (failure handlers) is reserved for a later version and not supported yet`}},
		{"later kind of step", head + "  a: {task: x}", []string{`f:3:7: steps.a.task: "task" (child tasks) is reserved for a later version and not supported yet`}},
		{"a wait for nothing", head + "  a: {wait: 5s}", []string{`f:3:13: steps.a.wait: expected a mapping with signal, got the text "5s"`}},
		{"a wait without a signal", head + "  a: {wait: {}}", []string{"f:3:7: steps.a.wait: signal is missing: the name of the signal, or a list of names of which the first that comes is taken"}},
		{"a wait without a signal beside other faults", head + "  a: {agent: a, wait: {}, undos: {}}", []string{
			"f:3:17: steps.a.wait: a step waits for a signal, or has an agent, or sleeps, not two of them: make it two steps",
			"f:3:17: steps.a.wait: signal is missing: the name of the signal, or a list of names of which the first that comes is taken",
			`f:3:27: steps.a.undos: unknown key "undos": did you mean "undo"?`}},
		{"a wait for no names", head + "  a: {wait: {signal: []}}", []string{"f:3:22: steps.a.wait.signal: expected 1 to 20 names of signals, got 0"}},
		{"a wait for one name twice", head + "  a: {wait: {signal: [x, x]}}", []string{"f:3:26: steps.a.wait.signal[1]: x is listed twice"}},
		{"two waits for one signal with different schemas", head + "  a: {wait: {signal: x, schema: {type: object}}}\n  b: {wait: {signal: [y, x]}}\n  c: {wait: {signal: y}}", []string{`f:4:26: steps.b.wait.signal[1]: steps "a" and "b" wait for the signal x with different schemas: give both the same schema, or the signals different names`}},
		{"a wait with a key of agents", head + "  a: {wait: {signal: x}, undo: {}}", []string{"f:3:26: steps.a.undo: a step that waits for a signal has no undo: it may have needs, if, complete_within, on_timeout, fail_if, fail_reason, remind_after"}},
		{"a wait and an agent", head + "  a: {agent: a, wait: {signal: x}}", []string{"f:3:17: steps.a.wait: a step waits for a signal, or has an agent, or sleeps, not two of them: make it two steps"}},
		{"an operation of no name", head + "  a: {agent: a, operation: Capture}", []string{`f:3:28: steps.a.operation: "Capture" is not a name: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64`}},
		{"the operation do", head + "  a: {agent: a, operation: do, undo: {operation: undo}}", []string{
			"f:3:28: steps.a.operation: do is not the name of an operation, which has a do and an undo: leave operation out",
			"f:3:50: steps.a.undo.operation: undo is not the name of an operation, which has a do and an undo: leave operation out"}},
		{"an operation of nobody", head + "  a: {sleep: 5s, operation: b}", []string{"f:3:18: steps.a.operation: a step that sleeps has no operation: it may have needs, if"}},
		{"two kinds", head + "  a: {agent: a, sleep: 5s}", []string{"f:3:17: steps.a.sleep: a step has an agent or sleeps, not both: make it two steps"}},
		{"a sleep with a key of agents", head + "  a: {sleep: 5s, with: {}, pivot: true}", []string{
			"f:3:18: steps.a.with: a step that sleeps has no with: it may have needs, if", "f:3:28: steps.a.pivot: a step that sleeps has no pivot: it may have needs, if"}},
		{"a sleep of no duration", head + "  a: {sleep: tomorrow}", []string{`f:3:14: steps.a.sleep: "tomorrow" is not a duration such as 500ms, 30s, 10m or 2h`}},
		{"a sleep of an expression", head + "  a: {sleep: \"${ input.at }\"}", []string{`f:3:14: steps.a.sleep: expected a duration such as 10m, got an expression: write sleep: {until: "${ input.at }"}, whose result is an instant or a duration`}},
		{"a sleep of an instant", head + "  a: {sleep: 2030-01-01T00:00:00Z}", []string{"f:3:14: steps.a.sleep: expected a duration such as 10m, got an instant: write sleep: {until: 2030-01-01T00:00:00Z}"}},
		{"a sleep without an end", head + "  a: {sleep: {}}", []string{"f:3:7: steps.a.sleep: until is missing: the instant at which the step is over, or an expression that gives it"}},
		{"a sleep until no instant", head + "  a: {sleep: {until: 10m}}", []string{`f:3:22: steps.a.sleep.until: "10m" is not an instant such as 2026-11-21T14:00:00Z; for a duration write sleep: 10m`}},
		{"a sleep until what is not there", head + "  a: {sleep: {until: \"${ inputs.at }\"}}", []string{`f:3:26: steps.a.sleep.until: unknown name inputs: did you mean "input"?`}},
		{"schedule", "workflow: w\nschedule: x\nsteps: {a: {agent: a}}", []string{"f:2:1: schedule: unknown key \"schedule\": if this is a schedule, apply it with `sagalog schedule apply`"}},
		{"duplicate key", head + "  a: {agent: a}\n  a: {agent: b}", []string{"f:4:3: steps.a: duplicate key, first on line 3"}},
		{"anchors", head + "  a: &x {agent: a}\n  b: *x", []string{
			"f:3:6: steps.a: anchors and aliases are not supported: use defaults, or repeat the value",
			"f:4:6: steps.b: anchors and aliases are not supported: use defaults, or repeat the value"}},
		{"merge key", head + "  a: {<<: {agent: a}}", []string{"f:3:7: steps.a: a key must be text"}},
		{"tags", head + "  a: {agent: a, with: !!binary aGk=}", []string{"f:3:23: steps.a.with: the tag !!binary is not supported: JSON has no such type"}},
		{"infinity", head + "  a: {agent: a, with: .inf}", []string{"f:3:23: steps.a.with: .inf is not a JSON number"}},
		{"missing agent", head + "  a: {}", []string{"f:3:3: steps.a: agent is missing: the kind of agent that does the step"}},
		{"empty agent", head + "  a: {agent: \"\"}", []string{"f:3:14: steps.a.agent: is empty: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64"}},
		{"step without a body", head + "  a:", []string{"f:3:5: steps.a: expected a mapping with the key agent, got nothing"}},
		{"step name", head + "  A/b: {agent: a}", []string{`f:3:3: steps.A/b: "A/b" is not a name: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64`}},
		{"unknown need", head + "  pack: {agent: a}\n  b: {agent: a, needs: [pakc]}", []string{`f:4:25: steps.b.needs[0]: there is no step "pakc": did you mean "pack"?`}},
		{"needs itself", head + "  a: {agent: a, needs: [a]}", []string{"f:3:25: steps.a.needs[0]: step a needs itself"}},
		{"needs twice", head + "  a: {agent: a}\n  b: {agent: a, needs: [a, a]}", []string{"f:4:28: steps.b.needs[1]: a is needed twice"}},
		{"needs as text", head + "  a: {agent: a}\n  b: {agent: a, needs: a}", []string{`f:4:24: steps.b.needs: expected a list of steps, got the text "a": write [a]`}},
		{"needs a number", head + "  a: {agent: a, needs: [1]}", []string{"f:3:25: steps.a.needs[0]: expected the name of a step, got the number 1"}},
		{"cycle", head + "  c: {agent: a, needs: [a]}\n  a: {agent: a, needs: [b]}\n  b: {agent: a, needs: [c]}\n  d: {agent: a, needs: [c]}", []string{"f:4:3: steps.a: steps need each other in a cycle: a -> b -> c -> a"}},
		{"bad duration", head + "  a: {agent: a, complete_within: 5 s}", []string{`f:3:34: steps.a.complete_within: "5 s" is not a duration such as 500ms, 30s, 10m or 2h`}},
		{"duration without a unit", head + "  a: {agent: a, complete_within: 5}", []string{"f:3:34: steps.a.complete_within: expected a duration such as 30s, got the number 5: write the unit, such as 5s"}},
		{"short heartbeat", head + "  a: {agent: a, complete_within: 1m, heartbeat: 4s}", []string{"f:3:49: steps.a.heartbeat: heartbeat 4s is shorter than 5s, the shortest: each one is a record of the history"}},
		{"heartbeat over the cap", head + "  a: {agent: a, heartbeat: 30s}", []string{"f:3:28: steps.a.heartbeat: heartbeat 30s is not shorter than complete_within 30s, the most that an attempt takes: it would have no effect"}},
		{"heartbeat over the cap of the defaults", "workflow: w\ndefaults: {complete_within: 8s}\nsteps: {a: {agent: a, heartbeat: 9s}}", []string{"f:3:34: steps.a.heartbeat: heartbeat 9s is not shorter than complete_within 8s, the most that an attempt takes: it would have no effect"}},
		{"heartbeat of an undo", head + "  a: {agent: a, undo: {heartbeat: 9s}}", []string{`f:3:24: steps.a.undo.heartbeat: unknown key "heartbeat": known are agent, operation, with, complete_within, retry`}},
		{"negative duration", head + "  a: {agent: a, complete_within: -5s}", []string{`f:3:34: steps.a.complete_within: "-5s" is not positive`}},
		{"tiny duration", head + "  a: {agent: a, complete_within: 5us}", []string{`f:3:34: steps.a.complete_within: "5us" is less than a millisecond, the smallest duration here`}},
		{"names of before", "workflow: w\ndefaults: {complete_by: 5s, retry: {max: 1m}, undo: {complete_by: 5s}}\nsteps:\n  a: {agent: a, complete_by: 5s, retry: {max: 1m}, undo: {complete_by: 5s, retry: {max: 1m}}}", []string{
			`f:2:12: defaults.complete_by: unknown key "complete_by": it is called "complete_within" now`,
			`f:2:37: defaults.retry.max: unknown key "max": it is called "max_backoff" now`,
			`f:2:54: defaults.undo.complete_by: unknown key "complete_by": it is called "complete_within" now`,
			`f:4:17: steps.a.complete_by: unknown key "complete_by": it is called "complete_within" now`,
			`f:4:42: steps.a.retry.max: unknown key "max": it is called "max_backoff" now`,
			`f:4:59: steps.a.undo.complete_by: unknown key "complete_by": it is called "complete_within" now`,
			`f:4:84: steps.a.undo.retry.max: unknown key "max": it is called "max_backoff" now`}},
		{"checks", head + "  a: {agent: a, fail_if: \"${ steps.a.output.ok }\", fail_reason: \"${ outptu.by }\"}\n  b: {agent: a, fail_reason: no}\n  c: {agent: a, fail_if: \"${ 1 > 2 }\"}\n  d: {agent: a, fail_if: \"${ 1 < 2 }\", if: \"${ output.ok }\"}", []string{
			"f:3:30: steps.a.fail_if: a check has the output of its step as output",
			`f:3:69: steps.a.fail_reason: unknown name outptu: did you mean "output"?`,
			"f:4:17: steps.b.fail_reason: fail_reason says why fail_if holds, but the step has no fail_if",
			"f:5:26: steps.c.fail_if: the check can never fail: its condition is always false",
			"f:6:26: steps.d.fail_if: the step always fails: its condition is always true",
			`f:6:48: steps.d.if: unknown name output: known are task, input, steps`}},
		{"remembered for too short a time", "workflow: w\nremember_for: 999ms\nsteps: {a: {agent: a}}", []string{`f:2:15: remember_for: 999ms is not from 1s to 87600h, which is how long tasks can be remembered after their end`}},
		{"remembered for too long", "workflow: w\nremember_for: 87601h\nsteps: {a: {agent: a}}", []string{`f:2:15: remember_for: 87601h is not from 1s to 87600h, which is how long tasks can be remembered after their end`}},
		{"remembered without a unit", "workflow: w\nremember_for: 7\nsteps: {a: {agent: a}}", []string{`f:2:15: remember_for: expected a duration such as 30s, got the number 7: write the unit, such as 7s`}},
		{"zero deadline", "workflow: w\ndeadline: 0s\nsteps: {a: {agent: a}}", []string{`f:2:11: deadline: "0s" is not positive`}},
		{"retry values", head + "  a: {agent: a, retry: {attempts: 0, backoff: 2s, factor: 0.5, max_backoff: 1s, then: stop}}", []string{
			"f:3:35: steps.a.retry.attempts: 0 is not between 1 and 1000",
			"f:3:59: steps.a.retry.factor: 0.5 is not between 1 and 100",
			"f:3:77: steps.a.retry.max_backoff: max_backoff 1s is less than backoff 2s",
			`f:3:87: steps.a.retry.then: "stop" is not undo or park`}},
		{"values of limits", head + "  a: {agent: a, start_within: 0s, retry: {within: 5}, undo: {retry: {within: -1s}}}", []string{
			`f:3:31: steps.a.start_within: "0s" is not positive`,
			"f:3:51: steps.a.retry.within: expected a duration such as 30s, got the number 5: write the unit, such as 5s",
			`f:3:78: steps.a.undo.retry.within: "-1s" is not positive`}},
		{"values of on_timeout", head + "  a: {agent: a, on_timeout: retry}\n  b: {agent: a, needs: [a], pivot: true, on_timeout: continue}\n  c: {agent: a, needs: [b], on_timeout: undo}\n  d: {agent: a, needs: [b], on_timeout: continue}", []string{
			`f:3:29: steps.a.on_timeout: "retry" is not undo, park or continue`,
			"f:4:54: steps.b.on_timeout: the task cannot go on without its pivot: write park or undo, or leave on_timeout out",
			"f:5:41: steps.c.on_timeout: the steps after the pivot are never undone: write park or continue, or leave on_timeout out"}},
		{"numbers and durations out of range", head + "  a: {agent: a, complete_within: 99999999999h, retry: {attempts: 99999999999999999999, factor: 1000}, cool_down: {wait: 1s, times: -0x10}}", []string{
			`f:3:34: steps.a.complete_within: "99999999999h" is longer than the longest duration, which is 2562047h`,
			"f:3:66: steps.a.retry.attempts: 99999999999999999999 is not between 1 and 1000",
			"f:3:96: steps.a.retry.factor: 1000 is not between 1 and 100",
			"f:3:132: steps.a.cool_down.times: -0x10 is not between 0 and 1000"}},
		{"retry as a number", head + "  a: {agent: a, retry: 3}", []string{"f:3:24: steps.a.retry: expected a mapping, got the number 3"}},
		{"attempts as text", head + "  a: {agent: a, retry: {attempts: \"3\"}}", []string{`f:3:35: steps.a.retry.attempts: expected a whole number, got the text "3"`}},
		{"cool down without wait", head + "  a: {agent: a, cool_down: {times: 3}}", []string{"f:3:17: steps.a.cool_down: wait is missing: how long to wait before the step starts over"}},
		{"undo of an undo", head + "  a: {agent: a, undo: {retry: {then: undo}}}", []string{"f:3:38: steps.a.undo.retry.then: an undo cannot be undone: it parks the task when its attempts are used up"}},
		{"undo with an empty agent", head + "  a: {agent: a, undo: {agent: \"\"}}", []string{"f:3:31: steps.a.undo.agent: is empty: a name is a lower-case letter, then lower-case letters, digits, - and _, up to 64"}},
		{"undo without a value", head + "  a:\n    agent: a\n    undo:", []string{"f:5:10: steps.a.undo: expected a mapping, {} if the undo takes no more than the step's input, got nothing"}},
		{"never runs", head + "  a: {agent: a, if: false}", []string{"f:3:21: steps.a.if: the step can never run: its condition is always false"}},
		{"never runs by an expression", head + "  a: {agent: a, if: \"${ 1 > 2 }\"}", []string{"f:3:21: steps.a.if: the step can never run: its condition is always false"}},
		{"condition of another type", head + "  a: {agent: a, if: \"${ 1 }\"}", []string{"f:3:21: steps.a.if: ${ 1 }: the condition evaluates to a number, not to true or false"}},
		{"always", head + "  a: {agent: a, if: true}", []string{"f:3:21: steps.a.if: expected text, got the boolean true"}},
		{"expression", head + "  a: {agent: a, with: {x: \"y ${ input.n + }\"}}", []string{"f:3:42: steps.a.with.x: unexpected token EOF"}},
		{"expression in a plain scalar", head + "  a:\n    agent: a\n    with:\n      x: é ${ inpt }", []string{`f:6:15: steps.a.with.x: unknown name inpt: did you mean "input"?`}},
		{"expression behind escapes", head + "  a: {agent: a, with: \"\\\"\\u00e9\\\\ ${ foo }\"}", []string{"f:3:38: steps.a.with: unknown name foo: known are task, input, steps"}},
		{"expression behind a doubled quote", head + "  a: {agent: a, with: 'it''s ${ foo }'}", []string{"f:3:33: steps.a.with: unknown name foo: known are task, input, steps"}},
		{"expression in a block", head + "  a:\n    agent: a\n    with: |\n      first\n      then ${ foo }\n", []string{"f:7:15: steps.a.with: unknown name foo: known are task, input, steps"}},
		{"two faults in one text", head + "  a: {agent: a, with: \"${ b } ${ c }\"}", []string{
			"f:3:27: steps.a.with: unknown name b: known are task, input, steps",
			"f:3:34: steps.a.with: unknown name c: known are task, input, steps"}},
		{"expression in a list", head + "  a: {agent: a, with: [1, {x: \"${ now() }\"}]}", []string{"f:3:35: steps.a.with[1].x: now is not available: an expression must give the same result in every replay; pass the time in the input"}},
		{"expression in a key", head + "  a: {agent: a, with: {\"${ input.k }\": 1}}", []string{"f:3:24: steps.a.with.${ input.k }: a key cannot contain an expression"}},
		{"no closing brace", head + "  a: {agent: a, with: \"${ input\"}", []string{"f:3:24: steps.a.with: ${ has no closing }; write $${ for a literal ${"}},
		{"step as a variable", head + "  a: {agent: a}\n  b: {agent: b, needs: [a], with: \"${ a.id }\"}", []string{"f:4:39: steps.b.with: unknown name a: for the output of the step write steps.a.output"}},
		{"unknown step in an expression", head + "  pack: {agent: a}\n  b: {agent: b, needs: [pack], with: \"${ steps.pakc.output }\"}", []string{`f:4:42: steps.b.with: there is no step "pakc": did you mean "pack"?`}},
		{"not among the needs", head + "  a: {agent: a}\n  b: {agent: b, with: \"${ steps.a.output }\"}", []string{"f:4:27: steps.b.with: step a may not have run yet: add it to needs of b"}},
		{"its own output", head + "  a: {agent: a, with: \"${ steps.a.output }\"}", []string{"f:3:27: steps.a.with: a step cannot use its own output: it has not run yet"}},
		{"its own output in an undo", head + "  a: {agent: a, undo: {with: \"${ steps.a.output }\"}}", []string{"f:3:34: steps.a.undo.with: an undo mapping has its own step as step.input and step.output"}},
		{"step outside of an undo", head + "  a: {agent: a, with: \"${ step.input }\"}", []string{"f:3:27: steps.a.with: unknown name step: step is for undo mappings; write steps.step.output for another step"}},
		{"members of a step", head + "  a: {agent: a}\noutput: \"${ steps.a.ouput }\"", []string{`f:4:13: output: steps.a has no member "ouput": did you mean "output"?`}},
		{"members of the task", head + "  a: {agent: a, with: \"${ task.name }\"}", []string{`f:3:27: steps.a.with: task has no member "name": known are id, run, workflow, version, labels, priority, submitted_at, deadline, reason`}},
		{"steps as a whole", head + "  a: {agent: a}\noutput: \"${ steps }\"", []string{`f:4:13: output: steps needs the name of a step: write steps.<step>.output, or steps["<step>"].output`}},
		{"a step by an expression", head + "  a: {agent: a}\noutput: \"${ steps[input.x] }\"", []string{`f:4:13: output: steps needs the name of a step: write steps.<step>.output, or steps["<step>"].output`}},
		{"two pivots", head + "  a: {agent: a, pivot: true}\n  b: {agent: b, needs: [a], pivot: true}", []string{"f:4:36: steps.b.pivot: a workflow has one pivot, which is a already"}},
		{"undo after the pivot", head + "  a: {agent: a, pivot: true, retry: {then: undo}}\n  b: {agent: b, needs: [a], retry: {then: undo}}", []string{
			"f:4:43: steps.b.retry.then: the steps after the pivot are never undone: write park, or leave then out"}},
		{"pivot of another type", head + "  a: {agent: a, pivot: 1}", []string{"f:3:24: steps.a.pivot: expected true or false, got the number 1"}},
		{"schema", "workflow: w\ninput: {type: strin}\nsteps: {a: {agent: a}}", []string{
			"f:2:15: input.type: not a JSON Schema: got string, want array",
			"f:2:15: input.type: not a JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'"}},
		{"schema of another type", "workflow: w\ninput: 5\nsteps: {a: {agent: a}}", []string{"f:2:8: input: expected a JSON Schema, got the number 5"}},
		{"schema file missing", "workflow: w\ninput: {$ref: gone.json}\nsteps: {a: {agent: a}}", []string{"f:2:15: $ref: gone.json: file does not exist"}},
		{"schema from elsewhere", "workflow: w\ninput: {properties: {a: {$ref: \"https://x.example/y\"}}}\nsteps: {a: {agent: a}}", []string{"f:2:32: $ref: https://x.example/y is not a file: a schema is never loaded from elsewhere, since it could then change without a new version"}},
		{"schema reference to nothing", "workflow: w\ninput: {$ref: \"#/$defs/x\"}\nsteps: {a: {agent: a}}", []string{"f:2:8: input: not a JSON Schema: json-pointer in \"#/$defs/x\" not found"}},
		{"fault in a schema file", "workflow: w\ninput: {$ref: bad.json}\nsteps: {a: {agent: a}}", []string{"bad.json:2:13: input.minLength: not a JSON Schema: is -1, and must be at least 0"}},
		{"deep", "workflow: w\nsteps: {a: {agent: a, with: " + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}}", []string{"f:2:127: steps.a.with" + strings.Repeat("[0]", 62) + "[0...: nested more than 100 levels deep"}},
		{"ambiguous number", head + "  a: {agent: a, with: 0123}", []string{"f:3:23: steps.a.with: 0123 begins with 0, which YAML reads in two ways: quote it, or leave the 0 out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, faults := scheduler.Parse("f", []byte(c.text), func(ref string) ([]byte, error) {
				if ref == "bad.json" {
					return []byte("{\n\"minLength\":-1}"), nil
				}
				return nil, fs.ErrNotExist
			})
			require.Nil(t, src)
			require.Equal(t, strings.Join(c.want, "\n"), strings.TrimSpace(lines(faults)))
		})
	}
}

func TestAWarningDoesNotRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"beside the pivot", head + "  a: {agent: a, pivot: true}\n  b: {agent: b}", "f:4:3: warning: steps.b: runs in parallel with the pivot a: if it fails after the pivot completed, it can no longer be undone; let the pivot need it, or let it need the pivot"},
		{"undo behind a pivot", head + "  a: {agent: a, pivot: true}\n  b: {agent: b, needs: [a], undo: {}}", "f:4:35: warning: steps.b.undo: used by a rerun alone: nothing else undoes the steps after the pivot"},
		{"undo of a pivot", head + "  a: {agent: a, pivot: true, undo: {}}", "f:3:36: warning: steps.a.undo: never used: the pivot and the steps after it are never undone"},
		{"undo that needs an error", head + "  a: {agent: a, undo: {with: {why: \"${ step.error.class }\"}}}", "f:3:40: warning: steps.a.undo.with.why: step.error is null when the step completed, and this mapping then fails: use ?. and ??"},
		{"undo that needs its output", head + "  a: {agent: a, undo: {with: {id: \"${ step.output.id }\"}}}", "f:3:39: warning: steps.a.undo.with.id: step.output is null when the outcome of the step is unknown, and this mapping then fails: use values that are known before the step runs, or ?. and ??"},
		{"undo that minds null", head + "  a: {agent: a, undo: {with: {id: \"${ step.output?.id ?? task.id }\", x: \"${ step.output == nil ? 0 : step.output.n * 2 }\", o: \"${ step.output }\"}}}", ""},
		{"output of a skipped step", head + "  a: {agent: a, if: \"${ input.x }\"}\noutput: {b: \"${ steps.a.output }\"}", "f:4:17: warning: output.b: steps.a.output is null when the step a is skipped"},
		{"mapping from a skipped step", head + "  a-b: {agent: a, if: \"${ input.x }\"}\n  b: {agent: b, needs: [a-b], with: \"${ steps['a-b'].output.id }\"}", "f:4:41: warning: steps.b.with: steps[\"a-b\"].output is null when the step a-b is skipped, and this then fails: use ?. and ??"},
		{"output of a step that may time out", head + "  a: {agent: a, if: \"${ input.x }\", on_timeout: continue}\n  b: {agent: a, on_timeout: continue}\noutput: {a: \"${ steps.a.output }\", b: \"${ steps.b.output ?? steps.b.error }\"}",
			"f:5:17: warning: output.a: steps.a.output is null when the step a is skipped or times out\nf:5:43: warning: output.b: steps.b.output is null when the step b times out"},
		{"mapping that minds a skip", head + "  a: {agent: a, if: \"${ input.x }\"}\n  b: {agent: b, needs: [a], with: \"${ steps.a.output?.id }\"}", ""},
		{"sum that minds a skip", head + "  a: {agent: a, if: \"${ input.x }\"}\n  b: {agent: b, needs: [a], with: \"${ input.n + (steps.a.output?.n ?? 0) }\"}", ""},
		{"check of a signal that forgets the payload", head + "  a: {wait: {signal: x}, fail_if: \"${ output.decision != 'yes' }\"}\noutput: \"${ steps.a.output?.by.name }\"",
			"f:3:39: warning: steps.a.fail_if: step a waits for a signal, so its output is {signal, payload}: write output.payload.decision\n" +
				"f:4:13: warning: output: step a waits for a signal, so its output is {signal, payload}: write steps.a.output.payload.by.name"},
		{"check of a signal", head + "  a: {wait: {signal: x}, fail_if: \"${ output.payload.decision != 'yes' }\", fail_reason: \"${ output.signal } ${ output }\"}", ""},
		{"payload with a schema", head + "  a: {wait: {signal: x, schema: {properties: {decision: {type: string}}}}, fail_if: \"${ output.payload.decison != 'yes' }\"}",
			"f:3:89: warning: steps.a.fail_if: the schema of the signal has no property \"decison\": did you mean \"decision\"?"},
		{"misspelt input", "workflow: w\ninput: {properties: {who: {properties: {name: {}}}}}\nlabels: {w: \"${ input.who.nmae }\"}\nsteps: {a: {agent: a, with: \"${ input.whoo }\"}}",
			"f:3:17: warning: labels.w: the schema of the input has no property \"nmae\": did you mean \"name\"?\n" +
				"f:4:33: warning: steps.a.with: the schema of the input has no property \"whoo\": did you mean \"who\"?"},
		{"input that the schema forbids", "workflow: w\ninput: {properties: {who: {}}, additionalProperties: false}\nsteps: {a: {agent: a, with: \"${ input.whoo ?? 'nobody' }\"}}",
			"f:3:33: warning: steps.a.with: the schema of the input has no property \"whoo\": did you mean \"who\"?"},
		{"input with other properties", "workflow: w\ninput: {properties: {who: {}}, additionalProperties: {type: string}}\nsteps: {a: {agent: a, with: \"${ input.whoo }\"}}", ""},
		{"input with alternatives", "workflow: w\ninput: {properties: {who: {$ref: '#/$defs/p'}}, anyOf: [{required: [who]}], $defs: {p: {}}}\nsteps: {a: {agent: a, with: \"${ input.whoo ?? input.who.x }\"}}", ""},
		{"input with elements", "workflow: w\ninput: {properties: {who: {type: array}}}\nsteps: {a: {agent: a, with: \"${ input.who[0].x }\"}}", ""},
		{"sum that minds no skip", head + "  a: {agent: a, if: \"${ input.x }\"}\n  b: {agent: b, needs: [a], with: \"${ input.n + steps.a.output.n }\"}", "f:4:49: warning: steps.b.with: steps.a.output is null when the step a is skipped, and this then fails: use ?. and ??"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src, faults := scheduler.Parse("f", []byte(c.text), nil)
			require.Equal(t, c.want, strings.TrimSpace(lines(faults)))
			require.NotNil(t, src)
			require.Equal(t, len(faults), len(src.Warnings))
		})
	}
}

func TestTooManyStepsAreOneFault(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(head)
	for i := range 1001 {
		b.WriteString("  s" + strings.Repeat("x", i%40) + "_" + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + ": {agent: a}\n")
	}
	src, faults := scheduler.Parse("f", []byte(b.String()), nil)
	require.Nil(t, src)
	require.Contains(t, lines(faults), "1001 steps are more than 1000")
}

func TestABodyKeepsNumbersAndText(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(head+"  a: {agent: a, with: {n: 1.10, big: 12345678901234567890, hex: 0x1F, s: \"<&>\", d: 2026-01-01, y: yes, nil: ~}}"), nil)
	require.Empty(t, faults)
	require.Equal(t, `{"steps":{"a":{"agent":"a","with":{"big":12345678901234567890,"d":"2026-01-01","hex":31,"n":1.10,"nil":null,"s":"<&>","y":"yes"}}},"workflow":"w"}`, string(src.Body))
}

func TestJSONWithSurrogatePairsIsRead(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(`{"workflow":"w","description":"\ud83d\ude80 \\ud83d \u00e9 \/","steps":{"a":{"agent":"a"}}}`), nil)
	require.Empty(t, faults)
	require.Contains(t, string(src.Body), `"description":"🚀 \\ud83d é /"`)
}

func TestASchemaMayReferToFilesInCircles(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.json":     `{"type":"object","properties":{"b":{"$ref":"sub/b.json"}}}`,
		"sub/b.json": `{"type":"object","properties":{"a":{"$ref":"../a.json"},"n":{"type":"integer"}}}`,
	}
	src, faults := scheduler.Parse("f", []byte("workflow: w\ninput: {$ref: a.json}\nsteps: {a: {agent: a}}"), func(ref string) ([]byte, error) {
		if text, ok := files[ref]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	})
	require.Empty(t, faults)
	p := compile(t, src)
	require.Empty(t, p.ValidateInput(json.RawMessage(`{"b":{"a":{"b":{"n":1}}}}`)))
	require.Equal(t, []scheduler.InputFault{{Pointer: "/b/a/b/n", Message: "got string, want integer"}},
		p.ValidateInput(json.RawMessage(`{"b":{"a":{"b":{"n":"x"}}}}`)))
}

func compile(t testing.TB, src *scheduler.Source) *scheduler.Program {
	t.Helper()
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	p, err := scheduler.Compile(d)
	require.NoError(t, err)
	return p
}

// A definition is adopted by a fact, which must fit into a record. The files that it refers to may be larger than it is.
func TestADefinitionWithItsFilesIsBounded(t *testing.T) {
	t.Parallel()
	parse := func(bytes int) []scheduler.Fault {
		_, found := scheduler.Parse("w.yaml", []byte("workflow: w\ninput: {properties: {a: {$ref: a.yaml}, b: {$ref: b.yaml}}}\nsteps: {s: {agent: a}}"),
			func(string) ([]byte, error) { return []byte("description: " + strings.Repeat("x", bytes)), nil })
		return found
	}
	require.Empty(t, parse(700_000))
	found := parse(900_000)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "are allowed: shorten its schemas, or divide the workflow")
}
