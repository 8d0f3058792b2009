package projector

import "errors"

var (
	// ErrFormat is returned by Open for a database of another format. It is mended by deleting the directory.
	ErrFormat = errors.New("the state store has another format")
	// ErrNewer is returned by Open for a database that a newer version of this program wrote. It is left as it is.
	ErrNewer = errors.New("the state store was written by a newer version")
	// ErrNamespace is returned by Open for the database of another namespace.
	ErrNamespace = errors.New("the state store belongs to another namespace")
	// ErrLocked is returned by Open while another process, or this one, has the database open.
	ErrLocked = errors.New("the state store is in use")
	// ErrDamaged is returned for rows or files that cannot be read. It is mended by deleting the directory.
	ErrDamaged = errors.New("the state store is damaged")
	// ErrDelta is returned by Commit for a delta that does not fit what is stored: a defect of the caller.
	ErrDelta = errors.New("a delta does not fit the stored state")
	// ErrCursor is returned by List for a cursor that List did not give.
	ErrCursor = errors.New("the cursor is not one that a listing gave")
	// ErrClosed is returned by Wait when the store is closed meanwhile, and by lookups behind it.
	ErrClosed = errors.New("the state store is closed")
	// ErrAnchor is what every AnchorError is.
	ErrAnchor = errors.New("the log is not the one that the stored state was folded from")
	// ErrIndexes is returned by CheckIndexes, once for each fault found.
	ErrIndexes = errors.New("the indexes do not fit the tasks")
)
