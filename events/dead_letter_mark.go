package events

// DeadLetterMark is the value of a record of the definitions with the type TypeDeadLetterMark: what somebody has done about a dead
// letter. The letter itself stays as it is, for as long as its topic keeps it.
type DeadLetterMark struct {
	// Letter is the ID of the dead letter: input, partition and offset, as in submissions-3-17.
	Letter string `json:"letter"`
	// Written is the timestamp of that record: another record with the same ID, in a topic that was made again, has no mark.
	Written Instant `json:"written"`
	// Mark is MarkRedriven or MarkDismissed; an empty one takes an earlier mark back.
	Mark string `json:"mark,omitempty" schema:"words:Mark*"`
	// Task is that of the input that was sent again, and Partition and Offset are where it stands; Offset is negative if it was already known.
	Task      string `json:"task,omitempty"`
	Partition int32  `json:"partition,omitzero"`
	Offset    int64  `json:"offset,omitzero"`
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
}

// The marks of a dead letter.
const (
	MarkRedriven  = "redriven"
	MarkDismissed = "dismissed"
)

// Key is the key of its record. The latest record of a key counts.
func (m *DeadLetterMark) Key() string { return "dead-letter/" + m.Letter }
