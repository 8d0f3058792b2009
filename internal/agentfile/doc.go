// Package agentfile reads the YAML files that bind agents without code. It holds what all kinds of bindings have in common: the
// documents of a file, faults with their places, environment variables, and secrets that no message may contain. The kinds are
// agent/httpagent and agent/execagent.
//
// # Invariants
//
//   - Every mistake of all files is reported at once, with file, line and column.
//   - No fault shows the value of an environment variable.
//   - The value of a variable (of six bytes and more) is secret unless the document says that it is public, or names it only where
//     nothing secret belongs.
package agentfile
