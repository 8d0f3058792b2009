package verify_test

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

var rerunCorruptions = []corruption{
	{"a rerun names another step", verify.CheckAttempts, "rerun_steps", false, func(h *harmed) string {
		f := h.fact(events.NameTaskRerun, "again-")
		f.alter("steps", []string{"reserve"})
		return string(f.Key) + "/" + f.text("from")
	}},
	{"a task is rerun while it goes on", verify.CheckAttempts, "rerun", false, func(h *harmed) string {
		f, into := late(h, events.NameStepCompleted, "ok-", events.NameTaskProcessed)
		return h.forge(into, events.NameTaskRerun, string(f.Key), &events.TaskRerun{Request: "forged", Steps: []string{"reserve"}}).place()
	}},
	{"a run has the number of another", verify.CheckAttempts, "run", false, func(h *harmed) string {
		f := h.fact(events.NameRunBegun, "again-")
		f.alter("run", 3)
		return f.place()
	}},
	{"a run begins before a step is undone", verify.CheckUndo, "run_before_undo", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "again-", step("pack"))
		task := string(f.Key)
		h.nothing(f.Record)
		return task + "/pack"
	}},
	{"a step starts before its undo is quiet", verify.CheckUndo, "not_quiet", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "again-", step("pack"))
		f.alter("quiet_at", "2099-01-01T00:00:00.000Z")
		return string(f.Key) + "/pack"
	}},
	{"an undo in doubt counts as quiet before its end", verify.CheckUndo, "doubt_too_short", false, func(h *harmed) string {
		f := h.fact(events.NameCompensated, "again-", step("pack"))
		f.alter("quiet_at", "2000-01-01T00:00:00.000Z")
		return string(f.Key) + "/pack"
	}},
	{"an attempt begins in the run before", verify.CheckAttempts, "wrong_run", false, func(h *harmed) string {
		f := h.fact(events.NameStepStarted, "again-", func(f found) bool { return f.text("run") == "2" })
		f.alter("run", 1)
		return f.place()
	}},
	{"a step that is kept is undone", verify.CheckUndo, "kept_by_rerun", false, func(h *harmed) string {
		f := h.fact(events.NameCompensationStarted, "again-", func(f found) bool { return string(f.Key) == "again-3" || string(f.Key) == "again-4" })
		f.alter("step", "reserve")
		return f.place()
	}},
	{"a fact follows the end of a task that is rerun later", verify.CheckAttempts, "behind_the_end", false, func(h *harmed) string {
		f := h.fact(events.NameTaskRerun, "again-")
		task := string(f.Key)
		h.nothing(f.Record)
		return task
	}},
	{"the call of a later run is missing", verify.CheckLedgers, "not_called", false, func(h *harmed) string {
		return h.uncall(1)
	}},
	{"the call of an earlier run is missing", verify.CheckLedgers, "not_called", false, func(h *harmed) string {
		return h.uncall(0)
	}},
	{"the effect of an earlier run is left", verify.CheckLedgers, "left", false, func(h *harmed) string {
		f := h.fact(events.NameTaskRerun, "again-")
		h.calls[h.call(h.of(events.NameCompensated, string(f.Key), "pack"), events.Undo)].Outcome = "repeated"
		return string(f.Key) + "/pack"
	}},
}

// uncall removes the calls of a step in one of its two runs.
func (h *harmed) uncall(run int) string {
	f := h.fact(events.NameTaskRerun, "again-")
	var keys []string
	for _, c := range h.calls {
		if c.Task == string(f.Key) && c.Step == "pack" && c.Operation == events.Do && !slices.Contains(keys, c.Identifier) {
			keys = append(keys, c.Identifier)
		}
	}
	h.calls = slices.DeleteFunc(h.calls, func(c verify.Call) bool { return c.Identifier == keys[run] })
	return string(f.Key) + "/pack"
}
