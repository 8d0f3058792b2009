package model_test

// trimMutants break the rules by which inputs are trimmed.
var trimMutants = []mutant{
	{"trim-waits-for-durable", "inputs are trimmed only by facts that are durable",
		swap("x.epoch.confirmed < x.after", "false"), "^trimmed inputs, tasks, an unknown outcome$", "stops"},
	{"trim-keeps-last-passed", "the last passed input is kept, since the next owner compares it",
		swap(" - 1", ""), "^trimmed inputs, tasks, a crash$", "stops"},
	{"trim-keeps-held", "an input whose request is held is kept",
		swap("h.Cause", "h.Cause[:0]"), "^trimmed inputs, a held cancel$", "stops"},
	{"trim-keeps-cited", "an input that a fact with unacknowledged effects cites is kept",
		swap("m.input", "m.input[:0]"), "^trimmed inputs, a crash$", "stops"},
	{"trim-keeps-cited-in-flight", "an input that a fact in flight cites is kept",
		swap("citedBy(f)", "citedBy(f)[:0]"), "^trimmed inputs, a crash$", "stops"},
	{"trim-keeps-held-at", "the input of a request that was held until it expired is kept until its dead letter is there",
		swap("inputOf(f)", "f.Cause"), "^trimmed inputs, a held cancel, a crash$", "stops"},
	{"trim-keeps-failed-forward", "an input that could not be sent home is kept until its dead letter is there",
		swap("b.Input", "b.Input[:0]"), "^trimmed inputs, a forward$", "stops"},
	{"trim-keeps-for-delayed", "nothing is trimmed while dead letters or forwards are owed to a delayed destination",
		swap("x.owesDelayed(in)", "false"), "^trimmed inputs, a delayed dead letter$", "stops"},
	{"missing-record-is-looked-for-again", "a deposed owner that misses a record which the next owner has trimmed does not stop",
		swap("errEpochOver", "err"), "^trimmed inputs, a hand-over$", "stops"},
}
