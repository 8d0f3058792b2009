package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// sequenceDigits pads the sequence, so that it sorts as text: CloudEvents' sequence extension is a string.
const sequenceDigits = 12

// EncodeFact returns the record of a fact for its partition of <ns>.events; key = task ID, none for a fact about the
// partition. source is the ce_source, such as "/sagalog/events/3".
func EncodeFact(f *Fact, partition int32, source string) (Record, error) {
	value, err := Marshal(f.Body)
	if err != nil {
		return Record{}, err
	}
	e := Envelope{
		ID: FactID(f, partition), Source: source, Type: TypePrefix + string(f.Body.Name()), Time: f.Time.String(),
		Subject: f.Task, Traceparent: f.Traceparent,
	}
	var extra [6]Header
	h := extra[:0]
	if f.Epoch.N > 0 {
		h = append(h, Header{HeaderEpoch, []byte(f.Epoch.String())}, Header{HeaderSequence, padded(f.Sequence)})
	}
	for _, x := range [...]struct{ key, value string }{
		{HeaderCause, string(f.Cause)}, {HeaderCauseID, f.CauseID}, {HeaderCauseHash, f.CauseHash},
		{HeaderSettled, f.Settled.String()},
	} {
		if x.value != "" {
			h = append(h, Header{x.key, []byte(x.value)})
		}
	}
	r := Record{Partition: partition, Value: value, Headers: seal(e, h...)}
	if f.Task != "" {
		r.Key = []byte(f.Task)
	}
	return r, nil
}

// FactID returns the ce_id of a fact: "<partition>/<epoch>/<sequence>", and "<partition>/claim/<id>" for a claim.
func FactID(f *Fact, partition int32) string {
	if c, ok := f.Body.(*PartitionClaimed); ok {
		return strconv.Itoa(int(partition)) + "/claim/" + c.ID
	}
	return strconv.Itoa(int(partition)) + "/" + f.Position().String()
}

func padded(n uint64) []byte {
	s := strconv.FormatUint(n, 10)
	if len(s) >= sequenceDigits {
		return []byte(s)
	}
	return []byte(strings.Repeat("0", sequenceDigits-len(s)) + s)
}

// DecodeFact reads a record of <ns>.events. Its error means that the partition must stop: only owners write there.
func DecodeFact(r *Record) (*Fact, error) {
	f := &Fact{Task: r.Header(HeaderSubject), Cause: Cause(r.Header(HeaderCause)), CauseID: r.Header(HeaderCauseID),
		CauseHash: r.Header(HeaderCauseHash), Traceparent: r.Header(HeaderTraceparent)}
	kind, ok := strings.CutPrefix(r.Header(HeaderType), TypePrefix)
	if !ok {
		return nil, fmt.Errorf("%w: ce_type %q at offset %d of partition %d", ErrUnknownFact, r.Header(HeaderType), r.Offset, r.Partition)
	}
	var err error
	if f.Body, err = NewBody(Name(kind)); err != nil {
		return nil, fmt.Errorf("offset %d of partition %d: %w", r.Offset, r.Partition, err)
	}
	if err := f.readHeaders(r); err != nil {
		return nil, fmt.Errorf("%s at offset %d of partition %d: %w", kind, r.Offset, r.Partition, err)
	}
	if err := json.Unmarshal(r.Value, f.Body); err != nil {
		return nil, fmt.Errorf("%s at offset %d of partition %d: %w", kind, r.Offset, r.Partition, err)
	}
	return f, nil
}

func (f *Fact) readHeaders(r *Record) (err error) {
	if f.Time, err = ParseInstant(r.Header(HeaderTime)); err != nil {
		return err
	}
	if err := f.Settled.UnmarshalText([]byte(r.Header(HeaderSettled))); err != nil {
		return err
	}
	if _, ok := f.Body.(*PartitionClaimed); ok {
		return nil
	}
	if f.Epoch, err = ParseEpoch(r.Header(HeaderEpoch)); err != nil {
		return err
	}
	f.Sequence, err = strconv.ParseUint(r.Header(HeaderSequence), 10, 64)
	return err
}
