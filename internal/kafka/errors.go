package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	// ErrClosed is returned for everything that is unanswered when its producer, reader or group is closed. The outcome of such a
	// record is unknown: it may be in the log.
	ErrClosed = errors.New("kafka client closed")
	// ErrEpochEnded is returned by OwnerProducer.Append after an earlier append failed: another one would leave a hole.
	ErrEpochEnded = errors.New("an earlier append of this producer failed")
	// ErrTooManyInFlight is returned by OwnerProducer.Append when more than OwnerMaxInFlight records would be unanswered.
	ErrTooManyInFlight = errors.New("too many records wait for their acknowledgement")
	// ErrNoRecord is returned by ReadAt for an offset inside the log without a record, because of compaction.
	ErrNoRecord = errors.New("no record at that offset")
	// ErrUnknownTopic is returned when the cluster has no such topic or partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrFenced is returned by a Group whose instance name has joined again elsewhere, as the coordinator says: another process, or a
	// join of this one whose answer was lost. The Group does not join again: two processes would push each other out forever.
	ErrFenced = errors.New("another process has joined under the same instance name")
	// ErrRecreated is returned by a Group if one of its topics was deleted and recreated. Its client sticks to the old topic and
	// reads nothing more.
	ErrRecreated = errors.New("a topic was deleted and created again: restart this process to read the new one")
	// ErrDenied is returned by a Group if the cluster does not let it join or see its topics.
	ErrDenied = errors.New("not authorized")
)

// OutOfRangeError is returned for a position outside the log: below its start, because records were deleted, or above its end, because
// records were lost. The reader has stopped there and never moves by itself.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s partition %d: offset %d is outside the log", e.Topic, e.Partition, e.Offset)
}

func (e *OutOfRangeError) Unwrap() error { return kerr.OffsetOutOfRange }

// DataLossError is returned if the log no longer matches the records that were read from it: an unclean leader election lost records. The
// reader has stopped there.
type DataLossError struct {
	Topic     string
	Partition int32
	// ReadTo is the position that the reader had reached. Everything from LostFrom on may have been replaced.
	ReadTo   int64
	LostFrom int64
}

func (e *DataLossError) Error() string {
	return fmt.Sprintf("%s partition %d lost records: it was read to offset %d, and everything from offset %d on has been replaced",
		e.Topic, e.Partition, e.ReadTo, e.LostFrom)
}

// TooLargeError is returned for a batch that exceeds the limit when decompressed. The reader has stopped before it. Add with Next
// skips it.
type TooLargeError struct {
	Topic     string
	Partition int32
	// Offset is the first offset of the batch. Next is the offset after it.
	Offset, Next int64
	LeaderEpoch  int32
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s partition %d: the batch at offset %d unpacks to more than the limit; the next one is at %d",
		e.Topic, e.Partition, e.Offset, e.Next)
}

// TimeoutError is returned if an answer did not come in time.
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

// kgo exports no error for this; the suite fails when its text changes.
const badPartitionText = "invalid record partitioning choice"

// IsPermanent reports whether sending the same record again cannot succeed. Brokers refuse whole batches, so a record may fail because of
// its neighbour. Before a caller gives up on a record, it sends it once more alone.
func IsPermanent(err error) bool {
	return err != nil && (isOneOf(err, permanentCodes) || strings.Contains(err.Error(), badPartitionText))
}

func isOneOf(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// fromClient maps the client's errors to ours.
func fromClient(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("%w: %w", ErrUnknownTopic, err)
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("%w: %w", events.ErrTooLarge, err)
	}
	return err
}
