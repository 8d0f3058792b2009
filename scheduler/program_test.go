package scheduler_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

func program(t testing.TB, text string) *scheduler.Program {
	t.Helper()
	src, faults := scheduler.Parse("f", []byte(text), nil)
	for _, f := range faults {
		require.True(t, f.Warning, f.String())
	}
	require.NotNil(t, src)
	return compile(t, src)
}

func exampleTask() *events.Task {
	return &events.Task{
		ID: "t-1", Run: 1, Workflow: "drone-delivery", Version: 3,
		Input: json.RawMessage(`{"ownerId":"o<1>","packageInfo":{"weight":1.10},"pickup":{"region":"CH"},"dropoff":{"region":"AT"}}`),
		Steps: []*events.Step{
			{Path: "account", State: events.StepStateCompleted, Output: json.RawMessage(`{}`)},
			{Path: "package", State: events.StepStateCompleted, Input: json.RawMessage(`{"id":"t-1"}`), Output: json.RawMessage(`{"id":12345678901234567890}`)},
			{Path: "delivery", State: events.StepStateCompleted, Output: json.RawMessage(`{"eta":"soon"}`)},
		},
	}
}

func TestAProgramEvaluatesTheExample(t *testing.T) {
	t.Parallel()
	p := compile(t, parseExample(t))
	task := exampleTask()
	env := scheduler.NewEnv(task)
	defer env.Close()
	for range 2 {
		yes, err := p.If("transport", env)
		require.NoError(t, err)
		require.True(t, yes)
		yes, err = p.If("account", env)
		require.NoError(t, err)
		require.True(t, yes, "a step without a condition runs")
		for step, want := range map[string]string{
			"account": `{"owner":"o<1>"}`,
			"package": `{"id":"t-1","package":{"weight":1.10}}`,
			"drone":   `{"delivery":"t-1","package":12345678901234567890}`,
		} {
			got, err := p.With(step, env)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		}
		got, err := p.With("delivery", env)
		require.NoError(t, err)
		require.Same(t, &task.Input[0], &got[0], "without a mapping the input is passed on undecoded")
		got, err = p.UndoWith("package", env)
		require.NoError(t, err)
		require.Equal(t, `{"id":"t-1"}`, string(got))
		got, err = p.Output(env)
		require.NoError(t, err)
		require.Equal(t, `{"eta":"soon"}`, string(got))
	}
}

func TestAnUndoSeesItsOwnStep(t *testing.T) {
	t.Parallel()
	p := program(t, head+"  a: {agent: a, undo: {with: {in: \"${ step.input.x }\", out: \"${ step.output?.id }\", t: \"${ task.run }/${ task.version }\"}}}\n"+
		"  b: {agent: b, undo: {}}\n  c: {agent: c, undo: {with: {k: 1}}}")
	env := scheduler.NewEnv(&events.Task{Run: 2, Version: 7, Steps: []*events.Step{
		{Path: "a", Input: json.RawMessage(`{"x":1.0}`)}, {Path: "b", Input: json.RawMessage(`{"y":2}`)},
	}})
	defer env.Close()
	got, err := p.UndoWith("a", env)
	require.NoError(t, err)
	require.Equal(t, `{"in":1.0,"out":null,"t":"2/7"}`, string(got))
	got, err = p.UndoWith("b", env)
	require.NoError(t, err)
	require.Equal(t, `{"y":2}`, string(got))
	got, err = p.UndoWith("c", env)
	require.NoError(t, err)
	require.Equal(t, `{"k":1}`, string(got))
	got, err = p.Output(env)
	require.NoError(t, err)
	require.Equal(t, `null`, string(got))
}

func TestExpressionsSeeWhatIsKnownOfTheTask(t *testing.T) {
	t.Parallel()
	p := program(t, head+`  a: {agent: a, if: "${ task.priority > 3 && task.labels.vip == 'yes' }", with: {tenant: "${ task.labels[\"tenant id\"] }", none: "${ task.labels.none }", at: "${ task.submitted_at }", until: "${ task.deadline }", why: "${ task.reason }"}, undo: {with: {why: "${ task.reason }", class: "${ step.error?.class }", message: "${ step.error?.message }"}}}
`)
	at := events.At(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	task := &events.Task{Priority: 4, Labels: map[string]string{"vip": "yes", "tenant id": "t 1"}, SubmittedAt: at, Steps: []*events.Step{{Path: "a"}}}
	env := scheduler.NewEnv(task)
	yes, err := p.If("a", env)
	require.NoError(t, err)
	require.True(t, yes)
	got, err := p.With("a", env)
	require.NoError(t, err)
	require.JSONEq(t, `{"tenant":"t 1","none":null,"at":"2026-11-24T12:00:00.000Z","until":null,"why":null}`, string(got))
	got, err = p.UndoWith("a", env)
	require.NoError(t, err)
	require.JSONEq(t, `{"why":null,"class":null,"message":null}`, string(got))
	env.Close()
	task.Reason, task.Deadline, task.Steps[0].Error = "cancelled by ada", at.Add(time.Hour), &events.Error{Class: events.ClassCheck, Message: "no"}
	env = scheduler.NewEnv(task)
	defer env.Close()
	got, err = p.With("a", env)
	require.NoError(t, err)
	require.JSONEq(t, `{"tenant":"t 1","none":null,"at":"2026-11-24T12:00:00.000Z","until":"2026-11-24T13:00:00.000Z","why":"cancelled by ada"}`, string(got))
	got, err = p.UndoWith("a", env)
	require.NoError(t, err)
	require.JSONEq(t, `{"why":"cancelled by ada","class":"check","message":"no"}`, string(got))
}

func TestAFailedExpressionIsAnErrorThatSaysWhy(t *testing.T) {
	t.Parallel()
	p := program(t, head+"  a: {agent: a, if: \"${ input.x }\", with: \"${ input.y.z }\"}")
	env := scheduler.NewEnv(&events.Task{Input: json.RawMessage(`{"x":"yes"}`)})
	defer env.Close()
	_, err := p.If("a", env)
	require.EqualError(t, err, "${ input.x }: the condition evaluates to a string, not to true or false")
	_, err = p.With("a", env)
	require.EqualError(t, err, `${ input.y.z }: input.y is null, so it has no member "z"`)
	_, err = p.If("zzz", env)
	require.EqualError(t, err, `workflow "w" has no step "zzz"`)
	_, err = p.UndoWith("a", env)
	require.EqualError(t, err, `step "a" has no undo`)
	_, ok := p.Step("zzz")
	require.False(t, ok)
	s, ok := p.Step("a")
	require.True(t, ok)
	require.Equal(t, "a", s.Agent)
}

func TestExpressionsSeeStepsThatHaveNotStarted(t *testing.T) {
	t.Parallel()
	p := program(t, head+"  a: {agent: a, if: \"${ input.x }\"}\noutput: [\"${ steps.a.output?.id }\", \"${ steps.a.state }\"]")
	got, err := p.Output(scheduler.NewEnv(&events.Task{}))
	require.NoError(t, err)
	require.Equal(t, `[null,"not_started"]`, string(got))
}

// A text of an input may be secret, and faults stand in answers, facts and logs.
func TestFaultsDoNotQuoteTextsOfTheInput(t *testing.T) {
	t.Parallel()
	src, faults := scheduler.Parse("f", []byte(`workflow: w
input: {properties: {mail: {format: email}, card: {pattern: "^[0-9]+$"}, at: {format: date-time}, to: {format: uri}}}
steps: {a: {agent: a}}`), nil)
	require.Empty(t, faults)
	got := compile(t, src).ValidateInput(json.RawMessage(`{"mail":"s3cret","card":"s3cret","at":"s3cret","to":"://s3cret"}`))
	require.NotEmpty(t, got)
	for _, f := range got {
		require.NotContains(t, f.Message, "s3cret")
	}
}

func TestInputIsValidatedWithEveryFault(t *testing.T) {
	t.Parallel()
	p := compile(t, parseExample(t))
	require.Empty(t, p.ValidateInput(exampleTask().Input))
	require.ElementsMatch(t, []scheduler.InputFault{
		{Pointer: "", Message: "missing property 'dropoff'"},
		{Pointer: "/ownerId", Message: "minLength: got 0, want 1"},
		{Pointer: "/packageInfo/weight", Message: "is 25.6, and must be at most 25.5"},
		{Pointer: "/pickup/region", Message: "does not match pattern '^[A-Z]{2}$'"},
	}, p.ValidateInput(json.RawMessage(`{"ownerId":"","packageInfo":{"weight":25.6},"pickup":{"region":"ch"}}`)))
	require.Equal(t, []scheduler.InputFault{{Message: "got null, want object"}}, p.ValidateInput(nil))
	require.Contains(t, p.ValidateInput(json.RawMessage(`{`))[0].Message, "is not JSON")
	long := p.ValidateInput(json.RawMessage(`{"ownerId":"o","packageInfo":{},"dropoff":{"region":"A"},"pickup":{"region":"` + strings.Repeat("é", 100_000) + `"}}`))
	for _, f := range long {
		require.Less(t, len(f.Message), 300)
	}
	free := program(t, head+"  a: {agent: a}")
	require.Empty(t, free.ValidateInput(nil))
	require.NotEmpty(t, free.ValidateInput(json.RawMessage(`x`)))
}

func TestDefaultsAreFilledMemberByMember(t *testing.T) {
	t.Parallel()
	p := program(t, `
workflow: w
defaults:
  retry: {attempts: 7, backoff: 90s, then: undo}
  cool_down: {wait: 15m}
  undo: {complete_within: 9s, retry: {attempts: 20}}
steps:
  a: {agent: a, retry: {attempts: 3}, undo: {agent: other}}
  b: {agent: b, needs: [a], pivot: true, cool_down: {wait: 1m, times: 0}}
  c: {agent: c, needs: [b], complete_within: 1m}
`)
	a, _ := p.Step("a")
	require.Equal(t, scheduler.Retry{Attempts: 3, Backoff: 90e9, Factor: 2, MaxBackoff: 90e9, Then: "undo"}, a.Retry)
	require.Equal(t, scheduler.DefaultCompleteWithin, a.CompleteWithin)
	require.Equal(t, &scheduler.CoolDown{Wait: 15 * 60e9, Times: 3}, a.CoolDown)
	require.Equal(t, &scheduler.Undo{Agent: "other", CompleteWithin: 9e9,
		Retry: scheduler.Retry{Attempts: 20, Backoff: 1e9, Factor: 2, MaxBackoff: 60e9, Then: "park"}}, a.Undo)
	b, _ := p.Step("b")
	require.Equal(t, "park", b.Retry.Then)
	require.Nil(t, b.CoolDown)
	c, _ := p.Step("c")
	require.Equal(t, "park", c.Retry.Then, "after the pivot a task only goes forward")
	p = program(t, "workflow: w\nsteps:\n  a: {agent: a, pivot: true, retry: {then: undo}}\n  b: {agent: b, needs: [a]}\n")
	a, _ = p.Step("a")
	require.Equal(t, "undo", a.Retry.Then, "a pivot says itself what happens when it is refused")
	b, _ = p.Step("b")
	require.Equal(t, "park", b.Retry.Then)
}

func TestADefinitionSurvivesItsEncoding(t *testing.T) {
	t.Parallel()
	d, err := scheduler.Complete(parseExample(t).Body)
	require.NoError(t, err)
	b, err := json.Marshal(d)
	require.NoError(t, err)
	again, err := scheduler.DecodeDefinition(b)
	require.NoError(t, err)
	b2, err := json.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, string(b), string(b2))
	_, err = scheduler.Complete(json.RawMessage(`{"workflow":"w","steps":{"a":{"agent":"a","for":"1s"}}}`))
	require.ErrorContains(t, err, "for")
	_, err = scheduler.Complete(json.RawMessage(`{"workflow":"w","steps":{"a":{"agent":"a","needs":["b"]},"b":{"agent":"a","needs":["a"]}}}`))
	require.ErrorContains(t, err, "cycle")
}

func TestAProgramIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	p := compile(t, parseExample(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				task := exampleTask()
				env := scheduler.NewEnv(task)
				got, err := p.With("drone", env)
				yes, err2 := p.If("transport", env)
				env.Close()
				if err != nil || err2 != nil || !yes || string(got) != `{"delivery":"t-1","package":12345678901234567890}` {
					t.Errorf("%s %v %v %v", got, err, yes, err2)
					return
				}
				if f := p.ValidateInput(task.Input); len(f) > 0 {
					t.Errorf("%v", f)
					return
				}
			}
		})
	}
	wg.Wait()
}

// INV6 depends on this: whatever the order in the document, a step comes after the steps that it needs.
func TestTheOrderOfStepsRespectsNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "steps")
		name := rapid.Permutation(names(n)).Draw(t, "names")
		doc := map[string]any{}
		for i := range n {
			var needs []string
			for j := range i {
				if rapid.IntRange(0, 4).Draw(t, "edge") == 0 {
					needs = append(needs, name[j])
				}
			}
			step := map[string]any{"agent": "a"}
			if len(needs) > 0 {
				step["needs"] = needs
			}
			doc[name[i]] = step
		}
		b, err := json.Marshal(map[string]any{"workflow": "w", "steps": doc})
		if err != nil {
			t.Fatal(err)
		}
		src, faults := scheduler.Parse("f", b, nil)
		if src == nil {
			t.Fatalf("%v", faults)
		}
		d, err := scheduler.Complete(src.Body)
		if err != nil {
			t.Fatal(err)
		}
		done := map[string]bool{}
		for _, s := range d.Steps {
			for _, need := range s.Needs {
				if !done[need] {
					t.Fatalf("%s comes before %s", s.ID, need)
				}
			}
			done[s.ID] = true
		}
		if len(done) != n {
			t.Fatalf("%d of %d steps", len(done), n)
		}
	})
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "s" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	return out
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"drone-delivery.yaml", "bad.yaml"} {
		data, err := openTestdata(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(head + "  a: {agent: a, with: \"é ${ x\", if: |\n   ${ 1 }\n}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		src, faults := scheduler.Parse("f", data, openTestdata)
		for _, x := range faults {
			if x.Line < 1 || x.Column < 1 || x.Message == "" {
				t.Fatalf("a fault without a place or message: %+v", x)
			}
			if src != nil && !x.Warning {
				t.Fatalf("a source with the fault %s", x)
			}
		}
		if src == nil {
			if len(faults) == 0 {
				t.Fatal("neither source nor fault")
			}
			return
		}
		again, faults := scheduler.Parse("f", src.Body, nil)
		if again == nil || again.Hash != src.Hash {
			t.Fatalf("the body is not its own canonical form: %v", faults)
		}
		compile(t, src)
	})
}

func BenchmarkWith(b *testing.B) {
	p := compile(b, parseExample(b))
	task := exampleTask()
	b.ReportAllocs()
	for b.Loop() {
		env := scheduler.NewEnv(task)
		if _, err := p.With("drone", env); err != nil {
			b.Fatal(err)
		}
		env.Close()
	}
}

func BenchmarkIf(b *testing.B) {
	p := compile(b, parseExample(b))
	task := exampleTask()
	b.ReportAllocs()
	for b.Loop() {
		env := scheduler.NewEnv(task)
		if _, err := p.If("transport", env); err != nil {
			b.Fatal(err)
		}
		env.Close()
	}
}

func TestWholeVariablesAreObjects(t *testing.T) {
	t.Parallel()
	p := program(t, head+"  a: {agent: a, undo: {with: [\"${ step }\", \"${ task }\", \"${ step.output ?? 1 }\"]}}\noutput: [\"${ steps.a }\", \"${ steps.a.output.list }\"]")
	env := scheduler.NewEnv(&events.Task{ID: "t", Run: 1, Workflow: "w", Version: 2, Steps: []*events.Step{
		{Path: "a", State: events.StepStateCompleted, Input: json.RawMessage(`1`), Output: json.RawMessage(` {"list" : [1, 2]} `)},
	}})
	defer env.Close()
	got, err := p.UndoWith("a", env)
	require.NoError(t, err)
	require.Equal(t, `[{"error":null,"input":1,"output":{"list":[1,2]},"progress":null},{"deadline":null,"id":"t","labels":{},"priority":0,"reason":null,"run":1,"submitted_at":null,"version":2,"workflow":"w"},{"list":[1,2]}]`, string(got))
	got, err = p.Output(env)
	require.NoError(t, err)
	require.Equal(t, `[{"error":null,"input":1,"output":{"list":[1,2]},"state":"completed"},[1,2]]`, string(got))
	require.Equal(t, "w", p.Definition().Workflow)
}
