package events

import "encoding/json"

// TaskProcessed ends a task that succeeded.
type TaskProcessed struct {
	Output json.RawMessage `json:"output,omitempty"`
	// Release is that of its permit.
	Release *PermitReleased `json:"release,omitempty"`
}

// TaskUndone ends a task all of whose effects are undone.
type TaskUndone struct {
	Reason string `json:"reason,omitempty"`
	// Left lists the steps that an operator left as they are, although their undo did not succeed.
	Left []string `json:"left,omitempty"`
	// Release is that of its permit.
	Release *PermitReleased `json:"release,omitempty"`
}

// TaskTerminated ends a task where it stands.
type TaskTerminated struct {
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
	// NotUndone are the steps that may have had an effect and are not undone, in the order in which they started. Those whose undo an
	// operator skipped are among them.
	NotUndone []string `json:"not_undone,omitempty"`
	// Release is that of its permit.
	Release *PermitReleased `json:"release,omitempty"`
}
