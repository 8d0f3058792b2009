package projector

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// Anchor ties the stored state to the log that it was folded from: it identifies the last folded record and holds its hash.
// A log that lost its tail and grew again, or a topic that was deleted and recreated, has another record there.
type Anchor struct {
	TopicID TopicID `json:"topic_id"`
	Offset  int64   `json:"offset"`
	// LeaderEpoch is passed to franz-go when reading resumes, so that it detects a truncated log. Check does not compare it:
	// a copy of the log has other leader epochs.
	LeaderEpoch int32  `json:"leader_epoch,omitzero"`
	Hash        string `json:"hash"`
}

// IsZero reports whether no record was folded.
func (a Anchor) IsZero() bool { return a == Anchor{} }

// AnchorOf returns the anchor of the last folded record.
func AnchorOf(topic TopicID, r *events.Record) Anchor {
	return Anchor{TopicID: topic, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Hash: events.HashRecord(r)}
}

// Difference says how a log differs from the anchor.
type Difference string

// The differences that Check finds.
const (
	TopicRecreated Difference = "the topic was deleted and recreated"
	RecordLost     Difference = "the last folded record is no longer in the log"
	RecordOther    Difference = "there is another record at the offset of the last folded one"
)

// AnchorError is returned by Check for a log that the state was not folded from. The state is unusable: the caller logs that
// as an error, resets the partition, and folds the log from its beginning. It wraps ErrAnchor.
type AnchorError struct {
	Difference Difference
	Anchor     Anchor
	// TopicID and Hash are what was found.
	TopicID TopicID
	Hash    string
}

// Error says what differs and what was compared.
func (e *AnchorError) Error() string {
	a := e.Anchor
	return fmt.Sprintf("%s: %s (topic %s, offset %d, hash %s; found topic %s, hash %s)",
		ErrAnchor, e.Difference, a.TopicID, a.Offset, a.Hash, e.TopicID, e.Hash)
}

// Unwrap returns ErrAnchor.
func (e *AnchorError) Unwrap() error { return ErrAnchor }

// Check compares the log with the anchor. read returns the record at an offset, and false if it does not exist, because it
// is above the end or deleted. A zero anchor matches every log.
func Check(a Anchor, topic TopicID, read func(offset int64) (events.Record, bool, error)) error {
	if a.IsZero() {
		return nil
	}
	if a.TopicID != topic {
		return &AnchorError{Difference: TopicRecreated, Anchor: a, TopicID: topic}
	}
	r, ok, err := read(a.Offset)
	if err != nil {
		return fmt.Errorf("read the record at the anchor: %w", err)
	}
	if !ok {
		return &AnchorError{Difference: RecordLost, Anchor: a, TopicID: topic}
	}
	if found := events.HashRecord(&r); found != a.Hash {
		return &AnchorError{Difference: RecordOther, Anchor: a, TopicID: topic, Hash: found}
	}
	return nil
}
