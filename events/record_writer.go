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

// attributes writes the headers that all our records have. The caller has appended the ce_id. Facts, work requests, reports
// and submissions of the engine itself have no other attributes of CloudEvents: their key is the subject, and their value is JSON.
func (w *recordWriter) attributes(s Subject, kind []byte) {
	w.constant(HeaderSpecVersion, bytesSpecVersion)
	w.mark(HeaderID)
	w.header(HeaderSource, s.Source)
	w.constant(HeaderType, kind)
	if s.Time != 0 {
		w.B = s.Time.append(w.B)
		w.mark(HeaderTime)
	}
	w.headerIf(HeaderTraceparent, s.Traceparent)
}

// attributeCount is how many headers attributes writes.
func attributeCount(s Subject) int { return 4 + count(s.Time != 0) + count(s.Traceparent != "") }

func count(there bool) int {
	if there {
		return 1
	}
	return 0
}

// attributeBytes is the approximate size of the values of these headers.
func attributeBytes(s Subject) int {
	return len(s.ID) + len(s.Source) + len(jsontext.InstantLayout) + len(s.Traceparent)
}

// record returns the record whose value ends at the byte value, where its headers begin. Its key comes last.
func (w *recordWriter) record(key string, value int) Record {
	r := Record{Value: w.B[:value:value], Headers: w.headers}
	end := len(w.B)
	w.B = append(w.B, key...)
	r.Key = w.B[end:len(w.B):len(w.B)]
	at := value
	for i := range r.Headers {
		h := &r.Headers[i]
		if h.Value != nil {
			continue
		}
		end := w.ends[i]
		h.Value = w.B[at:end:end]
		at = end
	}
	return r
}

// encode returns the record for an arbitrary value.
func encode(v any, key, kind, subject string, s Subject) (Record, error) {
	b, err := Marshal(v)
	if err != nil {
		return Record{}, err
	}
	w := newRecordWriter(len(b)+attributeBytes(s)+len(subject)+len(key), attributeCount(s)+2)
	w.B = append(w.B, b...)
	value := len(w.B)
	w.Literal(s.ID)
	w.attributes(s, []byte(kind))
	w.constant(HeaderContentType, bytesJSON)
	w.headerIf(HeaderSubject, subject)
	return w.record(key, value), nil
}
