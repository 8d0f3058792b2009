// Package export writes the history of a namespace as tables that other programs read: Parquet, CSV or JSON Lines.
//
// It reads the log through an interface and judges each record by the rule for foreign readers. The tables of facts and of attempts follow from the facts one
// after the other; those of tasks and steps are what the fold leads to. It decides nothing, and changes nothing in the log. The rows of a partition go into files that begin and end at places that the log alone decides, so the
// same range gives the same bytes, and an export that was broken off goes on behind its last complete file.
//
// It refuses to guess: sealed values stay sealed, void records are no facts, and a directory that holds another export is an error.
package export
