package events

import "github.com/sagalog/sagalog/internal/jsontext"

// recordWriter writes a record: its value, followed by the values of its headers, all in one piece of memory that the record
// keeps. It needs a second piece only if the initial size was too small.
type recordWriter struct {
	jsontext.Writer
	// headers do not have their values yet, except for the values that are the same in all records.
	headers []Header
	// ends holds where each value ends in B.
	ends [16]int
}

func newRecordWriter(size, headers int) recordWriter {
	return recordWriter{Writer: jsontext.Writer{B: make([]byte, 0, size)}, headers: make([]Header, 0, headers)}
}

// The constant header values. All records share them, because nobody changes the bytes of a record.
var (
	bytesSpecVersion = []byte(specVersion)
	bytesJSON        = []byte(contentJSON)
	bytesWork        = []byte(TypeWork)
	bytesReport      = []byte(TypeReport)
	bytesOfFact      = factTypes()
)

func factTypes() map[Name][]byte {
	types := make(map[Name][]byte, len(names))
	for _, name := range names {
		types[name] = []byte(TypePrefix + string(name))
	}
	return types
}

// mark ends the value of a header.
func (w *recordWriter) mark(key string) {
	w.ends[len(w.headers)] = len(w.B)
	w.headers = append(w.headers, Header{Key: key})
}

func (w *recordWriter) constant(key string, value []byte) {
	w.headers = append(w.headers, Header{key, value})
}

func (w *recordWriter) header(key, value string) {
	w.B = append(w.B, value...)
	w.mark(key)
}

// headerIf writes no header for an absent attribute: CloudEvents 1.0 forbids empty ones.
func (w *recordWriter) headerIf(key, value string) {
	if value != "" {
		w.header(key, value)
	}
}

// attributes writes the headers that all our records have. The caller has appended the ce_id.
func (w *recordWriter) attributes(s Subject, kind []byte, subject string) {
	w.constant(HeaderSpecVersion, bytesSpecVersion)
	w.mark(HeaderID)
	w.header(HeaderSource, s.Source)
	w.constant(HeaderType, kind)
	w.constant(HeaderContentType, bytesJSON)
	if s.Time != 0 {
		w.B = s.Time.append(w.B)
		w.mark(HeaderTime)
	}
	w.headerIf(HeaderSubject, subject)
	w.headerIf(HeaderTraceparent, s.Traceparent)
}

// attributeCount is how many headers attributes writes.
func attributeCount(s Subject, subject string) int {
	return 5 + count(s.Time != 0) + count(subject != "") + count(s.Traceparent != "")
}

func count(there bool) int {
	if there {
		return 1
	}
	return 0
}

// attributeBytes is the approximate size of the values of these headers.
func attributeBytes(s Subject, subject string) int {
	return len(s.ID) + len(s.Source) + len(jsontext.InstantLayout) + len(subject) + len(s.Traceparent)
}

// record returns the record whose value ends at the byte value, where its headers begin.
func (w *recordWriter) record(key string, value int) Record {
	r := Record{Value: w.B[:value:value], Headers: w.headers}
	at := value
	for i := range r.Headers {
		h := &r.Headers[i]
		if h.Value != nil {
			continue
		}
		end := w.ends[i]
		h.Value = w.B[at:end:end]
		at = end
		if h.Key == HeaderSubject && string(h.Value) == key {
			r.Key = h.Value
		}
	}
	if r.Key == nil {
		r.Key = []byte(key)
	}
	return r
}

// encode returns the record for an arbitrary value.
func encode(v any, key, kind, subject string, s Subject) (Record, error) {
	b, err := Marshal(v)
	if err != nil {
		return Record{}, err
	}
	w := newRecordWriter(len(b)+attributeBytes(s, subject), attributeCount(s, subject))
	w.B = append(w.B, b...)
	value := len(w.B)
	w.Literal(s.ID)
	w.attributes(s, []byte(kind), subject)
	return w.record(key, value), nil
}
