// Package exprlang evaluates the `${ ... }` expressions of workflow definitions and of agent bindings.
//
// What stands between the braces is expr (github.com/expr-lang/expr). Around a whole string the expression gives its
// value with its type, inside a string its text; `$${` is a literal `${`.
//
//	Compile          a JSON value whose strings may hold expressions  ->  Template, evaluates to JSON
//	CompileString    one string                                       ->  Text, evaluates to text
//	CompileCondition one expression                                   ->  Condition, evaluates to a bool
//
// What is compiled is immutable and safe for concurrent use. A Scope holds the values that expressions see; it
// decodes lazily, caches what it decoded, and belongs to one goroutine. A borrowed one (Borrow) is given back after use, and
// nothing but results of Eval outlives that.
//
// Invariants:
//
//   - INV4: a result depends on the source and the scope alone. There is no clock, randomness, time zone database or
//     map order in it: now, date and timezone are taken away, and keys, values and toPairs are sorted.
//   - Numbers keep their value. A plain path such as `${ input.amount }` gives the bytes that were written, so
//     12345678901234567890 and 1.10 survive; elsewhere an integer that fits becomes int, another number float64 if that
//     has the same value, and else it stays text of the type json.Number, with which arithmetic is an error.
//   - An evaluation ends: every loop, text and list that it makes draws on one budget, and so does everything that an
//     operator or a function goes through, so that a definition cannot exhaust the process that evaluates it. A pattern
//     (matches) is bounded in its length and its repetitions. A panic inside becomes an error.
//
// Most expressions are paths, and most conditions compare paths. These are looked up in the raw JSON (Scope.split) and
// decided there (shortcut) without the machine of expr. Paths draw on no budget, here or in the machine; a shortcut decides
// only what costs the machine at most half of its budget, so that no verdict depends on which of the two decides. Where
// either is not sure, encoding/json or the machine does it from the start, and these are the oracles of the tests.
//
// A member that an object does not have is null; a member of null is an error that names what was null (`?.` asks
// for null instead).
//
// It refuses methods, $env and access to anything but the names that the caller allows.
package exprlang
