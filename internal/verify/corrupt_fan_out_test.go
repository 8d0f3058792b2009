package verify_test

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// sheets has items of which two may fail, and three are open at a time.
const sheets = `
workflow: sheets
defaults:
  complete_within: 1s
  retry: {attempts: 1, backoff: 50ms, then: undo}
steps:
  send:
    for: {each: [a, b, c, d, e, f, g], parallel: 3, tolerate: 2, collect: failures}
    agent: stock
    with: {id: "${ item }"}
    undo: {}
  report: {needs: [send], agent: mail, with: {id: "${ steps.send.counts.failed == 2 ? 'two' : 'other' }"}}
`

// sheetFails says how an item of a task ends: two of many fail, of which one may have had its effect, and three of most.
func sheetFails(kind, item string) (refused, unknown bool) {
	switch kind {
	case "many":
		return item == "send[1]", item == "send[3]"
	case "most":
		return slices.Contains([]string{"send[4]", "send[5]", "send[6]"}, item), false
	}
	return false, false
}

// items returns the accepted facts of that name about items of a task, in their order.
func (h *harmed) items(name events.Name, task string) []found {
	return h.all(topicEvents, func(f found) bool {
		return nameOf(*f.Record) == name && string(f.Key) == task && strings.HasPrefix(f.text("step"), "send[") && h.accepted(f)
	})
}

// a task whose fan-out has begun.
func (h *harmed) fan(prefix string) found { return h.fact(events.NameFanOutStarted, prefix) }

var fanOutCorruptions = []corruption{
	{"a fan-out does not begin", verify.CheckAttempts, "item", false, func(h *harmed) string {
		f := h.fan("many-")
		task := string(f.Key)
		h.nothing(f.Record)
		return task + "/send[0]"
	}},
	{"an item is missing", verify.CheckAttempts, "item_order", false, func(h *harmed) string {
		task := string(h.fan("many-").Key)
		h.nothing(h.items(events.NameStepStarted, task)[2].Record)
		return task + "/send[3]"
	}},
	{"two items begin in the wrong order", verify.CheckAttempts, "item_order", false, func(h *harmed) string {
		f := h.fan("many-")
		list := h.items(events.NameStepStarted, string(f.Key))
		list[0].alter("step", "send[1]")
		list[1].alter("step", "send[0]")
		return list[0].place()
	}},
	{"an item is done twice", verify.CheckAttempts, "start_again", false, func(h *harmed) string {
		task := string(h.fan("many-").Key)
		list := h.items(events.NameStepStarted, task)
		last := list[len(list)-1]
		last.alter("step", h.items(events.NameStepCompleted, task)[0].text("step"))
		return last.place()
	}},
	{"more items begin than there are", verify.CheckAttempts, "item", false, func(h *harmed) string {
		f := h.fan("many-")
		f.alter("count", 5)
		return string(f.Key) + "/send[5]"
	}},
	{"one item too many is open", verify.CheckAttempts, "items_open", false, func(h *harmed) string {
		task := string(h.fan("many-").Key)
		h.nothing(h.of(events.NameStepCompleted, task, "send[0]").Record)
		h.nothing(h.of(events.NameStepCompleted, task, "send[2]").Record)
		h.nothing(h.of(events.NameStepFailed, task, "send[1]").Record)
		return task + "/send[3]"
	}},
	{"a fan-out completes before its last item", verify.CheckAttempts, "items_left", false, func(h *harmed) string {
		task := string(h.fan("many-").Key)
		h.nothing(h.of(events.NameStepCompleted, task, "send[6]").Record)
		return task + "/send"
	}},
	{"a fan-out completes before a tolerated item is undone", verify.CheckAttempts, "items_left", false, func(h *harmed) string {
		task := string(h.fan("many-").Key)
		h.nothing(h.of(events.NameCompensationStarted, task, "send[3]").Record)
		h.nothing(h.of(events.NameCompensated, task, "send[3]").Record)
		return task + "/send"
	}},
	{"a fan-out tolerates more than its definition", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fan("many-")
		f.alter("tolerate", 5)
		return f.place()
	}},
	{"one failure more is tolerated", verify.CheckAttempts, "beyond_tolerate", false, func(h *harmed) string {
		task := string(h.fan("most-").Key)
		list := h.items(events.NameStepFailed, task)
		last := list[len(list)-1]
		last.alter("verdict.action", string(events.ActionContinue))
		return last.place()
	}},
	{"a failure is not tolerated that may be", verify.CheckAttempts, "not_tolerated", false, func(h *harmed) string {
		f := h.of(events.NameStepFailed, string(h.fan("many-").Key), "send[1]")
		f.alter("verdict.action", string(events.ActionUndo))
		return f.place()
	}},
	{"an item begins while its task turns back", verify.CheckAttempts, "start_not_forward", false, func(h *harmed) string {
		task := string(h.fan("most-").Key)
		f := h.items(events.NameCompensationStarted, task)[0]
		return h.forge(f, events.NameStepStarted, task, &events.StepStarted{Step: "send[7]", Agent: "stock", Attempt: 1, Undoable: true, CompleteBy: 1}).place()
	}},
	{"an item is undone before a later one", verify.CheckUndo, "order", false, func(h *harmed) string {
		list := h.items(events.NameCompensationStarted, string(h.fan("most-").Key))
		first, last := list[0], list[len(list)-1]
		step := first.text("step")
		first.alter("step", last.text("step"))
		last.alter("step", step)
		return first.place()
	}},
	{"the undos of too many items are open", verify.CheckUndo, "items_open", false, func(h *harmed) string {
		task := string(h.fan("most-").Key)
		for _, f := range h.items(events.NameCompensated, task) {
			h.nothing(f.Record)
		}
		list := h.items(events.NameCompensationStarted, task)
		return list[len(list)-1].place()
	}},
	{"the output of a fan-out is collected otherwise", verify.CheckAttempts, "not_as_defined", false, func(h *harmed) string {
		f := h.fan("many-")
		f.alter("collect", "none")
		return f.place()
	}},
}
