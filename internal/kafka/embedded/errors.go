package embedded

import "fmt"

// LockedError is returned by Open if another process has the data directory open.
type LockedError struct {
	Path string
	// Holder is the content of the lock file: process ID and start time.
	Holder string
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("the data directory is in use by %s (lock file %s): stop that process, or use another data directory",
		holder, e.Path)
}

// PortBusyError is returned by Open when something else listens on the address.
type PortBusyError struct{ Addr string }

func (e *PortBusyError) Error() string {
	return fmt.Sprintf("%s is in use: stop what listens there, or choose another address (port 0 takes a free one)", e.Addr)
}

// DamageError is returned by Open for a log with a hole, or with a damaged batch that is not its last: starting would silently lose
// acknowledged records. If the last run had Fsync, missing records that it had not synced yet do not count as damage, but a damaged
// last batch that was synced does.
type DamageError struct {
	Topic     string
	Partition int32
	File      string
	// Position is the byte in the file at which the damage begins.
	Position int64
	// Offset is the first offset that cannot be trusted.
	Offset int64
	What   string
	Remedy string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("the log of %s partition %d is damaged: %s (file %s, byte %d, from offset %d on). %s",
		e.Topic, e.Partition, e.What, e.File, e.Position, e.Offset, e.Remedy)
}
