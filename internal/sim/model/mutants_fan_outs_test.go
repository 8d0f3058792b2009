package model_test

// fanOutMutants break the rules of fan-outs.
var fanOutMutants = []mutant{
	{"items-being-undone-have-failed", "an item that is being undone counts among the failures that are tolerated",
		never, "^a fan-out, a failure that is tolerated$", "more failures are tolerated"},
	{"failure-beyond-tolerate-counts", "a failure beyond those that are tolerated is that of the task",
		swap("events.Tolerates(f.Task, s)", "true"), "^a fan-out, a failure that is tolerated$", "more failures are tolerated"},
	{"tolerated-item-is-undone", "a fan-out is over when the items whose failure is tolerated are undone",
		never, "^a fan-out, a failure that is tolerated$", "before its items are over|count as"},
	{"fan-out-waits-for-its-items", "a fan-out is over when all its items are",
		swap(" && f.Open() == 0", ""), "^a fan-out$", "before its items are over"},
	{"no-item-begins-after-a-failure", "no item begins after one that has failed, until an operator has decided about it",
		swap("s.Failed() || s.State == events.StepStateUndoFailed", "false"), "^a fan-out, two failures that park$", "begins after a failure"},
	{"items-are-undone-in-reverse-order", "of the items that completed, the last one is undone first",
		swap("cmp.Compare(a.Completion, b.Completion)", "cmp.Compare(b.Completion, a.Completion)"), "^a fan-out, an undo of all items$", "before one that completed later"},
	{"undos-of-items-have-a-window", "only as many items are undone at a time as are done at a time",
		swap(" && len(u.under) < c.step.For.Parallel", ""), "^a fan-out, an undo of all items$", "more items are being undone"},
}
