// Package archtest checks the shape of the code: rules that no compiler checks, and that reviewers no longer notice after
// the tenth file.
//
// It parses every Go file of the module, whatever its build tags, and runs the rules over the syntax trees: imports form a
// star around events, the Kafka client and Pebble each have one home, the pure packages use no clock, randomness or I/O
// (INV4), the program cannot reach the switches of the protocol's rules, files, functions, types and interfaces have maximum
// sizes, and every package says what it is for. Other rules are about text: names of files and tests, words at which a
// reader stumbles, and citations. A file, heading or test that a comment or a document cites must exist, and nothing outside
// the repository is cited.
//
// If the code breaks a rule on purpose, there is an exception: a row with the reason, next to the rule. A row that is no
// longer needed fails the test too, so the lists stay true. Each rule has a test which shows that it can fail.
//
// It knows only syntax: it sees no types and does not judge the design.
package archtest
