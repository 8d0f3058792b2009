package scheduler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// accept accepts a submission by a workflow with these labels and priority, and returns what the task gets, or the faults.
func accept(t *testing.T, workflow string, sub events.Submission) string {
	t.Helper()
	src, faults := scheduler.Parse("f", []byte("workflow: w\n"+workflow+"\nsteps: {a: {agent: a}}\n"), nil)
	require.NotNil(t, src, lines(faults))
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	s := scheduler.New()
	require.NoError(t, s.Prepare("h", body))
	sub.ID = "t"
	before := fmt.Sprint(sub.Labels)
	a, wrong := s.Accept("h", &sub, 3)
	require.Equal(t, before, fmt.Sprint(sub.Labels), "the submission is not changed")
	if wrong != "" {
		return wrong
	}
	return fmt.Sprint(a.Labels, " ", a.Priority)
}

func TestAWorkflowGivesItsTasksLabelsAndAPriority(t *testing.T) {
	t.Parallel()
	in := events.Submission{Input: json.RawMessage(`{"tenant":"acme","amount":1.10,"big":12345678901234567890,"vip":false,"none":null,"list":[1],"long":"` + strings.Repeat("x", 257) + `"}`)}
	for workflow, want := range map[string]string{
		`labels: {tenant: "${ input.tenant }", kind: order, year: 2026, test: false}`:               `map[kind:order tenant:acme test:false year:2026] 0`,
		`labels: {amount: "${ input.amount }", big: "${ input.big }", vip: "${ input.vip }"}`:       `map[amount:1.10 big:12345678901234567890 vip:false] 0`,
		`labels: {none: "${ input.none }", absent: "${ input.absent }", text: "<${ input.none }>"}`: `map[text:<>] 0`,
		`labels: {of: "${ task.workflow }@${ task.version } ${ task.id }"}`:                         `map[of:w@3 t] 0`,
		`priority: 7`:                          `map[] 7`,
		`priority: "${ input.vip ? 10 : -5 }"`: `map[] -5`,
		`priority: "${ input.absent }"`:        `map[] 0`,
		"labels: {tenant: \"${ input.tenant }\"}\npriority: \"${ task.labels.tenant == 'acme' ? 9 : 1 }\"": `map[tenant:acme] 9`,
		`labels: {bad: "${ input.list }", worse: "${ input.none.x }", long: "${ input.long }"}`: `/labels/bad: the label of the workflow is an object or a list; a label is a text, a number, true or false; ` +
			`/labels/long: the label of the workflow has 257 bytes; 256 are allowed; ` +
			`/labels/worse: the label of the workflow: ${ input.none.x }: input.none is null, so it has no member "x"`,
		`priority: "${ input.amount }"`:        `/priority: the priority of the workflow is 1.10; it must be a whole number from -1000 to 1000`,
		`priority: "${ input.tenant }"`:        `/priority: the priority of the workflow is "acme"; it must be a whole number from -1000 to 1000`,
		`priority: "${ 1001 }"`:                `/priority: the priority of the workflow is 1001; it must be a whole number from -1000 to 1000`,
		`priority: "${ input.tenant.x }"`:      `/priority: the priority of the workflow: ${ input.tenant.x }: input.tenant is a string, so it has no member "x"`,
		"input: {type: object, required: [x]}": `/input: missing property 'x'`,
	} {
		require.Equal(t, want, accept(t, workflow, in), workflow)
	}
}

// What a submission says itself wins, and its expression is not even evaluated.
func TestTheLabelsOfASubmissionWin(t *testing.T) {
	t.Parallel()
	const workflow = "labels: {tenant: \"${ input.x.y }\", kind: order}\npriority: \"${ task.labels.tenant == 'own' ? 9 : 1 }\""
	own := map[string]string{"tenant": "own", "more": ""}
	require.Equal(t, "map[kind:order more: tenant:own] 9", accept(t, workflow, events.Submission{Labels: own}))
	require.Equal(t, "map[kind:order more: tenant:own] -3", accept(t, workflow, events.Submission{Labels: own, Priority: -3}))

	full := map[string]string{}
	for i := range events.MaxLabels {
		full[fmt.Sprint("l", i)] = "x"
	}
	require.Equal(t, "/labels: has 33 members with those of the workflow; 32 are allowed", accept(t, `labels: {kind: order}`, events.Submission{Labels: full}))
	require.Contains(t, accept(t, `labels: {l1: order}`, events.Submission{Labels: full}), "l1:x")
}

func TestFaultsOfLabelsAndPriorityHaveTheirPlace(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(`workflow: w
labels:
  a: null
  b: [x]
  "c:d": x
  e: "${ steps.s.output }"
  f: "${ task.priority }"
  g: "${ inptu.x }"
  h: `+strings.Repeat("x", 257)+`
priority: "${ task.deadline + output }"
steps: {s: {agent: a}}
`), nil)
	require.Nil(t, src)
	require.Equal(t, strings.TrimSpace(`
f:3:6: labels.a: expected text, a number, true or false, or an expression, got nothing
f:4:6: labels.b: expected text, a number, true or false, or an expression, got a list
f:5:3: labels.c:d: not a label: a key has 1 to 64 bytes without a colon, a value up to 256
f:6:10: labels.e: unknown name steps: labels, priority, fair_by and concurrency are evaluated when the task is accepted, before any step: use input and task
f:7:10: labels.f: task.priority is not known yet when the task is accepted: use input, or task.id, task.workflow, task.version
f:8:10: labels.g: unknown name inptu: did you mean "input"?
f:9:6: labels.h: not a label: a key has 1 to 64 bytes without a colon, a value up to 256
f:10:15: priority: task.deadline is not known yet when the task is accepted: use input, or task.id, task.workflow, task.version, task.labels
f:10:31: priority: unknown name output: labels, priority, fair_by and concurrency are evaluated when the task is accepted, before any step: use input and task`), strings.TrimSpace(lines(faults)))

	for priority, want := range map[string]string{"high": "expected a whole number", "1001": "is not between -1000 and 1000", "1.5": "expected a whole number", "[1]": "expected a whole number"} {
		src, faults := scheduler.Parse("f", []byte("workflow: w\npriority: "+priority+"\nsteps: {s: {agent: a}}\n"), nil)
		require.Nil(t, src, priority)
		require.Contains(t, lines(faults), want, priority)
	}
}

func TestTextsForPeopleAreBounded(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte("workflow: w\ntitle: A title\ndescription: |\n  Several\n  lines\nsteps: {a: {agent: a, title: Charge the card, description: \"It says ${ nothing }\"}}\n"), nil)
	require.NotNil(t, src, lines(faults))
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	require.Equal(t, "A title", d.Title)
	require.Equal(t, "Several\nlines\n", d.Description)
	require.Equal(t, "Charge the card", d.Steps[0].Title)
	require.Equal(t, "It says ${ nothing }", d.Steps[0].Description, "a text, not a template")
	src, faults = scheduler.Parse("f", []byte("workflow: w\ntitle: \"\"\nsteps: {a: {agent: a, title: \"two\\nlines\", description: "+strings.Repeat("x", 4097)+"}, b: {agent: a, title: 5}}\n"), nil)
	require.Nil(t, src)
	require.Equal(t, strings.TrimSpace(`
f:2:8: title: a title is one line of 1 to 120 bytes, and this has 0: move the rest into description
f:3:30: steps.a.title: a title is one line of 1 to 120 bytes, and this has 9: move the rest into description
f:3:57: steps.a.description: a description has up to 4096 bytes, and this has 4097: keep longer texts elsewhere, and link to them
f:3:4178: steps.b.title: expected text, got the number 5`), strings.TrimSpace(lines(faults)))
}
