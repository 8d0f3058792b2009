// Package recordschema turns the JSON Schema of the records (events.RecordSchema) into documents for other programs: all schemas, one alone with what
// it refers to, and an AsyncAPI document that says which record is in which topic, with which headers and key.
//
// It adds what the types of package events do not say: the topics, who writes and who reads what, and the headers. events/FORMAT.md has the same
// in prose. It reads no topic and knows no client.
package recordschema
