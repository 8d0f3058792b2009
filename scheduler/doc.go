// Package scheduler knows workflows. It reads and checks their definitions, and plans what follows from the state of a task.
//
//	document  --Parse-->  Source  --Complete-->  Definition  --Compile-->  Program
//	YAML, JSON            canonical body,        defaults filled,          expressions and schema
//	                      content hash           DefinitionAdopted         compiled, evaluates
//
// Parse reports every fault of a document at once, each with line and column. The topic definitions stores the bodies of
// Sources, and Catalog folds that topic into the versions of each workflow. Complete fills in the defaults. A partition
// adopts the result, so it does not depend on the defaults of the version of Sagalog that reads it. Scheduler answers an
// owner: Plan says what follows from a task's state, and Admit picks the ready steps that start now.
//
// # A definition
//
// A workflow has steps, which run in parallel unless one needs another:
//
//	workflow: order
//	input: {type: object, required: [total]}       # a JSON Schema; a submission that does not fit is refused
//	steps:
//	  reserve:
//	    agent: stock                               # gets the input of the task
//	    undo: {}                                   # is undone if the task fails later
//	  pay:
//	    needs: [reserve]
//	    agent: bank
//	    with: {total: "${ input.total }", reservation: "${ steps.reserve.output.id }"}
//	    retry: {attempts: 3, backoff: 1s}          # then the task is undone
//	output: "${ steps.pay.output }"
//
// JSONSchema returns the schema of definitions, with every key, its meaning and its default. docs/workflows.md explains them. Package client
// applies a definition, and package sagalogtest tests one.
//
// # How steps are planned
//
// A step has a kind (stepKind), which says how it starts, how it is undone, and what its attempts receive. There are three kinds: the work
// of an agent, a wait for a signal, and a sleep. The last two have no attempts and no undo.
//
// Invariants:
//
//   - INV4: Plan, Admit and all of Program depend on nothing but their arguments. There is no clock, randomness,
//     goroutine, context or I/O in this package; Parse reads files through a function that its caller gives.
//   - INV5: Plan adds nothing once its own facts are folded.
//   - INV6: a step starts only when every step that it needs is over: it has completed, was skipped, or timed out and the task goes
//     on without it. Therefore a condition or mapping may name only steps among its transitive needs, and Parse refuses others.
//   - Complete and Compile accept every definition that Parse accepts.
//   - The same content has the same hash, whatever its order, spacing or format.
//
// It refuses unknown keys, keys of later versions, expressions that read a clock or may not end, schemas that are loaded
// from elsewhere, and YAML that JSON cannot express. It knows no business logic, no Kafka and no storage.
//
// # Stability
//
// What a definition says, and its keys, stay as they are within a major version (docs/workflows.md). The Go names may change in any release:
// this package is a part of the engine.
package scheduler
