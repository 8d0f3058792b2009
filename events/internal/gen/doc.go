// Command gen writes the JSON codec of package events: how each struct is written and read, member by member, and the
// table of the kinds of facts. Run go generate ./events after changing a type or a tag.
//
// It reads the Go files of events and knows nothing else:
//
//   - events/codec_gen.go holds the methods write and read of the structs that main.go lists and of all that they contain.
//     Members, their names, their order and when they are left out follow from the fields and their tags, as in encoding/json.
//   - events/fact_gen.go follows from the constants of type Name. A constant whose word is also the name of a struct is a fact
//     that this version reads and writes; any other is reserved.
//
// A type with a handwritten write method writes and reads itself (see events/codec.go). An unknown type or tag is an error: the
// generator never leaves a member out. Its test fails if the committed files differ from its output.
package main
