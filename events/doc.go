// Package events holds the facts of the log and their consequences: the facts and their CloudEvents, the formats of work,
// reports and submissions, the state of a partition, and the one pure fold that turns facts into state. FORMAT.md describes the
// wire in prose, for other languages. Everything else in Sagalog imports this package; of our packages it imports only
// internal/jsontext.
//
// # What it keeps
//
//   - INV1: a task lives in one partition, its Home, and its order there is the only order.
//   - INV2: State at an offset is the fold of the facts before it, with the same bytes on every machine and in every run. So
//     facts and state hold Instant and not time.Time, Marshal is a fixed point, all user data goes through
//     Compact before it enters a fact, and State.Hash does not depend on what was in memory, flushed or evicted.
//   - INV4: the fold depends on nothing but its arguments. It evaluates no expression, reads no clock, uses no random numbers,
//     and needs no topic but events: each fact carries everything that the fold needs.
//   - INV7: at most one outcome of an attempt is accepted, the first in the log.
//   - INV9: a finished task never changes, unless an operator reruns it, or its parent asks it to undo itself.
//
// # The void rule
//
// Not every record of events is a fact. A claim is valid only if it names the current one as its predecessor. Any other record
// is a fact only if it has the epoch of the valid claim and the next sequence in it; a gap voids the rest of the epoch. All
// other records are void: they change nothing, even if they cannot be read, and every reader skips them. The Fate that Apply
// returns says whether a record was accepted or void.
//
// An accepted fact that does not fit the state is a defect of its writer. Apply returns ErrImpossible, and the
// partition stops: stopping beats a wrong state.
//
// # Reading the log
//
// The facts are in the topic <ns>.events, by default sagalog.events, as many partitions as the engine has. Each is read on its own, and Home says in
// which one a task is. Only the fold tells what is void, so a reader needs a State, and begins at the first record that the topic holds. If the log was
// cut (the setting keep_log), that is a CarryBegun, with which Apply begins; the facts of the carry bring the tasks of before. This is a whole reader:
//
//	// follow folds a partition of the log, from its first record until ctx ends, and shows each fact with the state after it.
//	func follow(ctx context.Context, brokers []string, partition int32, show func(*events.Fact, *events.State)) error {
//		start := map[string]map[int32]kgo.Offset{"sagalog.events": {partition: kgo.NewOffset().AtStart()}}
//		c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(start))
//		if err != nil {
//			return err
//		}
//		defer c.Close()
//		state := events.NewState(partition, nil)
//		for {
//			fetches := c.PollFetches(ctx)
//			if err := fetches.Err(); err != nil {
//				return err
//			}
//			for _, k := range fetches.Records() {
//				r := events.Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value}
//				for _, h := range k.Headers {
//					r.Headers = append(r.Headers, events.Header(h))
//				}
//				f, err := events.DecodeFact(&r)
//				if err != nil {
//					return err
//				}
//				switch fate, err := state.Apply(f, r.Offset); {
//				case err != nil:
//					return err
//				case fate == events.FateAccepted:
//					show(f, state)
//				}
//			}
//		}
//	}
//
// The Name of a body says which kind of fact it is, and FORMAT.md describes each. The state keeps all tasks in memory, unless its reader evicts them
// and gives NewState a Loader. A reader of some tasks needs none of this: client.Engine.History has their facts.
//
// # A task
//
//	(none)      -- Submitted                          --> pending
//	pending     -- StepStarted                        --> processing
//	pending     -- TaskProcessed: all were skipped    --> processed
//	processing  -- TaskProcessed                      --> processed
//	pending, processing, error
//	            -- CancelRequested, DeadlinePassed,
//	               a verdict to undo                  --> undoing
//	undoing     -- TaskUndone                         --> undone
//	pending, processing, undoing
//	            -- TaskParked                         --> error
//	error       -- TaskReopened, or an operator
//	               decided about the last failed step --> where it was parked from
//	pending, processing, undoing, error
//	            -- TaskTerminated                     --> terminated
//	processed, undone, terminated, error
//	            -- TaskRerun                          --> undoing
//	pending, processing, error, processed
//	            -- ChildUndoRequested: by its parent  --> undoing
//	undoing     -- RunBegun: what runs once more
//	               is undone                          --> processing
//	(none)      -- ChildRefused: never accepted       --> rejected
//	processed, undone, terminated, rejected
//	            -- TasksSwept                         --> (none)
//
// A task that is not in one of the last four may be paused besides: from TaskPaused to TaskResumed, CancelRequested or ChildUndoRequested it keeps its state, or
// changes it by what its running attempts report, and nothing of it starts.
//
// A task in error is parked. A task that was parked while undoing leaves the error state only by an operator's request: if a cancel, a
// deadline or a late failure could end the parking, the operator would lose sight of the task, and none of its steps could make
// progress (INV10).
//
// # A step
//
//	not_started, waiting
//	            -- StepStarted                        --> running
//	not_started, waiting (never attempted)
//	            -- StepSkipped                        --> skipped
//	not_started, waiting (never attempted)
//	            -- WaitStarted (no agent does it)     --> waiting
//	running, waiting since WaitStarted
//	            -- StepCompleted                      --> completed
//	running     -- StepFailed, Timeout: by the verdict
//	               retry, cool_down                   --> waiting
//	               undo, park                         --> failed, timed_out
//	               continue                           --> timed_out (continued)
//	not_started, waiting
//	            -- StepFailed, Timeout of attempt 0:
//	               likewise                           --> waiting, failed, timed_out (continued)
//	waiting     -- the task turns to undoing          --> failed
//	failed, timed_out, waiting
//	            -- TaskReopened                       --> waiting
//	            -- StepCompleted by an operator       --> completed
//	not_started, failed, timed_out, waiting
//	            -- StepSkipped by an operator         --> skipped
//	completed, failed, timed_out
//	            -- CompensationStarted                --> undoing
//	undoing     -- Compensated                        --> undone
//	undoing     -- CompensationFailed, Timeout: park  --> undo_failed
//	undo_failed -- TaskReopened                       --> undoing
//
// The steps that need a step start when it is completed, skipped or continued: the task goes on without a step that is continued, and
// nothing starts it again.
//
// A step with items (Step.Fan) has no attempts. It is waiting from FanOutStarted until its items are over, and then completed. The items are
// further steps of the task: see fan_out.go.
//
// Every step that may have changed something outside (Step.Touched) is undone. No undo starts while an attempt of a do is
// running: see docs/protocol.md, "Undo".
//
// # The rows of a task
//
// A task is stored, hashed and written as several entities, its rows. So the cost of a fact depends on what it changes, not on
// the size of the task, and everything that can grow is in rows, each smaller than a record:
//
//	task its head: the small members, the steps that are not rows, and the numbers of the other rows
//	input, output   the value, if it is longer than headBytes
//	step            a step that is longer than headBytes, or not among the first headSteps
//	request         a request that came before the task, or the ID of one that was judged
//
// The ID of a row is that of the task; for a step and a request, a NUL and its path or ID follow. The choice of rows depends on
// the state alone (INV2). Most tasks are a single row: the head is written with each fact anyway, and a further row costs more
// than a few hundred bytes in the head.
//
// In memory a task is one Task. The fold marks each step that it changes (Step.change), and Flush writes the head and the marked
// rows. The head is bounded, so anything that a later version adds to tasks in large numbers becomes rows of a new kind.
//
// # The undo of a step
//
// We say undo for what the saga literature calls compensation. The names of the facts use compensation.
//
//	(none), waiting
//	            -- CompensationStarted                --> running
//	running     -- Compensated                        --> undone
//	running     -- CompensationFailed, Timeout: by the verdict
//	               retry, cool_down                   --> waiting
//	               park                               --> failed
//	(none), waiting
//	            -- CompensationFailed of attempt 0:
//	               likewise                           --> waiting, failed
//	failed, waiting
//	            -- TaskReopened                       --> waiting
//	            -- Compensated or StepSkipped (left)
//	               by an operator                     --> undone
//
// # The codec
//
// codec_gen.go writes and reads each type member by member without reflection, and fact_gen.go knows the kinds of facts.
// Both are generated from the types and from the constants of type Name: change those and run go generate ./events. The
// generated code does not define the format: it writes the same bytes as Marshal, and accepts nothing that encoding/json
// refuses. In doubtful cases it falls back to encoding/json. The properties in oracle_test.go and the fuzz targets
// compare the two. schema_gen.json, the JSON Schema of the records, comes from the same types, and its descriptions from their comments.
//
// # What it refuses to do
//
// It decides nothing: scheduler plans the next facts from a state, and supervisor judges failures. It reads and writes no topic
// and knows no Kafka client: the shell passes Records in and out. It stores nothing: Flush returns what changed, and a Loader
// loads it again. It takes no lock: one goroutine owns a State.
//
// # Stability
//
// The records are stable: FORMAT.md says what a version of the engine reads and writes, and the names of topics, types and members stay. The
// Go names may change in any release, since this package is the inside of the engine, with these exceptions, which stay source compatible within a major
// version:
//
//   - Submission, which is client.Submission.
//   - Work, Class, Effect and Operation with their constants, Duration and Instant, ErasedError, and the functions about sealed values (IsSealed, HasSealed,
//     ParseSealed, Sealed), of which package agent makes use.
//   - Report, Error, Result with its constants, Presence, Missing, Record and Header, which package agenttest shows too.
//
// Fields may be added to these types, so name the fields in struct literals.
package events
