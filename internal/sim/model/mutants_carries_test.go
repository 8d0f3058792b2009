package model_test

// carryMutants break the rules by which the state is carried and the log is cut.
var carryMutants = []mutant{
	{"cut-waits-for-effects", "the log is cut only before facts whose effects are settled",
		swap("<= owed", "<= max(owed, snap.Next)"), "^a carry and a step$", "the log may be cut behind an effect"},
	{"half-carried-is-completed-first", "nothing is decided while an entity is half carried",
		put("if err := c.inbox.judge(firstShares); err != nil || len(c.batch.facts) > 0 { return err }"), "^a carry$", "an entity is half carried"},
	{"carry-waits-for-the-store", "tasks are carried only from a store that has all facts from before the carry",
		never, "^a carry, the store late$", "no more tasks to carry"},
	{"later-tasks-are-not-carried", "a task that was accepted after the carry had begun is not carried",
		never, "^a carry$", "no more tasks to carry, and -1 are left"},
	{"forgotten-task-is-not-carried", "a task that is forgotten before its turn is not carried",
		always, "^a carry$", "no more tasks to carry, and 1 are left"},
	{"uncarried-task-is-passed", "a reader that begins at a carry passes the facts of tasks that come later in it",
		never, "^a carry and a step$", "INV2: a reader that begins with the carry"},
	{"hash-is-not-compared-while-loading", "a reader that begins at a carry compares no hash before the carry has ended",
		swap(" && !p.Loading()", ""), "^a carry, state hashes$", "INV2: a reader that begins with the carry"},
}
