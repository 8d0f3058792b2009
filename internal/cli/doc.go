// Package cli is the client side of the command line: the commands that talk to an engine's HTTP API, and what all
// commands of the program share: exit codes, variables for flags, and what is said about a mistyped command.
//
// What it keeps:
//   - Data goes to stdout, everything else to stderr; -o json and -o jsonl print what the API answered.
//   - The exit codes of INTERFACE.md, whose meaning Code decides in one place.
//   - Every flag can be set by a variable: SAGALOG_ and its name in capitals, - as _. A flag given wins.
//   - A submission is sent again only with the ID that it was first sent with, so that repeats have the effect of once.
//
// It knows nothing of the engine beside the API: what validates a definition is passed in.
package cli
