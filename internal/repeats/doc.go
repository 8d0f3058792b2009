// Package repeats keeps a log readable while something fails again and again: a repeated warning is shown now and then, with the number of
// those that were not.
//
// Two warnings are the same if their messages are: the messages of this repository are constants, so there are few. Messages below Warn
// pass as they are. It starts no goroutine, and takes the time from the records.
package repeats
