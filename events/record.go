package events

// Record is a Kafka record as the pure parts see it. internal/kafka converts it from and to kgo's, so that only
// that package imports a Kafka client.
//
// The slices of a record that was read belong to its reader. Nobody changes their bytes.
type Record struct {
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	// Timestamp is the record's time, set by the broker or the producer. No decision depends on it.
	Timestamp Instant
	Key       []byte
	// Value is nil for a tombstone.
	Value   []byte
	Headers []Header
	// Unread is how many offsets the record stands for, if it stands for a batch, or the rest of one, that is larger than a
	// reader takes when decompressed; such a record has coordinates but no bytes. Zero if the record was read.
	Unread int64
	// Control marks a transaction marker, which holds no data but takes an offset.
	Control bool
}

// ByKey is the partition of a record to be produced that means the one that Kafka's default partitioner chooses by the key.
const ByKey int32 = -1

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Header returns the value of the last header with that key, or "" if the record has no such header.
func (r *Record) Header(key string) string { return string(r.HeaderBytes(key)) }

// HeaderBytes returns what Header returns, without a copy: it is the record's, and nil if the record has no such header.
func (r *Record) HeaderBytes(key string) []byte {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value
		}
	}
	return nil
}

// Next returns the offset after the record.
func (r *Record) Next() int64 { return r.Offset + max(r.Unread, 1) }

// Size returns the number of bytes of key, value and headers, which is compared with limits.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
