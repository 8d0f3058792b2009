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

// FactID returns the ce_id of a fact: "<partition>/<epoch>/<sequence>", and for the two that stand in no epoch
// "<partition>/claim/<id>" and "<partition>/namespace/<id>".
func FactID(f *Fact, partition int32) string {
	at := strconv.Itoa(int(partition)) + "/"
	switch b := f.Body.(type) {
	case *PartitionClaimed:
		return at + "claim/" + b.ID
	case *NamespaceCreated:
		return at + "namespace/" + b.ID
	}
	return at + f.Position().String()
}

// outsideEpochs says whether facts of that name carry neither epoch nor sequence.
func outsideEpochs(n Name) bool { return n == NamePartitionClaimed || n == NameNamespaceCreated }

func padded(n uint64) []byte {
	s := strconv.FormatUint(n, 10)
	if len(s) >= sequenceDigits {
		return []byte(s)
	}
	return []byte(strings.Repeat("0", sequenceDigits-len(s)) + s)
}

// DecodeFact reads a record of <ns>.events. Its error means that the partition must stop: only owners write there.
//
// Where epoch and sequence can be read and the rest cannot, the body is an *Unreadable, and it is Apply that stops:
// only the fold can tell whether the record is void, and a void record stops nobody. (A newer owner switches on a new
// kind of fact by a VersionBarrier, is deposed before both land, and they land as void records: an older reader must
// pass them.)
func DecodeFact(r *Record) (*Fact, error) {
	f := &Fact{Task: r.Header(HeaderSubject), Cause: Cause(r.Header(HeaderCause)), CauseID: r.Header(HeaderCauseID),
		CauseHash: r.Header(HeaderCauseHash), Traceparent: r.Header(HeaderTraceparent)}
	kind, ok := strings.CutPrefix(r.Header(HeaderType), TypePrefix)
	if !ok {
		return nil, fmt.Errorf("%w: ce_type %q at offset %d of partition %d", ErrUnknownFact, r.Header(HeaderType), r.Offset, r.Partition)
	}
	if err := f.readPosition(Name(kind), r); err != nil {
		return nil, fmt.Errorf("%s at offset %d of partition %d: %w", kind, r.Offset, r.Partition, err)
	}
	if err := f.readBody(Name(kind), r); err != nil {
		err = fmt.Errorf("%s at offset %d of partition %d: %w", kind, r.Offset, r.Partition, err)
		if outsideEpochs(Name(kind)) {
			return nil, err
		}
		f.Body = &Unreadable{Kind: Name(kind), Err: err}
	}
	return f, nil
}

func (f *Fact) readPosition(kind Name, r *Record) (err error) {
	if outsideEpochs(kind) {
		return nil
	}
	if f.Epoch, err = ParseEpoch(r.Header(HeaderEpoch)); err != nil {
		return err
	}
	f.Sequence, err = strconv.ParseUint(r.Header(HeaderSequence), 10, 64)
	return err
}

func (f *Fact) readBody(kind Name, r *Record) (err error) {
	if f.Time, err = ParseInstant(r.Header(HeaderTime)); err != nil {
		return err
	}
	if err = f.Settled.UnmarshalText([]byte(r.Header(HeaderSettled))); err != nil {
		return err
	}
	if f.Body, err = NewBody(kind); err != nil {
		return err
	}
	return json.Unmarshal(r.Value, f.Body)
}
