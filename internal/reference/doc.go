// Package reference writes the reference pages of docs/reference as Markdown: commands, HTTP API, files, expressions, settings, limits, exit
// codes and metrics. `sagalog generate reference DIR` prints those of the program itself, and go generate ./cmd/sagalog those of the
// repository.
//
// A page is a function of what the program is made of: its commands, its OpenAPI document, its JSON Schemas, its metrics. So a page cannot
// say something else than the program, and two runs give the same bytes. The texts are those of the help and of the schemas; what is missing there
// is added there and not here.
//
// It refuses to explain. What to do with a setting or a command is in the other documents, which link here.
package reference
