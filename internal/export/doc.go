// Package export writes the history of a namespace as tables that other programs read: Parquet, CSV or JSON Lines, and as logs for
// process mining: XES and OCEL.
//
// It reads the log through an interface and judges each record by the rule for foreign readers. The tables of facts and of attempts follow from the facts one
// after the other; those of tasks and steps are what the fold leads to. It decides nothing, and changes nothing in the log. The rows of a partition go into files that begin and end at places that the log alone decides, so the
// same range gives the same bytes, and an export that was broken off goes on behind its last complete file.
//
// The logs for process mining are traces: what the table of tasks says of a run, with an event for each fact that means something to people. Events wait in a
// file until their run is over for good. Each partition writes its traces into a section, and the sections become one file.
//
// Memory does not grow with the log. What has to be known of each task that the log has not forgotten is on shelves, which put most of it aside in files without a
// name. All of the following is in memory: attempts that have begun and not ended, what attempts need of definitions, the names of workflows and, for OCEL, the values of
// labels that are objects.
//
// It refuses to guess: sealed values stay sealed, void records are no facts (they have a table of their own), what the log no longer says is absent, and a
// directory that holds another export, or to which one is writing, is an error.
package export
