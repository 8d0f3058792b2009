package verify_test

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// windowRow finds a row and a fact of its task since the log begins, and the index between them at which something harmless is.
func (l *cutLog) windowRow(names ...events.Name) (row, fact found, ok bool) {
	row, ok = l.row(func(f found, _ map[string]any) (fits bool) {
		fact, fits = l.before(f, is(names...))
		return fits
	})
	return row, fact, ok
}

// windowCorruptions are made in facts of a task before its rows.
var windowCorruptions = []cutCorruption{
	{"an outcome is missing", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		var f found
		row, ok := l.row(func(row found, _ map[string]any) (fits bool) {
			f, fits = l.before(row, func(f found) bool {
				return is(events.NameStepCompleted)(f) && f.Header(events.HeaderTime) > l.at(0).Header(events.HeaderTime)
			})
			return fits
		})
		if ok {
			l.nothing(f.Record)
		}
		return taskOf(row, ok)
	}},
	{"an outcome comes twice", verify.CheckAttempts, "second_outcome", func(l *cutLog) (want string, ok bool) {
		_, _ = l.row(func(row found, _ map[string]any) bool {
			f, fits := l.before(row, func(f found) bool { return is(events.NameStepCompleted)(f) && f.text("attempt") != "0" })
			if !fits {
				return false
			}
			again, fits := l.over(f.index+1, row.index, events.NameStepCompleted, string(row.Key), raw(f.body()))
			want, ok = placed(again, fits)
			return fits
		})
		return want, ok
	}},
	{"a start is missing", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		row, f, ok := l.windowRow(events.NameStepStarted)
		if ok {
			l.nothing(f.Record)
		}
		return taskOf(row, ok)
	}},
	{"an attempt begins while another runs", verify.CheckAttempts, "two_at_once", func(l *cutLog) (want string, ok bool) {
		_, _ = l.row(func(row found, _ map[string]any) bool {
			f, fits := l.before(row, is(events.NameStepStarted))
			if !fits {
				return false
			}
			again, fits := l.over(f.index+1, row.index, events.NameStepStarted, string(row.Key), raw(f.body()))
			want, ok = placed(again, fits)
			return fits
		})
		return want, ok
	}},
	{"a task goes on after its end", verify.CheckAttempts, "behind_the_end", func(l *cutLog) (want string, ok bool) {
		_, _ = l.row(func(row found, _ map[string]any) bool {
			f, fits := l.before(row, is(events.NameTaskProcessed, events.NameTaskUndone))
			if !fits {
				return false
			}
			again, fits := l.over(f.index+1, row.index, events.NameTaskParked, string(row.Key), &events.TaskParked{Reason: "x"})
			want, ok = placed(again, fits)
			return fits
		})
		return want, ok
	}},
	{"the end of a task is missing", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		row, f, ok := l.windowRow(events.NameTaskProcessed, events.NameTaskUndone)
		if ok {
			l.nothing(f.Record)
		}
		return taskOf(row, ok)
	}},
	{"a task is accepted again and carried", verify.CheckInputs, "carry", func(l *cutLog) (want string, ok bool) {
		row, ok := l.row(func(row found, _ map[string]any) bool {
			submitted, fits := l.find(0, len(l.records()), is(events.NameSubmitted))
			if !fits {
				return false
			}
			_, fits = l.over(1, row.index, events.NameSubmitted, string(row.Key), raw(submitted.body()))
			return fits
		})
		return placed(row, ok)
	}},
	{"a task is forgotten and carried", verify.CheckAttempts, "carry", func(l *cutLog) (string, bool) {
		row, ok := l.row(func(row found, _ map[string]any) bool {
			_, fits := l.over(1, row.index, events.NameTasksSwept, "", &events.TasksSwept{Tasks: []string{string(row.Key)}, EndedBefore: 1})
			return fits
		})
		return placed(row, ok)
	}},
	{"a fact is of a task that is not carried", verify.CheckAttempts, "no_task", func(l *cutLog) (string, bool) {
		first, ok := l.find(1, l.end, func(f found) bool { return is(events.NameEntityCarried)(f) && len(f.Key) > 0 })
		if !ok {
			return "", false
		}
		id := l.homed("zz")
		f, ok := l.over(1, first.index, events.NameTaskParked, id, &events.TaskParked{Reason: "x"})
		return placed(f, ok)
	}},
	{"a request is judged that the rows do not name", verify.CheckInputs, "carry", func(l *cutLog) (string, bool) {
		row, ok := l.row(func(row found, _ map[string]any) bool {
			_, fits := l.over(1, row.index, events.NameTaskPaused, string(row.Key), &events.TaskPaused{Request: "forged"})
			return fits
		})
		return taskOf(row, ok)
	}},
	{"a fact before the rows follows from one that does not exist", verify.CheckOwnership, "cause", func(l *cutLog) (string, bool) {
		_, f, ok := l.windowRow(events.NameStepStarted)
		if ok {
			set(f.Record, events.HeaderCause, "f/77-nobody/3")
		}
		return placed(f, ok)
	}},
}

// homed returns an ID with the prefix whose home is the partition.
func (l *cutLog) homed(prefix string) string {
	for id := prefix; ; id += "z" {
		if events.Home(id, int32(len(l.topics["sim.events"]))) == int32(l.part) {
			return id
		}
	}
}

// later finds a carried row and a fact of its task that comes once the carry has ended.
func (l *cutLog) later(fits func(row found, task map[string]any) bool, names ...events.Name) (row, fact found, ok bool) {
	row, ok = l.row(func(f found, task map[string]any) (is1 bool) {
		fact, is1 = l.find(l.end, len(l.records()), func(x found) bool { return string(x.Key) == string(f.Key) && is(names...)(x) })
		return is1 && fits(f, task)
	})
	return row, fact, ok
}

// behindCorruptions are made behind the carry, in what concerns tasks that are older than the log.
var behindCorruptions = []cutCorruption{
	{"a carried task is accepted again", verify.CheckInputs, "accepted_twice", func(l *cutLog) (string, bool) {
		row, ok := l.row(anyTask)
		submitted, ok2 := l.find(0, len(l.records()), is(events.NameSubmitted))
		if !ok || !ok2 {
			return "", false
		}
		f, ok := l.over(l.end+1, len(l.records()), events.NameSubmitted, string(row.Key), raw(submitted.body()))
		return placed(f, ok)
	}},
	{"a carried task that has ended goes on", verify.CheckAttempts, "behind_the_end", func(l *cutLog) (string, bool) {
		row, ok := l.row(func(_ found, task map[string]any) bool { return task["state"] == "processed" })
		if !ok {
			return "", false
		}
		f, ok := l.over(l.end+1, len(l.records()), events.NameTaskParked, string(row.Key), &events.TaskParked{Reason: "x"})
		return placed(f, ok)
	}},
	{"a carried task that lives is forgotten", verify.CheckAttempts, "swept", func(l *cutLog) (string, bool) {
		row, ok := l.row(liveTask)
		if !ok {
			return "", false
		}
		f, ok := l.over(l.end+1, l.end+2, events.NameTasksSwept, "", &events.TasksSwept{Tasks: []string{string(row.Key)}, EndedBefore: 1})
		return placed(f, ok)
	}},
	{"the outcome of an attempt that ran at the cut comes twice", verify.CheckAttempts, "second_outcome", func(l *cutLog) (string, bool) {
		row, f, ok := l.later(func(_ found, task map[string]any) bool {
			return len(stepsIn(task)) > 0 && stepsIn(task)[0]["state"] == "running"
		}, events.NameStepCompleted)
		if !ok {
			return "", false
		}
		again, ok := l.over(f.index+1, len(l.records()), events.NameStepCompleted, string(row.Key), raw(f.body()))
		return placed(again, ok && f.text("attempt") != "0")
	}},
	{"an undo of a carried step is missing", verify.CheckUndo, "left", func(l *cutLog) (string, bool) {
		row, end, ok := l.later(func(row found, task map[string]any) bool { return task["state"] == "undoing" }, events.NameTaskUndone)
		if !ok {
			return "", false
		}
		undone := false
		for i := row.index; i < end.index; i++ {
			if f := l.at(i); string(f.Key) == string(row.Key) && is(events.NameCompensationStarted, events.NameCompensated, events.NameCompensationFailed)(f) {
				undone = undone || is(events.NameCompensated)(f)
				l.nothing(f.Record)
			}
		}
		return end.place(), undone
	}},
	{"a carried attempt is followed by the attempt after the next", verify.CheckAttempts, "attempt_numbers", func(l *cutLog) (string, bool) {
		_, f, ok := l.later(anyTask, events.NameStepStarted)
		if ok {
			n, _ := f.body()["attempt"].(float64)
			f.alter("attempt", n+1)
		}
		return placed(f, ok)
	}},
	{"a step starts before a carried one that it needs", verify.CheckAttempts, "ended_early", func(l *cutLog) (string, bool) {
		_, end, ok := l.later(liveTask, events.NameTaskProcessed)
		if !ok {
			return "", false
		}
		f, ok := l.find(l.end, end.index, func(f found) bool {
			return string(f.Key) == string(end.Key) && is(events.NameStepCompleted)(f)
		})
		if ok {
			l.nothing(f.Record)
		}
		return placed(end, ok)
	}},
	{"an input behind the cut is changed", verify.CheckInputs, "input_changed", func(l *cutLog) (string, bool) {
		f, ok := l.find(l.end, len(l.records()), is(events.NameSubmitted))
		if ok {
			in := l.inputFrom(f)
			in.Value = append(in.Value[:len(in.Value):len(in.Value)], ' ')
		}
		return placed(f, ok)
	}},
	{"an acceptance behind the cut is missing", verify.CheckInputs, "lost", func(l *cutLog) (string, bool) {
		f, ok := l.find(l.end, len(l.records()), is(events.NameSubmitted))
		if !ok {
			return "", false
		}
		in := l.inputFrom(f)
		l.nothing(f.Record)
		return in.place(), true
	}},
	{"a dead letter of a fact behind the cut is missing", verify.CheckInputs, "no_dead_letter", func(l *cutLog) (string, bool) {
		f, ok := l.find(l.end, len(l.records())/2, is(events.NameInputRejected))
		if !ok {
			return "", false
		}
		n := l.every("dlq.sim.submissions", func(x found) bool { return x.Header("__dlq.errors.fact") == f.Header(events.HeaderID) }, l.close)
		return f.place(), n > 0
	}},
}

// inputFrom finds the input that caused a fact.
func (l *cutLog) inputFrom(f found) found {
	in, part, offset, _ := events.Cause(f.Header(events.HeaderCause)).Input()
	return l.one("sim."+string(in), func(x found) bool { return x.part == int(part) && x.Offset == offset })
}
