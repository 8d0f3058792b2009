// Command gen writes the JSON codec of package events: how each struct is written and read, member by member, and the
// table of the kinds of facts, and the JSON Schema of all records. Run go generate ./events after changing a type, a tag or a comment.
//
// It reads the Go files of events, for the schema also those of other packages that hold types of records (elsewhere), and knows nothing else:
//
//   - events/codec_gen.go holds the methods write and read of the structs that main.go lists and of all that they contain.
//     Members, their names, their order and when they are left out follow from the fields and their tags, as in encoding/json.
//   - events/fact_gen.go follows from the constants of type Name. A constant whose word is also the name of a struct is a fact
//     that this version reads and writes; any other is reserved.
//   - events/schema_gen.json has the types that schema_roots.go lists and all that they contain. A member is required unless its tag says that an
//     empty one is left out. Descriptions are the comments, with the names of members and the words of constants in place of those of Go.
//
// A second tag says what a type leaves open, for the schema alone: schema:"optional" and schema:"required", if a reader differs from the writer;
// schema:"uuid"; schema:"type:Duration|Instant", for a text or raw JSON that is one of these; schema:"words:Skip*", for a text that is one of the
// constants whose names begin so.
//
// A type with a handwritten write method writes and reads itself (see events/codec.go). An unknown type or tag is an error: the
// generator never leaves a member out. Its test fails if the committed files differ from its output.
package main
