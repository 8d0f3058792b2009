package events

// sealer writes a record: its value, and behind it the values of its headers, all in one piece of memory that becomes the
// record's own. Whoever makes one tells the size; where that is too small, a second piece is made.
type sealer struct {
	encoder
	// headers are without their values, except those that are the same in all records.
	headers []Header
	// ends are where the values end in b.
	ends [16]int
}

func newSealer(size, headers int) sealer {
	return sealer{encoder: encoder{b: make([]byte, 0, size)}, headers: make([]Header, 0, headers)}
}

// The header values that never change, shared by all records: nobody changes the bytes of a record.
var (
	bytesSpecVersion = []byte(specVersion)
	bytesJSON        = []byte(contentJSON)
	bytesWork        = []byte(TypeWork)
	bytesReport      = []byte(TypeReport)
	bytesOfFact      = factTypes()
)

func factTypes() map[Name][]byte {
	types := make(map[Name][]byte, len(bodies))
	for name := range bodies {
		types[name] = []byte(TypePrefix + string(name))
	}
	return types
}

// mark ends the value of a header.
func (e *sealer) mark(key string) {
	e.ends[len(e.headers)] = len(e.b)
	e.headers = append(e.headers, Header{Key: key})
}

func (e *sealer) constant(key string, value []byte) {
	e.headers = append(e.headers, Header{key, value})
}

func (e *sealer) header(key, value string) {
	e.b = append(e.b, value...)
	e.mark(key)
}

// headerIf writes no header for an absent attribute: CloudEvents 1.0 forbids empty ones.
func (e *sealer) headerIf(key, value string) {
	if value != "" {
		e.header(key, value)
	}
}

// attributes writes the headers that all records of ours have. The caller has appended the ce_id.
func (e *sealer) attributes(s Subject, kind []byte, subject string) {
	e.constant(HeaderSpecVersion, bytesSpecVersion)
	e.mark(HeaderID)
	e.header(HeaderSource, s.Source)
	e.constant(HeaderType, kind)
	e.constant(HeaderContentType, bytesJSON)
	if s.Time != 0 {
		e.b = s.Time.append(e.b)
		e.mark(HeaderTime)
	}
	e.headerIf(HeaderSubject, subject)
	e.headerIf(HeaderTraceparent, s.Traceparent)
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

// attributeBytes is about what the values of these headers take.
func attributeBytes(s Subject, subject string) int {
	return len(s.ID) + len(s.Source) + len(instantLayout) + len(subject) + len(s.Traceparent)
}

// record returns the record whose value ends at the byte value and whose headers stand behind it.
func (e *sealer) record(key string, value int) Record {
	r := Record{Value: e.b[:value:value], Headers: e.headers}
	at := value
	for i := range r.Headers {
		h := &r.Headers[i]
		if h.Value != nil {
			continue
		}
		end := e.ends[i]
		h.Value = e.b[at:end:end]
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

// encode returns the record of any value.
func encode(v any, key, kind, subject string, s Subject) (Record, error) {
	b, err := Marshal(v)
	if err != nil {
		return Record{}, err
	}
	e := newSealer(len(b)+attributeBytes(s, subject), attributeCount(s, subject))
	e.b = append(e.b, b...)
	value := len(e.b)
	e.literal(s.ID)
	e.attributes(s, []byte(kind), subject)
	return e.record(key, value), nil
}
