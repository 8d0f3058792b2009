package projector

import "errors"

var (
	// ErrFormat is returned by Open for a database of another format. Delete the directory: it is rebuilt
	// from the log.
	ErrFormat = errors.New("the state store has another format")
	// ErrNewer is returned by Open for a database that a newer version of this program wrote. It is left unchanged.
	ErrNewer = errors.New("the state store was written by a newer version")
	// ErrNamespace is returned by Open for the database of another namespace.
	ErrNamespace = errors.New("the state store belongs to another namespace")
	// ErrLocked is returned by Open while another process, or this one, has the database open.
	ErrLocked = errors.New("the state store is in use")
	// ErrDamaged is returned for rows or files that cannot be read. Delete the directory: it is rebuilt
	// from the log.
	ErrDamaged = errors.New("the state store is damaged")
	// ErrRead is returned when the disk could not be read. The data on it need not be wrong.
	ErrRead = errors.New("read the state store")
	// ErrDelta is returned by Commit for a delta that does not continue the stored state: a defect of the caller.
	ErrDelta = errors.New("a delta does not continue the stored state")
	// ErrCursor is returned by List for a cursor that no listing returned.
	ErrCursor = errors.New("the cursor was not returned by a listing")
	// ErrClosed is returned by Wait when the store is closed meanwhile, and by lookups after Close.
	ErrClosed = errors.New("the state store is closed")
	// ErrAnchor is wrapped by every AnchorError.
	ErrAnchor = errors.New("the log is not the one that the stored state was folded from")
	// ErrCheckpoint is returned for a checkpoint that cannot be used: it is half made, damaged, or of another format.
	ErrCheckpoint = errors.New("the checkpoint cannot be used")
	// ErrIndexes is wrapped by each fault that CheckIndexes reports.
	ErrIndexes = errors.New("the indexes do not match the tasks")
)
