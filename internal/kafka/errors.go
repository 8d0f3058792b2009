package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	// ErrClosed is returned for what was in flight when its producer, reader or group was closed. For a record it
	// means that its outcome is unknown: it may be in the log.
	ErrClosed = errors.New("kafka client closed")
	// ErrEpochEnded is returned by OwnerProducer.Append after an earlier append failed: appending on would leave a hole.
	ErrEpochEnded = errors.New("an earlier append of this producer failed")
	// ErrTooManyInFlight is returned by OwnerProducer.Append when more records wait for their answer than MaxInFlight.
	ErrTooManyInFlight = errors.New("too many records wait for their acknowledgement")
	// ErrNoRecord is returned by ReadAt for an offset inside the log that holds no record (any more).
	ErrNoRecord = errors.New("no record at that offset")
	// ErrUnknownTopic is returned when the cluster has no such topic or partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrFenced is returned by a Group whose static name was taken over by another process. It does not come back by
	// itself, since the two would push each other out for ever.
	ErrFenced = errors.New("another process has joined under the same instance name")
	// ErrRecreated is returned by a Group one of whose topics was deleted and made again. Its client keeps to the old one, and
	// reads nothing more of it: whoever wants the new one joins anew.
	ErrRecreated = errors.New("a topic was deleted and made again: start this process again, and it reads the new one")
	// ErrDenied is returned by a Group that the cluster does not let in, or whose topics it may not see.
	ErrDenied = errors.New("not authorized")
)

// LockedError is returned by OpenBroker when another process has the data directory open.
type LockedError struct {
	Path string
	// Holder is what the holder wrote into the lock file: its process ID and its start.
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

// PortBusyError is returned by OpenBroker when something else listens on the address.
type PortBusyError struct{ Addr string }

func (e *PortBusyError) Error() string {
	return fmt.Sprintf("%s is in use: stop what listens there, or choose another address (port 0 takes a free one)", e.Addr)
}

// DamageError is returned by OpenBroker when a log on disk has a hole or a damaged batch that is not its last one, so
// that going on would lose acknowledged records without a word. Where the last run had Fsync, what it had not synced yet
// is no damage, and its last batch is if it was.
type DamageError struct {
	Topic     string
	Partition int32
	File      string
	// Position is where in the file the damage begins, in bytes.
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

// OutOfRangeError is returned when a position lies outside the log: below its start, because records were deleted, or
// behind its end, because records were lost. The reader has stopped there; it never moves by itself.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s partition %d: offset %d is outside the log", e.Topic, e.Partition, e.Offset)
}

func (e *OutOfRangeError) Unwrap() error { return kerr.OffsetOutOfRange }

// DataLossError is returned when the log diverged from what was read of it: an unclean leader election lost records.
// The reader has stopped there.
type DataLossError struct {
	Topic     string
	Partition int32
	// ReadTo is the position that had been reached; everything from LostFrom on may have been replaced.
	ReadTo   int64
	LostFrom int64
}

func (e *DataLossError) Error() string {
	return fmt.Sprintf("%s partition %d lost records: read to offset %d, and what follows offset %d has been replaced",
		e.Topic, e.Partition, e.ReadTo, e.LostFrom)
}

// TooLargeError is returned for a batch that unpacks to more than ReaderConfig.MaxDecompress. The reader has stopped
// in front of it; Add with Next skips it.
type TooLargeError struct {
	Topic     string
	Partition int32
	// Offset is the first offset of the batch, Next the one behind it.
	Offset, Next int64
	LeaderEpoch  int32
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s partition %d: the batch at offset %d unpacks to more than the limit; the next one is at %d",
		e.Topic, e.Partition, e.Offset, e.Next)
}

// TopicProblem is one setting of a topic that is not as it must be.
type TopicProblem struct {
	Topic, Setting, Value, Want string
	// Remedy is what an operator can do, most often a command.
	Remedy string
}

func (p TopicProblem) String() string { return p.what() + ". Remedy: " + p.Remedy }

func (p TopicProblem) what() string {
	return fmt.Sprintf("topic %s: %s is %s, must be %s", p.Topic, p.Setting, p.Value, p.Want)
}

// AuditError is returned by Audit when settings could lose facts, or when a partition count has changed.
type AuditError struct{ Problems []TopicProblem }

func (e *AuditError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// TimeoutError is returned when an answer did not come in time, so that the outcome of a produce is unknown.
type TimeoutError struct {
	Act   string
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("%s: no answer after %s", e.Act, e.After) }

var permanentCodes = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
	kerr.InvalidTopicException, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.InvalidRequiredAcks,
	kerr.UnsupportedForMessageFormat, kerr.UnsupportedVersion, kerr.UnsupportedCompressionType, kerr.PolicyViolation,
}

// kgo has no name for this error; TestProduceToAMissingPartitionIsPermanent notices when its text changes.
const badPartitionText = "invalid record partitioning choice"

// IsPermanent tells whether sending the same record again cannot succeed. Brokers refuse whole batches, so a record may
// fail for its neighbour's fault: whoever gives up on a record sends it once more alone before.
func IsPermanent(err error) bool {
	if err == nil {
		return false
	}
	for _, code := range permanentCodes {
		if errors.Is(err, code) {
			return true
		}
	}
	return strings.Contains(err.Error(), badPartitionText)
}

// fromClient gives the client's errors our names.
func fromClient(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("%w: %w", ErrUnknownTopic, err)
	}
	return err
}
