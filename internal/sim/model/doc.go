// Package model searches the protocol of owners exhaustively: it runs the real supervisor.Owner, the real fold of
// events.State and the real plan of scheduler over a model of the broker so small that every order of events, and every
// fault within a budget, can be tried. (internal/sim tries orders at random, in larger worlds.)
//
// A World is two nodes, A and B, one partition or two, and whatever lies in the topics or is on its way. It moves by one
// Action at a time: an append lands, a node reads, an acknowledgement comes, a node crashes. What an owner decides then
// follows by itself. After each action the judge checks what landed, what was committed and what was sent.
//
// # A scenario told by hand
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
// Do takes the name of an enabled action or the beginning of it; of several that begin so, the first of Enabled happens,
// and there the oldest stands first. Where nothing of that name is enabled, the error lists what is. Path tells what was
// done and what came of it, and Rest what a world that has nothing under way still owes.
//
// The world begins with a log of three records at offsets 0, 1 and 2 (the claim g of an owner that is gone, the settings,
// the definition of workflow "one"; one record more for each further workflow of the Clients), with the partition given
// to A, and with A told so. Claims are named by who made them and count from 1: A1, A2, B1. A fact is named
// Submitted(T1)[A1/0]: the fact with sequence 0 of the epoch that begins with the claim A1.
//
// An owner claims as soon as it has read its log to the end, so "A sends Claim" is no action of its own but comes of
// "A reads its log", as its decisions come of "A reads submissions" and of acknowledgements. With BatchFacts 1, the
// default, each append holds one fact and what follows from it at once. Reading one's own facts in the log changes
// nothing, and is no action. Every fault needs a budget; what people do needs a Client.
//
// # The search
//
// Search goes through every world of a configuration, the shortest paths first, until there is none left: so the first
// violation has one of the shortest ways to it, and none within the budgets is missed. A world is a few numbers, since
// owners, stores, logs, inputs and effects are each kept once and named (space). An owner's answer to an event is
// remembered: it is a function of the owner and the event, and the real code runs once for each such pair, on a copy that
// copyOf makes by reflection. Two owners are the same when their fields are, but for those that leftOut names, each with
// the reason why it decides nothing.
//
// When all worlds are found, it is also known whether those in which nothing is under way owe nothing (Rest), and whether
// each world can come to such a one by what is under way alone: otherwise it is a livelock.
//
// Configurations lists what is searched, and how much of it with every test (small), in CI (ci) and on demand (large):
//
//	go test ./internal/sim/model -run TestModelHolds -v -model.bound=ci
//	go test ./internal/sim/model -run TestModelHolds -v -model.only='^a hand-over$'
//
// TestModelNeedsEachRule shows for each rule of supervisor.Rule what breaks without it, and TestModelCatchesMutants,
// which compiles the product with one line changed, for the rules that have no switch.
//
// # What is left out
//
// Clocks do not differ between nodes, and time stands still but for the action "the clock passes the next step", behind
// which everything that waits is due. So pauses before claims and an append without an answer for ten seconds are events
// like others. Sending is one action with its acknowledgement unless SlowAcks has a budget. A crashed process is up
// again at once. A node reads a topic to its end at once (to read less is to have read earlier), and the agents' turns
// move on only when something else happens. Workflows are all applied before the world begins. Acknowledged records are not lost again: no protocol on one log can mend that.
package model
