package sentence

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// ofChildren says what a fact means for a parent or a child.
func ofChildren(body events.Body) string {
	switch b := body.(type) {
	case *events.StepStarted:
		if b.Child != nil {
			return startsChild(b)
		}
	case *events.CompensationStarted:
		if b.Child != nil {
			return "the undo of " + step(b.Step) + " starts" + attempt(b.Attempt) + ": task " + b.Child.Task + " is asked to undo itself"
		}
	case *events.ChildAsked:
		if b.Cancel != "" {
			return because("task "+b.Child+", which does "+step(b.Link.Path)+", is asked to turn back", b.Cancel)
		}
		return "task " + b.Child + " has not answered for " + step(b.Link.Path) + "; it is asked again"
	case *events.ChildrenReleased:
		names := make([]string, len(b.Children))
		for i, c := range b.Children {
			names[i] = c.Child
		}
		return "the task is to be forgotten, and releases its children: " + strings.Join(names, ", ")
	case *events.ChildReturned:
		return "task " + b.Child + " is released, because this task, its parent, is forgotten"
	case *events.ChildRefused:
		if b.Reason == events.RejectLost {
			return "task " + b.Parent.Link.Task + " asks about the task as its child, and nobody knows of it"
		}
		return because("the task is not accepted as the child of task "+b.Parent.Link.Task+" ("+b.Reason+")", b.Detail)
	case *events.ChildAnswered:
		return answers(&b.Answer)
	case *events.ChildUndoRequested:
		return because("task "+b.Link.Task+", its parent, has the task undo itself", b.Reason)
	case *events.ChildReleased:
		return "task " + b.Link.Task + ", its parent, no longer needs the task"
	}
	return ""
}

func startsChild(b *events.StepStarted) string {
	s := fmt.Sprintf("%s starts%s: task %s, of workflow %s", step(b.Step), attempt(b.Attempt), b.Child.Task, b.Child.Workflow)
	if b.Child.Detach {
		return s + ", which goes on by itself"
	}
	if b.CompleteBy != 0 {
		s += ", to end by " + b.CompleteBy.String()
	}
	return s
}

// answers says what a child says to its parent outside the facts that end it.
func answers(a *events.ChildAnswer) string {
	parent := "task " + a.Link.Task
	switch a.State {
	case events.ChildRefuses:
		return because("the task does not undo itself for "+parent, a.Reason)
	case events.ChildLost:
		return parent + " asks about the task as its child, and nobody knows of it"
	case events.ChildRejected:
		return because(parent+" wants to start a child with the ID of this task, which is refused ("+a.Code+")", a.Reason)
	}
	return parent + " learns again that the task is " + string(a.State)
}
