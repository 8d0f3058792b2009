// Package yamltree reads the nodes of a YAML document as the JSON that they stand for, and finds the place of each letter in the file,
// for definitions of workflows and for bindings of agents.
//
// It refuses YAML that JSON does not have: other types, and numbers that YAML reads in two ways.
package yamltree
