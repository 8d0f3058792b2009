// Package jsontext reads and writes JSON text without reflection, for the places where a profile shows that reflection takes
// most of the time. It does not know facts or tasks. The generated codec of events and the expressions both use it.
//
//   - Skip, Space and Walk are for callers that look up members of raw JSON.
//   - Reader reads values of known types, and Writer writes them.
//   - Decode reads any value.
//   - Marshal, Compact and Canonical are the forms of JSON that Sagalog stores and hashes.
//   - Wide finds the numbers that take too long to calculate with.
//   - AppendMillis and ParseMillis write and read instants as text.
//
// encoding/json is the oracle. If this package accepts a text, encoding/json accepts it with the same meaning. Writer writes
// the same bytes as Marshal. If the package is not sure (the text is not JSON, values are nested deeper than MaxDepth,
// members occur twice, a number has hundreds of digits), it reports that, and the caller uses encoding/json, which also produces the errors for the user. So
// this package has few errors.
package jsontext
