// Package scheduler knows workflows: what their definitions say, whether these are sound, and what follows from the
// state of a task.
//
//	document  --Parse-->  Source  --Complete-->  Definition  --Compile-->  Program
//	YAML, JSON            canonical body,        defaults filled,          expressions and schema
//	                      content hash           DefinitionAdopted         compiled, evaluates
//
// Parse reports every fault of a document at once, each with line and column. A Source's body is what the topic
// definitions stores; Catalog folds that topic into the versions of each workflow. Complete fills the defaults, and
// what it gives is what a partition adopts, so that no partition depends on the defaults of the Sagalog that reads it.
// Scheduler answers an owner: Plan says what follows from a task's state, Admit which of the ready steps start now.
//
// Invariants:
//
//   - INV4: Plan, Admit and all of Program depend on nothing but their arguments. There is no clock, randomness,
//     goroutine, context or I/O in this package; Parse reads files through a function that its caller gives.
//   - INV5: Plan is quiet once its own facts are folded.
//   - INV6: a step starts only when all that it needs has completed or was skipped. Hence a condition or mapping may
//     name only steps among its transitive needs, and Parse refuses others.
//   - A definition that Parse accepts is one that Complete and Compile accept.
//   - The same content has the same hash, in whatever order, spacing or format it was written.
//
// It refuses what it cannot keep: unknown keys, keys of later versions, expressions that read a clock or may not
// end, schemas that are loaded from elsewhere, YAML that JSON cannot say. It knows no business logic, no Kafka and no
// storage.
package scheduler
