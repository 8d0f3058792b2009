// Package archtest holds the shape of the code: what no compiler checks, and what nobody notices in a review after the
// tenth file.
//
// It parses every Go file of the module, whatever its build tags, and runs the rules over the syntax trees: imports form
// a star around events (DESIGN 8), the Kafka client and Pebble each have one home, the pure packages read no clock, no
// dice and no world (INV4), the switches of the protocol's rules are out of reach of the program, files and functions have
// a ceiling, and every package says what it is for.
//
// A rule that the code breaks on purpose has an exception: a row with its reason, beside the rule. A row that nothing
// needs any more fails the test too, so the lists stay true. Each rule has a test that it goes red.
//
// It knows syntax only: it sees no types and judges no design.
package archtest
