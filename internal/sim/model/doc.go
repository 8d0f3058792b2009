// Package model searches the protocol of owners exhaustively: it runs the real supervisor.Owner, the real fold
// (events.State) and the real plan (scheduler) over a model of the broker that is small enough to try every order of events,
// and every fault within a budget. (internal/sim tries orders at random, in larger worlds.)
//
// A World is two nodes, A and B, one partition or two, and all records in the topics or on their way. One Action at a time
// changes it: an append lands, a node reads, an acknowledgement comes, a node crashes. The owner's decisions are part of the
// action. After each action the judge checks what landed, what was committed and what was sent.
//
// # A scenario by hand
//
//	w := model.New(model.Config{
//		Budgets: map[model.Budget]int{model.Reassigns: 1, model.LateAppends: 1},
//		Clients: []model.Client{{Kind: model.Submit, Task: "T1", AtStart: true}},
//	})
//	for _, does := range []string{
//		"A reads its log",
//		"A's claim lands",
//		"A reads its log",
//		"A reads submissions",
//		"A's append lands: Submitted(T1)",
//		"the group gives the partition to B",
//		"B learns",
//	} {
//		require.NoError(t, w.Do(does))
//		require.Empty(t, w.Violation())
//	}
//
// Do takes the name of an enabled action, or the beginning of the name. If several match, the first one in Enabled happens,
// which is the oldest. If none matches, the error lists the enabled actions. Path lists the actions and their consequences,
// and Rest lists the work that is left undone in a world with nothing under way.
//
// The world begins with a log of three records at offsets 0, 1 and 2 (the claim g of an owner that is gone, the settings,
// the definition of workflow "one"; plus one record for each further workflow of the Clients), with the partition assigned
// to A, and A informed of it. A claim is named after its node and counted from 1: A1, A2, B1. A fact is named
// Submitted(T1)[A1/0]: the fact with sequence 0 of the epoch that begins with the claim A1.
//
// An owner claims as soon as it has read its log to the end, so "A sends Claim" is not a separate action but part of "A
// reads its log", just as its decisions are part of "A reads submissions" and of acknowledgements. With BatchFacts 1, the
// default, each append holds one fact and the facts that follow from it at once. A node that reads its own facts changes
// nothing, so this is not an action. Every fault needs a budget, and every act of a person needs a Client.
//
// # The search
//
// Search visits every world of a configuration, shortest paths first. So it reports the first violation with one of its
// shortest paths, and misses none within the budgets. A world is stored as a few numbers, since each distinct owner, store,
// log, input and effect is kept only once (space). An owner's answer to an event is remembered, because it is a function of
// the owner and the event: the real code runs once for each such pair, on a copy that copyOf makes by reflection. Two owners
// are equal if their fields are equal, except the fields that leftOut lists, each with the reason why no decision depends on
// it.
//
// When all worlds are found, Search checks two more things: no work is left undone in a world with nothing under way (Rest),
// and every world can reach such a world without new events. A world that cannot is a livelock.
//
// Configurations lists the searches, and which of them run with every test (small), in CI (ci) and on demand (large):
//
//	go test ./internal/sim/model -run TestModelHolds -v -model.bound=ci
//	go test ./internal/sim/model -run TestModelHolds -v -model.only='^a hand-over$'
//
// TestModelNeedsEachRule shows what breaks without each rule of supervisor.Rule. TestModelCatchesMutants does the same for
// the rules that have no switch: it compiles the product with one line changed.
//
// # What is left out
//
// Clocks do not differ between nodes, unless Config.Wrong is set, and time stands still except for the action "the clock passes the next step", after
// which every timer is due. So a pause before a claim, and ten seconds without an answer to an append, are ordinary events.
// Sending a record and its acknowledgement are one action unless SlowAcks has a budget. A crashed process restarts at once.
// A node reads a topic to its end in one action (reading less is the same as having read earlier), and the order in which
// agents take turns changes only when something else happens. All workflows are applied before the world begins.
// Acknowledged records are never lost, since no protocol on one log survives that.
package model
