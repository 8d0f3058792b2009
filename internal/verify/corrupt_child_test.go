package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/stretchr/testify/require"
)

// What parents and children record about each other stands in different partitions. Runs of the simulator have all of it within seconds, tasks that
// are forgotten too.

// family is a run of the simulator whose log is proved, with the places of its accepted facts.
type family struct {
	*recorded
	accepted map[string]bool
}

const (
	simEvents  = "sim.events"
	simReports = "sim.reports"
)

// familyOf returns the run of a seed; nil if it has no children that are released or undone, or its log is carried.
func familyOf(t *testing.T, seed uint64) *family {
	run := sim.Record(seed, sim.Options{})
	x := &family{&recorded{memory: memory{run.Topics}}, map[string]bool{}}
	has := func(names ...events.Name) bool {
		return slices.ContainsFunc(slices.Concat(run.Topics[simEvents]...), func(r events.Record) bool { return slices.Contains(names, nameOf(r)) })
	}
	if run.Report.Violation != "" || has(events.NameCarryBegun) || !has(events.NameChildrenReleased, events.NameChildUndoRequested) {
		return nil
	}
	r := x.verify(t, inSim, func(c *verify.Config) {
		c.Fact = func(_ *events.Fact, r *events.Record, accepted bool) {
			x.accepted[found{Record: r, topic: simEvents, part: int(r.Partition)}.place()] = accepted
		}
	})
	for _, f := range r.Findings {
		require.Equal(t, "work_missing", f.Kind, "seed %d: %s", seed, f) // the simulator records no work topics
	}
	return x
}

func inSim(c *verify.Config) {
	c.Topics, c.Ledgers, c.Now, c.MaxLevel = topicsOf("sim"), nil, 1_900_000_000_000, sim.MaxLevel
}

// relatives is a forger of the facts of parents and children.
type relatives struct {
	*harmed
	*family
}

// first returns the first accepted fact of that name which fits; false if the run has none.
func (h *relatives) first(name events.Name, fits func(f found) bool) (found, bool) {
	for p, records := range h.harmed.topics[simEvents] {
		for i := range records {
			f := found{&records[i], simEvents, p, i}
			if nameOf(*f.Record) == name && h.family.accepted[f.place()] && fits(f) {
				return f, true
			}
		}
	}
	return found{}, false
}

// about picks facts of the task.
func about(task string) func(f found) bool {
	return func(f found) bool { return string(f.Key) == task }
}

// forgets picks facts that forget the task.
func forgets(task string) func(f found) bool {
	return func(f found) bool {
		list, _ := f.body()["tasks"].([]any)
		return slices.Contains(list, any(task))
	}
}

// free finds an accepted fact that does nothing, of a partition, between two offsets.
func (h *relatives) free(part int, from, to int64) (found, bool) {
	return h.first(events.NameInputsPassed, func(f found) bool { return f.part == part && f.Offset > from && f.Offset < to })
}

// ended finds the fact with which a child answers an attempt, or an undo.
func (h *relatives) ended(op events.Operation) (found, bool) {
	return h.first(events.NameTaskProcessed, func(f found) bool {
		answers, _ := f.body()["answers"].(map[string]any)
		return answers["operation"] == string(op)
	})
}

const far = int64(1) << 40

var childCorruptions = []struct {
	name, check, kind string
	// do returns the place or the task that the finding must name; "" if the run has nothing to harm.
	do func(h *relatives) string
}{
	{"the end of a child answers another attempt", verify.CheckAttempts, "parent", func(h *relatives) string {
		f, ok := h.ended(events.Do)
		if !ok {
			return ""
		}
		f.alter("answers.n", 7)
		return f.place()
	}},
	{"the record of a child's answer names another attempt", verify.CheckInputs, "not_its_input", func(h *relatives) string {
		f, ok := h.first(events.NameStepCompleted, func(f found) bool { return h.answerOf(f) != nil })
		if !ok {
			return ""
		}
		r := h.answerOf(f)
		r.alter("link.n", 7)
		set(f.Record, events.HeaderCauseHash, events.HashInput(r.Record))
		return f.place()
	}},
	{"a child that was undone completes a step", verify.CheckAttempts, "relatives", func(h *relatives) string {
		f, ok := h.first(events.NameStepFailed, func(f found) bool {
			e, _ := f.body()["error"].(map[string]any)
			return e["code"] == "child_undone" && h.answerOf(f) != nil
		})
		if !ok {
			return ""
		}
		r := h.answerOf(f)
		r.alter("state", "processed")
		set(f.Record, events.HeaderCauseHash, events.HashInput(r.Record))
		h.forge(f, events.NameStepCompleted, string(f.Key), &events.StepCompleted{Step: f.text("step"), Attempt: int(f.body()["attempt"].(float64))})
		return string(f.Key) + "/" + f.text("step")
	}},
	{"a parent is undone, and its child stays processed", verify.CheckAttempts, "relatives", func(h *relatives) string {
		f, ok := h.first(events.NameChildUndoRequested, func(f found) bool {
			_, done := h.first(events.NameTaskProcessed, func(x found) bool { return string(x.Key) == string(f.Key) && x.part == f.part && x.index < f.index })
			_, undone := h.first(events.NameTaskUndone, func(x found) bool { return string(x.Key) == string(f.Key) && x.index > f.index })
			return done && undone
		})
		if !ok {
			return ""
		}
		child, parent := string(f.Key), f.body()["link"].(map[string]any)["task"].(string)
		for i := f.index; i < len(h.harmed.topics[simEvents][f.part]); i++ {
			if r := &h.harmed.topics[simEvents][f.part][i]; string(r.Key) == child {
				h.nothing(r)
			}
		}
		return parent
	}},
	{"a child is forgotten before its release", verify.CheckAttempts, "swept", func(h *relatives) string {
		f, ok := h.first(events.NameChildReleased, func(f found) bool {
			_, ok := h.first(events.NameTasksSwept, forgets(string(f.Key)))
			return ok
		})
		if !ok {
			return ""
		}
		child := string(f.Key)
		h.nothing(f.Record)
		return child
	}},
	{"a child is released by nobody", verify.CheckInputs, "not_its_input", func(h *relatives) string {
		f, ok := h.first(events.NameChildReleased, func(found) bool { return true })
		if !ok {
			return ""
		}
		set(f.Record, events.HeaderCause, "f/"+positionOf(f.Record).String())
		set(f.Record, events.HeaderCauseHash, "")
		return f.place()
	}},
	{"a child is released, and its parent still has it", verify.CheckAttempts, "relatives", func(h *relatives) string {
		begun, ok := h.first(events.NameSubmitted, func(f found) bool {
			p, _ := f.body()["parent"].(map[string]any)
			return p != nil && p["detach"] == nil && h.freeOf(p) != nil
		})
		if !ok {
			return ""
		}
		p := begun.body()["parent"].(map[string]any)
		into := h.freeOf(p)
		link := p["link"].(map[string]any)
		return h.forge(*into, events.NameChildReturned, link["task"].(string), map[string]any{"child": string(begun.Key), "link": link}).place()
	}},
	{"a task is forgotten, and has not released its children", verify.CheckAttempts, "swept", func(h *relatives) string {
		f, ok := h.first(events.NameChildrenReleased, func(f found) bool {
			_, ok := h.first(events.NameTasksSwept, forgets(string(f.Key)))
			return ok
		})
		if !ok {
			return ""
		}
		parent := string(f.Key)
		h.nothing(f.Record)
		return parent
	}},
	{"a child is accepted twice", verify.CheckInputs, "child_twice", func(h *relatives) string {
		f, into, ok := h.accepted()
		if !ok {
			return ""
		}
		return h.again(f, into).place()
	}},
	{"a child is accepted after it was refused", verify.CheckInputs, "child_twice", func(h *relatives) string {
		var before found
		f, ok := h.first(events.NameSubmitted, func(f found) (ok bool) {
			if f.body()["parent"] == nil {
				return false
			}
			before, ok = h.free(f.part, 0, f.Offset)
			return ok
		})
		if !ok {
			return ""
		}
		h.forge(before, events.NameChildRefused, string(f.Key), map[string]any{"parent": f.body()["parent"], "workflow": "kid", "reason": "lost", "remember_for": "1h"})
		return f.place()
	}},
	{"a child says that it is lost", verify.CheckAttempts, "relatives", func(h *relatives) string {
		f, into, ok := h.accepted()
		if !ok {
			return ""
		}
		link := f.body()["parent"].(map[string]any)["link"]
		return h.forge(into, events.NameChildAnswered, string(f.Key), map[string]any{"answer": map[string]any{"child": string(f.Key), "link": link, "state": "lost"}}).place()
	}},
	{"a child answers a task that is not its parent", verify.CheckAttempts, "relatives", func(h *relatives) string {
		f, into, ok := h.accepted()
		if !ok {
			return ""
		}
		link := f.body()["parent"].(map[string]any)["link"].(map[string]any)
		link["path"] = "another"
		return h.forge(into, events.NameChildAnswered, string(f.Key), map[string]any{"answer": map[string]any{"child": string(f.Key), "link": link, "state": "accepted"}}).place()
	}},
	{"what a child did is in doubt", verify.CheckUndo, "doubt_of_child", func(h *relatives) string {
		f, ok := h.first(events.NameStepCompleted, func(f found) bool { return h.answerOf(f) != nil })
		if !ok {
			return ""
		}
		f.alter("quiet_at", "2099-01-01T00:00:00.000Z")
		return f.place()
	}},
	{"a step asks another task to undo itself", verify.CheckUndo, "child", func(h *relatives) string {
		f, ok := h.first(events.NameCompensationStarted, func(f found) bool { return f.body()["child"] != nil })
		if !ok {
			return ""
		}
		f.alter("child.task", "another")
		return f.place()
	}},
	{"a parent forgets what an operator left in a child", verify.CheckInputs, "not_its_input", func(h *relatives) string {
		f, ok := h.first(events.NameCompensated, func(f found) bool { return h.answerOf(f) != nil && f.body()["left"] == nil })
		if !ok {
			return ""
		}
		f.alter("left", true)
		return f.place()
	}},
	{"a task ends undone and names a step of which nothing is left", verify.CheckUndo, "left", func(h *relatives) string {
		undone, ok := h.first(events.NameCompensated, func(f found) bool {
			end, ok := h.first(events.NameTaskUndone, about(string(f.Key)))
			return ok && h.answerOf(f) != nil && f.body()["left"] == nil && end.body()["left"] == nil
		})
		if !ok {
			return ""
		}
		end, _ := h.first(events.NameTaskUndone, about(string(undone.Key)))
		end.alter("left", []string{undone.text("step")})
		return string(undone.Key) + "/" + undone.text("step")
	}},
	{"an operator decides about a child that has refused nothing", verify.CheckUndo, "child", func(h *relatives) string {
		var into found
		f, ok := h.first(events.NameCompensationStarted, func(f found) (ok bool) {
			into, ok = h.free(f.part, f.Offset, far)
			return ok && f.body()["child"] != nil
		})
		if !ok {
			return ""
		}
		return h.forge(into, events.NameStepSkipped, string(f.Key), &events.StepSkipped{Step: f.text("step"), Why: events.SkipOperator, Left: true, Child: "another", Operator: events.Operator{Request: "forged"}}).place()
	}},
	{"a task that another started is forgotten, and the fact does not say so", verify.CheckAttempts, "swept", func(h *relatives) string {
		f, ok := h.first(events.NameTasksSwept, func(f found) bool { return f.body()["scheduled_forgotten_before"] != nil })
		if !ok {
			return ""
		}
		f.alter("scheduled_forgotten_before", nil)
		return f.place()
	}},
}

// answerOf returns the record by which a child ended the attempt of a fact; nil if none did.
func (h *relatives) answerOf(f found) *found {
	in, part, offset, ok := events.Cause(f.Header(events.HeaderCause)).Input()
	if !ok || in != events.Reports {
		return nil
	}
	for i := range h.harmed.topics[simReports][part] {
		r := &h.harmed.topics[simReports][part][i]
		if r.Offset == offset && r.Header(events.HeaderType) == events.TypeChildAnswer {
			return &found{r, simReports, int(part), i}
		}
	}
	return nil
}

// accepted finds the acceptance of a child, and a later fact that does nothing while the child is remembered.
func (h *relatives) accepted() (f, into found, ok bool) {
	f, ok = h.first(events.NameSubmitted, func(f found) bool {
		swept, gone := h.first(events.NameTasksSwept, forgets(string(f.Key)))
		to := far
		if gone {
			to = swept.Offset
		}
		x, free := h.free(f.part, f.Offset, to)
		into = x
		return f.body()["parent"] != nil && free
	})
	return f, into, ok
}

// freeOf finds a fact that does nothing, in the partition of the parent, while the parent has the child; nil if it has none.
func (h *relatives) freeOf(parent map[string]any) *found {
	link := parent["link"].(map[string]any)
	task := link["task"].(string)
	started, ok := h.first(events.NameStepStarted, func(f found) bool {
		return string(f.Key) == task && f.text("step") == link["path"] && f.body()["attempt"] == link["n"]
	})
	if !ok {
		return nil
	}
	to := far
	if released, gone := h.first(events.NameChildrenReleased, about(task)); gone {
		to = released.Offset
	}
	if f, free := h.free(started.part, started.Offset, to); free {
		return &f
	}
	return nil
}

// TestSeededCorruptionsOfChildrenAreRefuted harms the links between tasks, each in the first run that has what is harmed.
func TestSeededCorruptionsOfChildrenAreRefuted(t *testing.T) {
	t.Parallel()
	runs := map[uint64]*family{}
	for _, c := range childCorruptions {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(10); seed < 200; seed++ {
				run, known := runs[seed]
				if !known {
					run = familyOf(t, seed)
					runs[seed] = run
				}
				if run == nil {
					continue
				}
				h := &relatives{harm(t, run.recorded, seed), run}
				for _, f := range h.harmed.all(simEvents, func(f found) bool { return nameOf(*f.Record) == events.NameStateHash }) {
					h.nothing(f.Record)
				}
				want := c.do(h)
				if want == "" {
					continue
				}
				t.Logf("seed %d", seed)
				r := h.harmed.verify(t, inSim)
				require.Equal(t, verify.Refuted, r.Verdict, "seed %d", seed)
				var shown []string
				named := false
				for _, f := range r.Findings {
					shown = append(shown, f.Kind+": "+f.String())
					named = named || f.Check == c.check && f.Kind == c.kind && names(f, want)
				}
				require.True(t, named, "seed %d: nothing of the check %s names %s:\n%s", seed, c.check, want, strings.Join(shown, "\n"))
				return
			}
			require.Fail(t, "no run has it")
		})
	}
}
