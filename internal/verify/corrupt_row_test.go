package verify_test

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

func anyTask(found, map[string]any) bool { return true }

func liveTask(_ found, task map[string]any) bool {
	return task["state"] == "processing" || task["state"] == "undoing"
}

// forged alters the head of the first task that fits.
func forged(fits func(f found, task map[string]any) bool, key string, v any) func(l *cutLog) (string, bool) {
	return func(l *cutLog) (string, bool) {
		f, ok := l.row(fits)
		if !ok {
			return "", false
		}
		return head(key, v)(f), true
	}
}

// rowCorruptions are made in the records of the carry.
var rowCorruptions = []cutCorruption{
	{"a row is missing", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		f, ok := l.row(func(f found, _ map[string]any) bool { return f.text("last") == "true" })
		if ok {
			l.nothing(f.Record)
		}
		return l.at(l.end).place(), ok
	}},
	{"a task is carried twice", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		f, ok := l.row(func(f found, _ map[string]any) bool { return f.text("last") == "true" })
		if !ok {
			return "", false
		}
		next, ok := l.find(f.index+1, l.end, is(events.NameEntityCarried))
		if !ok {
			return "", false
		}
		return l.again(f, next).place(), true
	}},
	{"a fact comes between two rows", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		f, ok := l.row(func(f found, _ map[string]any) bool { return f.text("last") != "true" })
		if !ok {
			return "", false
		}
		next := l.at(f.index + 1)
		l.nothing(next.Record)
		return next.place(), true
	}},
	{"the end counts one record more", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		end := l.at(l.end)
		end.alter("records", end.body()["records"].(float64)+1)
		return end.place(), true
	}},
	{"the end counts one task less", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		end := l.at(l.end)
		n, ok := end.body()["tasks"].(float64)
		if !ok {
			return "", false
		}
		end.alter("tasks", n-1)
		return end.place(), true
	}},
	{"the end has another hash", verify.CheckFold, "refused", func(l *cutLog) (string, bool) {
		end := l.at(l.end)
		end.alter("hash", "00000000000000000000000000000000")
		return end.place(), true
	}},
	{"the log ends within the carry", verify.CheckFold, "cut", func(l *cutLog) (string, bool) {
		l.topics["sim.events"][l.part] = l.records()[:l.end]
		return fmt.Sprintf("sim.events/%d@%d", l.part, l.records()[l.end-1].Offset+1), true
	}},
	{"the carry begins with one task more", verify.CheckFold, "carry", func(l *cutLog) (string, bool) {
		begin := l.at(0)
		n, ok := begin.body()["state"].(map[string]any)["tasks"].(float64)
		if !ok {
			return "", false
		}
		begin.alter("state.tasks", n+1)
		return l.at(l.end).place(), true
	}},
	{"the carry names another owner", verify.CheckOwnership, "writer", func(l *cutLog) (string, bool) {
		l.at(0).alter("state.owner", "somebody")
		return l.at(0).place(), true
	}},
	{"the carry says that more inputs are judged", verify.CheckInputs, "input_changed", func(l *cutLog) (string, bool) {
		begin := l.at(0)
		in, ok := begin.body()["state"].(map[string]any)["inputs"].(map[string]any)["submissions"].(map[string]any)
		if !ok || in["hash"] == nil {
			return "", false
		}
		begin.alter("state.inputs.submissions.next", in["next"].(float64)-1)
		return begin.place(), true
	}},
	{"a definition is not carried", verify.CheckAttempts, "definition", func(l *cutLog) (string, bool) {
		f, ok := l.find(1, l.end, func(f found) bool { return f.text("kind") == string(events.KindDefinition) })
		if !ok {
			return "", false
		}
		row, ok := l.row(func(_ found, task map[string]any) bool { return task["definition"] == f.text("id") })
		if ok {
			f.alter("encoding.hash", "another")
		}
		return taskOf(row, ok)
	}},
	{"a head is of another task", verify.CheckFold, "carry", forged(anyTask, "id", "another")},
	{"a row says that it was accepted since", verify.CheckAttempts, "carry", forged(anyTask, "incarnation", "99-x/1")},
	{"a row says that its latest fact is another", verify.CheckAttempts, "carry", forged(anyTask, "last", "98-x/1")},
	{"a row lacks an attempt that began since", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		row, ok := l.row(func(f found, task map[string]any) bool {
			start, ok := l.before(f, is(events.NameStepStarted))
			return ok && len(stepsIn(task)) == 1 && stepsIn(task)[0]["path"] == start.text("step")
		})
		if !ok {
			return "", false
		}
		step := stepsIn(row.body()["encoding"].(map[string]any))[0]
		step["attempt"] = step["attempt"].(float64) + 1
		row.alter("encoding.steps", []any{step})
		return taskOf(row, true)
	}},
	{"a row has fewer facts than the log", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		row, ok := l.row(func(f found, _ map[string]any) bool {
			_, ok := l.before(f, is(events.NameStepStarted, events.NameStepCompleted))
			return ok
		})
		if ok {
			row.alter("encoding.facts", 0)
		}
		return placed(row, ok)
	}},
	{"a row says that a task has ended", verify.CheckAttempts, "behind_the_end", func(l *cutLog) (string, bool) {
		var later found
		row, ok := l.row(func(f found, task map[string]any) (ok bool) {
			later, ok = l.find(l.end, len(l.records()), func(x found) bool { return string(x.Key) == string(f.Key) && is(events.NameStepCompleted)(x) })
			return liveTask(f, task) && ok
		})
		if ok {
			row.alter("encoding.state", "processed")
		}
		return placed(later, ok)
	}},
	{"a row says that an attempt does not run", verify.CheckAttempts, "second_outcome", func(l *cutLog) (string, bool) {
		var later found
		row, ok := l.row(func(f found, task map[string]any) (ok bool) {
			later, ok = l.find(f.index, len(l.records()), func(x found) bool {
				return string(x.Key) == string(f.Key) && nameOf(*x.Record) != events.NameEntityCarried
			})
			steps := stepsIn(task)
			return ok && is(events.NameStepCompleted)(later) && later.text("attempt") != "0" && len(steps) == 1 && steps[0]["state"] == "running"
		})
		if !ok {
			return "", false
		}
		step := stepsIn(row.body()["encoding"].(map[string]any))[0]
		step["state"] = "failed"
		row.alter("encoding.steps", []any{step})
		return later.place(), true
	}},
}
