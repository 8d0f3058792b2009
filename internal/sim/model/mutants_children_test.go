package model_test

import (
	"maps"
	"slices"
)

// childMutants break the rules of parents and children.
var childMutants = []mutant{
	{"children-turn-back", "the children of a task that turns back turn back too",
		never, "^a child that waits, a cancel$", "does not turn back with"},
	{"lost-child-parks", "a child that is lost parks its parent",
		swap("events.ActionPark", "events.ActionUndo"), "^a lost child$", "does not park"},
	{"child-past-its-pivot-refuses", "a child that is past its point of no return does not undo itself",
		swap("t.Irrevocable()", "false"), "^a child past its pivot$", "stops|INV|undoes itself"},
	{"link-tells-children-apart", "a task that has the ID of a child and another link is another task",
		swap("known.Parent == nil || known.Parent.Link != p.Link", "false"), "^a child whose ID is taken$", "is another task"},
	{"unknown-link-is-released", "a child whose parent is forgotten is released",
		swap("!known", "false"), "^a child that is forgotten, late effects$", "INV12"},
	{"answer-counts-once", "an answer ends an attempt once",
		swap("!events.AwaitsChild(t, a.Child, a.Link)", "false"), "^a child, a crash$", "does not fit"},
	{"child-waits-for-its-release", "a child is forgotten after its parent has released it, and a parent after it has released its children",
		swap("; kept", "; kept && false"), "^a child that is forgotten$", "is forgotten before"},
	{"every-try-is-undone", "a step is undone after the children of all its tries",
		swap("s.unsettled() < 0", "true"), "^two children of a step$", "is undone, and its child|which may have had an effect"},
	{"cancel-waits-behind-its-submission", "what a parent says to its child is sent behind the child's submission",
		swap("x.starts[string(y.record.Key)] > 0", "false"), "^a child that waits, a cancel$", "counts as lost although"},
}

// bySeeds are the rules that only seeds of the simulator search, in its TestSeedsCatchMutants: the worlds that show them are too large here.
var bySeeds = []string{"decision-is-about-one-child"}

func notBySeeds(places map[string][]place) map[string][]place {
	maps.DeleteFunc(places, func(name string, _ []place) bool { return slices.Contains(bySeeds, name) })
	return places
}
