// Package cli is the client side of the command line: the commands that talk to an engine's HTTP API, and the parts that all
// commands share: exit codes, environment variables for flags, and suggestions for mistyped commands.
//
// Invariants:
//   - Data goes to stdout, everything else to stderr; -o json and -o jsonl print the API's answer.
//   - Exit codes mean the same in all commands: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict or refused, 5 still
//     running or not judged, 6 ended undone, terminated or in error (a job: stopped), 7 a list that lacks partitions. Only the function Code chooses them.
//   - A flag can be set by a variable (SAGALOG_ and the flag's name in capitals, with _ for -), except where WithoutVariable
//     prevents it. A flag on the command line wins.
//   - A submission is repeated only with the ID that it was first sent with, so that repeats have no further effect.
//
// It knows nothing about the engine except the documents of its API: the validator of definitions is passed in.
package cli
