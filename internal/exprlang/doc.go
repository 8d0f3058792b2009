// Package exprlang evaluates the `${ ... }` expressions of workflow definitions and of agent bindings.
//
// The language between the braces is expr (github.com/expr-lang/expr). If the expression is the whole string, the result
// keeps the type of its value. Inside a longer string, the value is inserted as text. `$${` is a literal `${`.
//
//	Compile          a JSON value whose strings may hold expressions  ->  Template, evaluates to JSON
//	CompileString    one string                                       ->  Text, evaluates to text
//	CompileCondition one expression                                   ->  Condition, evaluates to a bool
//
// Compiled templates, texts and conditions are immutable and safe for concurrent use. A Scope holds the values that expressions
// see. It decodes lazily, caches what it has decoded, and belongs to one goroutine. A borrowed scope (Borrow) is returned after
// use; only the results of Eval stay valid after that.
//
// Invariants:
//
//   - INV4: a result depends only on the source and the scope. It depends on no clock, randomness, time zone database or map
//     order: now, date and timezone are removed, and keys, values and toPairs are sorted.
//   - Numbers keep their value. A plain path such as `${ input.amount }` yields the bytes as written, so
//     12345678901234567890 and 1.10 survive. Elsewhere an integer that fits becomes int, any other number becomes float64 if
//     that has the same value, and otherwise stays a json.Number, on which arithmetic and comparison by size are errors. Numbers are
//     equal if they have the same value: 1.10 is 1.1, and 9007199254740993 is not 9007199254740992.0.
//   - Arithmetic never loses digits silently. Integers have 64 bits, and so have durations. A decimal of at most 15 significant digits
//     is the number that was written, not the binary fraction that stands for it: +, - and * of such numbers and integers give
//     the exact result (0.1 * 3 is 0.3, and sum adds in this way), and so does ** of integers. An exact result that is neither such a
//     number nor an integer is an error that names the operation. The results of /, mean, median and ** of decimals are
//     approximations. They usually have more than 15 digits, and whatever is calculated from such a number is an approximation
//     too. Division by zero, infinity and NaN are errors.
//   - An evaluation ends: every loop, every text and list that it creates, and every value that an operator or a function
//     traverses or that is decoded draws on the budget of its scope, which all evaluations of one decision share, so that a
//     definition cannot exhaust the process that evaluates it. A pattern (matches) is bounded in its length and its repetitions. A
//     panic inside becomes an error.
//
// Most expressions are paths. They are looked up in the raw JSON (Scope.split) without expr's virtual machine, and draw on the
// budget only if they go through large values. If the lookup is not sure, encoding/json decodes from the start; encoding/json is also the
// oracle of the tests. Decoding with encoding/json alone costs 2 to 3 % of the CPU of a task.
//
// A missing member of an object is null; a member of null is an error that names the null value (`?.` yields null instead).
//
// It refuses methods, $env and access to anything but the names that the caller allows.
package exprlang
